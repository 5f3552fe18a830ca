"""Examples of each drawing in lessons/lesson14/draw.py."""

import pandas as pd
import torch

from lessons.lesson14 import draw

DRAWINGS = {
    "formats": draw.draw_formats,
    "data_parallel": draw.draw_data_parallel,
    "ring": lambda: draw.draw_ring(
        torch.tensor([[1.0, 2, 3], [10, 20, 30], [100, 200, 300]])
    ),
    "cuts": draw.draw_cuts,
    "errors": lambda: draw.draw_errors({"mixed": [(0.4, 0.1), (0.6, 0.2)]}),
    "scale": lambda: draw.draw_scale(1e-9, 4096),
    "speeds": lambda: draw.draw_speeds(
        pd.DataFrame(
            [
                (tokens, size, way, 10.0 + i, 9.0, 14.0)
                for tokens in (128, 1024)
                for size in (1000, 9000)
                for i, way in enumerate(("one", "threads", "two"))
            ],
            columns=[
                *("tokens", "parameters", "way"),
                *("milliseconds", "least", "most"),
            ],
        ),
        title="Speeds",
    ),
}
