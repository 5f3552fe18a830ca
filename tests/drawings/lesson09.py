"""Examples of each drawing in lessons/lesson09/draw.py."""

import pandas as pd

from lessons.lesson09 import draw

DRAWINGS = {
    "step": lambda: draw.draw_step((60, 11), (60, 10), 347, 237_760),
    "step_of_the_paper": lambda: draw.draw_step(
        (1000, 25), (1000, 25), 37_000, 63_082_000
    ),
    "peaks": lambda: draw.peaks(
        pd.DataFrame(
            {"start": ["a", "b", "c"], "peak": [0.1, 0.2, 0.3], "loss": [1.0, 2.0, 3.0]}
        )
    ),
    "known_and_new": lambda: draw.known_and_new([2, 0.1], [2.1, 0.2]),
    "rates": lambda: draw.rates({"falls": lambda step: 1 / step}, steps=9),
}
