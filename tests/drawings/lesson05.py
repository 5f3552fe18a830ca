"""Examples of each drawing in lessons/lesson05/draw.py."""

from lessons.lesson05 import draw

ROWS = ["the", "cat", "sleeps", "<pad>", "a", "bird", "sings", "loudly"]
LINES = {
    name: [{"gradient": [0.5] * 24, "differ": [0.97] * 25}] * 2 for name in draw.LOOKS
}
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
    "losses": lambda: draw.draw_losses(
        {"plain": (range(9), [2.5] * 9), "norm first": (range(9), [2.6, *[1.0] * 8])},
        2.48,
        title="12 blocks",
    ),
    "lines_by_block": lambda: draw.lines_by_block(
        LINES, {"gradient": "gradient", "differ": "positions differ"}, title=""
    ),
}
