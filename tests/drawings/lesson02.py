"""Examples of each drawing in lessons/lesson02/draw.py."""

import torch

from lessons.lesson02 import draw

FOODS = ["apple", "lemon", "bread"]
QUERY = torch.tensor([[2.0, 1.0], [1.0, 2.0]])
KEY = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
VALUE = torch.tensor([[10.0, 2.0, 0.0, 5.0], [2.0, 3.0, 1.0, 3.0], [5.0, 3.0, 9, 26]])
FRUITS = ["orange", "grapefruit"]
MASK = torch.tensor([[False, True, True], [True, True, False]])
DRAWINGS = {
    "look_up": lambda: draw.draw_look_up(QUERY[0], KEY, VALUE[:, 0], FOODS),
    "attention": lambda: draw.draw_attention(QUERY, KEY, VALUE, FRUITS, FOODS),
    "hidden": lambda: draw.draw_hidden(QUERY @ KEY.mT, MASK, FRUITS, FOODS),
    "self_attention": lambda: draw.draw_self_attention(6, 16, 8, 4),
}
