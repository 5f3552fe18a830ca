"""Examples of each drawing in lessons/lesson08/draw.py."""

import torch

from helpers.transformer import TransformerConfig
from lessons.lesson08 import draw

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 2}


def words(ids):
    return ["<pad>" if i == 0 else f"word {i}" for i in ids]


def shapes(source_length, target_length):
    source = torch.full((2, source_length), 5)
    target = torch.full((2, target_length), 6)
    source[0, -2:] = 0
    config = TransformerConfig(20, 30, **SIZES, share_embeddings=False)
    draw.draw_shapes(source, target, (words, words), config)


DRAWINGS = {
    "shapes": lambda: shapes(10, 12),
    "shapes_of_shorter_ones": lambda: shapes(8, 7),
    "bar": lambda: draw.bar(
        {"token\nvectors": 30, "cross-attention": 10, "norms": 0.2, "other": 59.8},
        title="A bar",
        xlabel="parameters",
    ),
}
