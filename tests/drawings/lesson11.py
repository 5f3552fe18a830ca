"""Examples of each drawing in lessons/lesson11/draw.py."""

from lessons.lesson11 import draw

WRITTEN = ["<bos>", "la", "vieille", "reine", "dort", "."]
SOURCE = ["the", "old", "queen", "sleeps", ".", "<eos>"]

DRAWINGS = {
    "cache": lambda: draw.draw_cache(WRITTEN, SOURCE),
    "cache_of_a_short_sentence": lambda: draw.draw_cache(WRITTEN[:3], SOURCE[:4]),
}
