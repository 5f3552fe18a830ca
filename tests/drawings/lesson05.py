"""Examples of each drawing in lessons/lesson05/draw.py."""

import matplotlib.pyplot as plt
import pandas as pd

from lessons.lesson05 import draw

ROWS = ["the", "cat", "sleeps", "<pad>", "a", "bird", "sings", "loudly"]
LINES = {
    name: [{"gradient": [0.5] * 24, "difference": [0.97] * 25}] * 2
    for name in draw.LOOKS
}
RUNS = pd.DataFrame(
    {"blocks": depth, "wiring": name, "steps": None if name == "bare" else 300.0}
    for name in draw.LOOKS
    for depth in (2, 6)
)
DRAWINGS = {
    "feed_forward": lambda: draw.draw_feed_forward(["the", "cat", "sleeps"], 512, 2048),
    "norm_axes": lambda: draw.draw_norm_axes(
        ROWS,
        {
            "layer norm": lambda row, feature: row == 1,
            "whole sentence": lambda row, feature: row < 4,
            "batch norm": lambda row, feature: feature == 2,
        },
    ),
    "stream": lambda: draw.draw_stream(["attention", "feed-\nforward"] * 2),
    "wirings": draw.draw_wirings,
    "wiring_lines": lambda: draw.wiring_lines(
        LINES, {"gradient": "gradient", "difference": "positions differ"}, title=""
    ),
    "steps_to_learn": lambda: draw.steps_to_learn(
        RUNS, x="blocks", hue="wiring", title="", limit=1000, ax=plt.subplots()[1]
    ),
}
