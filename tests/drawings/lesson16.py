"""Examples of each drawing in lessons/lesson16/draw.py."""

from functools import partial

import torch

from lessons.lesson16 import draw

SEEN = torch.tensor([[True, True, False]] * 2)
DRAWINGS = {
    f"reading_{key}": partial(draw.draw_reading, key) for key in draw.READINGS
} | {
    "masks": lambda: draw.draw_masks(
        {"A": SEEN[:1], "B": 2, "D": ~SEEN, "E": SEEN},
        ["le", "chat"],
        ["the", "cat", "."],
    )
}
