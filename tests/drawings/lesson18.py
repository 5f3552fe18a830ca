"""Examples of each drawing in lessons/lesson18/draw.py."""

import torch

from helpers.masks import causal_mask
from lessons.lesson18 import draw

WORDS = ["<bos>", "the", "cat", "sleeps", ".", "=>", "le", "chat", "dort", ".", "<eos>"]
CAUSAL = causal_mask(10)[0, 0]
PREFIX = CAUSAL | (torch.arange(10) < 6)
DRAWINGS = {
    "who_sees_whom": lambda: draw.draw_who_sees_whom(
        {"encoder and decoder": PREFIX, "decoder-only": CAUSAL, "prefix": PREFIX},
        WORDS[:-1],
        6,
    ),
    "shifted": lambda: draw.draw_shifted(
        WORDS, {"on everything": [True] * 11, "on the answer": [False] * 6 + [True] * 5}
    ),
    "prefill": lambda: draw.draw_prefill(WORDS[:6], WORDS[6:]),
}
