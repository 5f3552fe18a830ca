"""Examples of each drawing in lessons/lesson13/draw.py."""

import pandas as pd
import torch

from lessons.lesson13 import draw

HARD = {
    "rarest": ["never", "never", "often", "often"],
    "length": ["short", "long"] * 2,
    "bleu": [30.0, 28.0, 45.0, 44.0],
    "low": [28.0, 27.0, 43.0, 42.0],
    "high": [31.0, 30.0, 46.0, 47.0],
}
DRAWINGS = {
    "merges": lambda: draw.draw_merges(
        ["▁Hunde", "▁rund"], [("n", "d"), ("u", "nd"), ("▁", "H"), ("▁H", "und")]
    ),
    "growth": lambda: draw.vocabulary_growth({"a": [1, 2], "b": [2, 2]}, title="x"),
    "bootstrap": lambda: draw.draw_bootstrap(
        [[0, 2, 2, 4, 1], [3, 3, 0, 1, 2]], [39.4, 41.0]
    ),
    "resampled": lambda: draw.resampled(
        {"a": torch.randn(50), "b": torch.randn(50)},
        {"paired": torch.rand(50), "unpaired": torch.randn(50)},
    ),
    "hard": lambda: draw.hard_sentences(pd.DataFrame(HARD), title="x"),
}
