"""Examples of each drawing in lessons/lesson13/draw.py."""

import torch

from lessons.lesson13 import draw

DRAWINGS = {
    "merges": lambda: draw.draw_merges(
        ["▁Hunde", "▁rund"], [("n", "d"), ("u", "nd"), ("▁", "H"), ("▁H", "und")]
    ),
    "bootstrap": lambda: draw.draw_bootstrap(
        [[0, 2, 2, 4, 1], [3, 3, 0, 1, 2]], [39.4, 41.0]
    ),
    "resampled": lambda: draw.resampled(
        {"a": torch.randn(50), "b": torch.randn(50)},
        {"paired": torch.rand(50), "unpaired": torch.randn(50)},
    ),
}
