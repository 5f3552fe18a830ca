"""Examples of each drawing in lessons/lesson11/draw.py."""

from lessons.lesson11 import draw

WRITTEN = ["<bos>", "la", "vieille", "reine", "dort", "."]
SOURCE = ["the", "old", "queen", "sleeps", ".", "<eos>"]
FRUIT = {"pear": 0.35, "plum": 0.33, "fig": 0.32}
THEN = {"a": FRUIT, "an": {"apple": 0.9, "egg": 0.1}}

DRAWINGS = {
    "cache": lambda: draw.draw_cache(WRITTEN, SOURCE),
    "cache_of_a_short_sentence": lambda: draw.draw_cache(WRITTEN[:3], SOURCE[:4]),
    "tree": lambda: draw.draw_tree({"a": 0.6, "an": 0.4}, THEN, 2, title="A beam of 2"),
}
