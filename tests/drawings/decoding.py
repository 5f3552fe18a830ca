"""Examples of each drawing in helpers/plots/mechanisms/decoding.py."""

from helpers.plots.mechanisms import decoding

WRITTEN = ["<bos>", "la", "vieille", "reine", "dort", "."]
SOURCE = ["the", "old", "queen", "sleeps", ".", "<eos>"]

DRAWINGS = {
    "cache": lambda: decoding.draw_cache(WRITTEN, SOURCE),
    "cache_of_a_short_sentence": lambda: decoding.draw_cache(WRITTEN[:3], SOURCE[:4]),
}
