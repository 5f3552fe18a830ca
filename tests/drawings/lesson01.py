"""Examples of each drawing in lessons/lesson01/draw.py."""

import torch

from lessons.lesson01 import draw

WORDS = ["the", "dog", "bites", "the", "man"]
TOKENS = torch.tensor([0, 1, 2, 0, 3])
MATRIX = torch.linspace(-2.2, 1.5, 12).view(4, 3)
TURNS = torch.tensor([1, 0.1, 0.01, 0.001])
DRAWINGS = {
    "embedding": lambda: draw.draw_embedding(
        WORDS, TOKENS, MATRIX, ["the", "dog", "bites", "man"]
    ),
    "hand": lambda: draw.draw_hand(0.9),
    "clocks": lambda: draw.draw_clocks(TURNS, (0, 1, 5, 20, 100, 500)),
}
