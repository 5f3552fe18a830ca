"""Examples of each drawing in lessons/lesson17/draw.py."""

import pandas as pd

from lessons.lesson17 import draw

STEPS = pd.DataFrame(
    {"change": name, "steps_to_90": 190.0 + 10 * seed}
    for name in ("2017", "rotary, not in cross")
    for seed in range(3)
)
APART = {"neighbours paired": [1e-7, 0.14], "gate and expand swapped": [0.3, 0.2]}
DRAWINGS = {
    "two_blocks": draw.draw_two_blocks,
    "rotation": lambda: draw.draw_rotation([(3, 1), (5, 3), (8, 6)]),
    "shared_heads": lambda: draw.draw_shared_heads(
        4, [("multi-head", 4), ("grouped", 2), ("multi-query", 1)]
    ),
    "misreadings": lambda: draw.draw_misreadings(
        APART, ["one\ntoken", "short\nvectors"], bound=1e-5, title="which shows?"
    ),
    "steps": lambda: draw.draw_steps(STEPS, (195, 210), title="steps"),
}
