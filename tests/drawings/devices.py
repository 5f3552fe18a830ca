"""Examples of each drawing in helpers/plots/mechanisms/devices.py."""

import pandas as pd
import torch

from helpers.plots.mechanisms import devices

DRAWINGS = {
    "formats": devices.draw_formats,
    "data_parallel": devices.draw_data_parallel,
    "ring": lambda: devices.draw_ring(
        torch.tensor([[1.0, 2, 3], [10, 20, 30], [100, 200, 300]])
    ),
    "cuts": devices.draw_cuts,
    "errors": lambda: devices.draw_errors({"mixed": [(0.4, 0.1), (0.6, 0.2)]}),
    "scale": lambda: devices.draw_scale(1e-9, 4096),
    "speeds": lambda: devices.draw_speeds(
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
