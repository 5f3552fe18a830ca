"""Examples of each drawing in helpers/plots/mechanisms/readings.py."""

from functools import partial

import torch

from helpers.plots.mechanisms import readings

SEEN = torch.tensor([[True, True, False]] * 2)
DRAWINGS = {
    f"reading_{key}": partial(readings.draw_reading, key) for key in readings.READINGS
} | {
    "masks": lambda: readings.draw_masks(
        {"A": SEEN[:1], "B": 2, "D": ~SEEN, "E": SEEN},
        ["le", "chat"],
        ["the", "cat", "."],
    )
}
