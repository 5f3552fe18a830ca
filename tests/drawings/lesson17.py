"""Examples of each drawing in lessons/lesson17/draw.py."""

import pandas as pd
import torch

from helpers.modern.rotary import rotary_angles, rotate
from lessons.lesson17 import draw

TURNED = rotate(torch.tensor([[1.0, 0.0]]).expand(9, 2), rotary_angles(9, 2))
SHARES = pd.DataFrame(
    {"positions": kind, "seed": seed, "far": 0.5}
    | {f"at {place}": 1 - 0.01 * place * seed for place in range(3, 20)}
    for kind in ("sinusoids", "rotary", "none")
    for seed in range(3)
)
HIGH = {"first": 5, "second": 9}
STOPS = pd.DataFrame(
    {
        "treatment": f"{clock} clock stops",
        "stops_at": at,
        "right": 1 - at / 60 * seed,
        "part": at / 4,
    }
    for clock in ("first", "second")
    for at in (11, 16, 22)
    for seed in range(3)
)
STEPS = pd.DataFrame(
    {"model": f"{cross} · {way}", "cross": cross, "steps_to_90": 190.0 + 10 * seed}
    for cross in ("nothing", "rotary")
    for way in ("nothing", "rotary")
    for seed in range(3)
)
DRAWINGS = {
    "two_blocks": draw.draw_two_blocks,
    "rotation": lambda: draw.draw_rotation([(3, 1), (5, 3), (8, 6)], TURNED, TURNED),
    "clocks": lambda: draw.draw_clocks(
        {f"distance {d}": (d, 0.1 * d) for d in (3, 9, 44, 47)},
        swept=1.5,
        title="Two hands",
    ),
    "lengths": lambda: draw.draw_lengths(SHARES, trained=8, title="one task"),
    "stops": lambda: draw.draw_stops(STOPS, HIGH, title="two clocks"),
    "steps": lambda: draw.draw_steps(STEPS, (195, 210), title="steps", hue="cross"),
    "echoes": lambda: draw.draw_echoes(
        torch.randn(4, 30, generator=torch.Generator().manual_seed(0)),
        {place: place / 30 for place in range(8, 30)},
        wanted=3,
        trained=8,
        titles=["above", "below"],
    ),
    "gate": lambda: draw.draw_gate(64, 128, 85),
    "shared_heads": lambda: draw.draw_shared_heads(
        4, [("multi-head", 4), ("grouped", 2), ("multi-query", 1)]
    ),
}
