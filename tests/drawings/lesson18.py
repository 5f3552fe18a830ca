"""Examples of each drawing in lessons/lesson18/draw.py."""

from helpers.masks import causal_mask
from lessons.lesson18 import draw

WORDS = ["<bos>", "the", "cat", "sleeps", ".", "=>", "le", "chat", "dort", ".", "<eos>"]
COUNTED = {"everything": [True] * 11, "the answer": [False] * 6 + [True] * 5}
DRAWINGS = {
    "who_sees_whom": lambda: draw.draw_who_sees_whom(
        causal_mask(10)[0, 0], WORDS[:-1], 6
    ),
    "shifted": lambda: draw.draw_shifted(WORDS, COUNTED),
}
