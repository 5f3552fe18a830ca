"""Examples of each drawing in helpers/plots/mechanisms/block.py."""

import matplotlib.pyplot as plt
import pandas as pd

from helpers.plots.mechanisms import block

ROWS = ["the", "cat", "sleeps", "<pad>", "a", "bird", "sings", "loudly"]
LINES = {
    name: [{"gradient": [0.5] * 24, "difference": [0.97] * 25}] * 2
    for name in block.LOOKS
}
RUNS = pd.DataFrame(
    {"blocks": depth, "wiring": name, "steps": None if name == "bare" else 300.0}
    for name in block.LOOKS
    for depth in (2, 6)
)
DRAWINGS = {
    "feed_forward": lambda: block.draw_feed_forward(
        ["the", "cat", "sleeps"], 512, 2048
    ),
    "norm_axes": lambda: block.draw_norm_axes(
        ROWS,
        {
            "layer norm": lambda row, feature: row == 1,
            "whole sentence": lambda row, feature: row < 4,
            "batch norm": lambda row, feature: feature == 2,
        },
    ),
    "stream": lambda: block.draw_stream(["attention", "feed-\nforward"] * 2),
    "wirings": block.draw_wirings,
    "wiring_lines": lambda: block.wiring_lines(
        LINES, {"gradient": "gradient", "difference": "positions differ"}, title=""
    ),
    "steps_to_learn": lambda: block.steps_to_learn(
        RUNS, x="blocks", hue="wiring", title="", limit=1000, ax=plt.subplots()[1]
    ),
}
