"""Examples of each drawing in lessons/lesson16/draw.py."""

import torch

from lessons.lesson16 import draw

HEADS = torch.tensor([[0, 0], [1, 1]])
DRAWINGS = {
    "heads": lambda: draw.draw_heads({"by view": HEADS, "repaired": HEADS.T}),
    "who moves whom": lambda: draw.who_moves_whom(
        {name: torch.eye(size) for name, size in zip("abcd", (8, 8, 6, 6), strict=True)}
    ),
}
