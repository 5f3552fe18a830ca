"""Examples of each drawing in lessons/lesson01/draw.py."""

import torch

from lessons.lesson01 import draw

WORDS = ["the", "dog", "bites", "the", "man"]
TOKENS = torch.tensor([0, 1, 2, 0, 3])
MATRIX = torch.tensor(
    [[1.5, -0.3, -2.2], [0.6, -1, -1.4], [0.4, 1, -0.7], [-0.4, 0, 1]]
)
TURNS = torch.tensor([1, 0.1, 0.01, 0.001])
DRAWINGS = {
    "embedding": lambda: draw.draw_embedding(
        WORDS, TOKENS, MATRIX, ["the", "dog", "bites", "man"]
    ),
    "sum": lambda: draw.draw_sum(WORDS[1:4], MATRIX[:3], -MATRIX[1:]),
    "hand": lambda: draw.draw_hand(0.9),
    "clocks": lambda: draw.draw_clocks(TURNS, (0, 1, 5, 20, 100, 500)),
    "step": lambda: draw.draw_step(
        {"from 0 to 3": 0, "from 2 to 5": 1, "from 9 to 12": 4.5}, 1.5
    ),
}
