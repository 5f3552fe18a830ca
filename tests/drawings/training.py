"""Examples of each drawing in helpers/plots/mechanisms/training.py."""

import pandas as pd

from helpers.plots.mechanisms import training

DRAWINGS = {
    "step": lambda: training.draw_step((60, 11), (60, 10), 347, 153_307),
    "step_of_the_paper": lambda: training.draw_step(
        (1000, 25), (1000, 25), 37_000, 63_082_000
    ),
    "peaks": lambda: training.peaks(
        pd.DataFrame({"start": ["a", "b"], "peak": [0.1, 0.2], "loss": [1.0, 2.0]})
    ),
    "rates": lambda: training.rates({"falls": lambda step: 1 / step}, steps=9),
}
