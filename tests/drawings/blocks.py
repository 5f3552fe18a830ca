"""Examples of each drawing in helpers/plots/mechanisms/blocks.py."""

import torch

from helpers.plots.mechanisms import blocks

RUNNING = {
    "exp(maximum)": [2, 2, 4, 8, 8],
    "total": [1, 1.5, 1.75, 1.875, 2],
    "mixed": [10, 10, 25, 52.5, 56.25],
}
CAUSAL = torch.ones(24, 24).tril() == 1
VISITED = torch.ones(6, 6).tril() == 1
NAMES = ("window", "two documents")
DRAWINGS = {
    "running": lambda: blocks.draw_running([2, 1, 4, 8, 1], RUNNING),
    "tiles": lambda: blocks.draw_tiles(3, 12),
    "backward": blocks.draw_backward,
    "visited": lambda: blocks.draw_visited(
        dict.fromkeys(NAMES, CAUSAL), dict.fromkeys(NAMES, VISITED), 4
    ),
}
