"""Examples of each drawing in lessons/lesson03/draw.py."""

import torch

from helpers.masks import causal_mask, decoder_mask, padding_mask
from lessons.lesson03 import draw

WORDS = ["<bos>", "the", "cat", "sleeps", "<eos>"]
DOCUMENTS = [WORDS[:4], ["<bos>", "she", "reads"]]
TOKENS = torch.tensor([[4, 5, 6, 0, 0], [7, 8, 9, 4, 5]])
PADDED = ["the", "cat", "sleeps", "<pad>", "<pad>"]
LETTER = ["she", "reads", "a", "long", "letter"]
PANELS = {
    "sentence 1": (padding_mask(TOKENS)[0, 0].expand(5, 5), PADDED),
    "sentence 2": (padding_mask(TOKENS)[1, 0].expand(5, 5), LETTER),
}
BOTH = padding_mask(TOKENS), causal_mask(5), decoder_mask(TOKENS)
DRAWINGS = {
    "shift": lambda: draw.draw_shift(WORDS),
    "masks": lambda: draw.draw_masks(PANELS, "Padding"),
    "one_mask": lambda: draw.draw_masks({"": (BOTH[1][0, 0], LETTER)}, "Causal mask"),
    "and": lambda: draw.draw_and(*BOTH, ["sentence 1", "sentence 2"]),
    "packing": lambda: draw.draw_packing(DOCUMENTS),
}
