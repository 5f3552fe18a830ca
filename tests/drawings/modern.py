"""Examples of each drawing in helpers/plots/mechanisms/modern.py."""

import pandas as pd
import torch

from helpers.modern.rotary import rotary_angles, rotate
from helpers.plots.mechanisms import modern

X = torch.tensor([1.0, 2.0, 6.0])
TURNED = rotate(torch.tensor([[1.0, 0.0]]).expand(9, 2), rotary_angles(9, 2))
SHARES = pd.DataFrame(
    {"task": task, "positions": kind, "seed": seed, "near": 0.9, "far": 0.2 * seed}
    for task in ("a", "b")
    for kind in ("sinusoids", "rotary")
    for seed in range(3)
)
DRAWINGS = {
    "two_blocks": modern.draw_two_blocks,
    "norms": lambda: modern.draw_norms(X, X, X),
    "rotation": lambda: modern.draw_rotation([(3, 1), (5, 3), (8, 6)], TURNED, TURNED),
    "lengths": lambda: modern.draw_lengths(
        SHARES, {"near": "as trained", "far": "far"}, titles=["one task", "the other"]
    ),
    "gate": lambda: modern.draw_gate(64, 128, 85),
    "shared_heads": lambda: modern.draw_shared_heads(
        4, [("multi-head", 4), ("grouped", 2), ("multi-query", 1)]
    ),
}
