"""Examples of each drawing in helpers/plots/mechanisms/model.py."""

import torch

from helpers.plots.mechanisms import model
from helpers.transformer import Transformer, TransformerConfig


def words(ids):
    return ["<pad>" if i == 0 else f"word {i}" for i in ids]


def shapes(source_length, target_length):
    config = TransformerConfig(30, 30, d_model=8, n_heads=2, d_ff=8, n_layers=1)
    source = torch.full((2, source_length), 5)
    target = torch.full((2, target_length), 6)
    source[0, -2:] = 0
    model.draw_shapes(Transformer(config), source, target, words)


def bar():
    names = (
        "token vectors",
        "encoder self-attention",
        "decoder self-attention",
        "cross-attention",
        "encoder feed-forward",
        "decoder feed-forward",
        "norms",
    )
    counts = dict(zip(names, (30, 10, 10, 10, 20, 20, 0), strict=True))
    model.parameter_bar(counts, title="A bar")


DRAWINGS = {
    "shapes": lambda: shapes(10, 12),
    "shapes_of_shorter_ones": lambda: shapes(8, 7),
    "bar": bar,
    "same_row": model.draw_same_row,
}
