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
            {
                "tokens": [128, 128, 1024, 1024],
                "parameters": [1000, 9000, 1000, 9000],
                "way": "two processes",
                "times": [0.5, 1.0, 0.7, 1.4],
            }
        ),
        title="Speeds",
    ),
}
