"""Examples of each drawing in helpers/plots/mechanisms/attention.py."""

import torch

from helpers.plots.mechanisms import attention

FOODS = ["apple", "lemon", "bread"]
QUERY = torch.tensor([[2.0, 1.0], [1.0, 2.0]])
KEY = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
VALUE = torch.tensor([[10.0, 2.0, 0.0, 5.0], [2.0, 3.0, 1.0, 3.0], [5.0, 3.0, 9, 26]])
FRUITS = ["orange", "grapefruit"]
MASK = torch.tensor([[False, True, True], [True, True, False]])
DRAWINGS = {
    "look_up": lambda: attention.draw_look_up(QUERY[0], KEY, VALUE[:, 0], FOODS),
    "attention": lambda: attention.draw_attention(QUERY, KEY, VALUE, FRUITS, FOODS),
    "hidden": lambda: attention.draw_hidden(QUERY @ KEY.mT, MASK, FRUITS, FOODS),
    "self_attention": lambda: attention.draw_self_attention(6, 16, 8, 4),
    "round": lambda: attention.draw_round(FOODS + FRUITS, [3, 0, 1, 4, 2]),
}
