"""Examples of each drawing in lessons/lesson13/draw.py."""

import torch

from lessons.lesson13 import draw

DRAWINGS = {
    "merges": lambda: draw.draw_merges(
        ["▁Hunde", "▁rund"], [("n", "d"), ("u", "nd"), ("▁", "H"), ("▁H", "und")]
    ),
    "resampled": lambda: draw.resampled(
        {"a": torch.randn(50), "b": torch.randn(50)},
        {"paired": torch.rand(50), "unpaired": torch.randn(50)},
    ),
}
