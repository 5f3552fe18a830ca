"""Examples of each drawing in lessons/lesson14/draw.py."""

import torch

from lessons.lesson14 import draw

DRAWINGS = {
    "data_parallel": draw.draw_data_parallel,
    "ring": lambda: draw.draw_ring(
        torch.tensor([[1.0, 2, 3], [10, 20, 30], [100, 200, 300]])
    ),
    "errors": lambda: draw.draw_errors({"mixed": [(0.4, 0.1), (0.6, 0.2)]}),
}
