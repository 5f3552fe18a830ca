"""Examples of each drawing in helpers/plots/mechanisms/block.py."""

from helpers.plots.mechanisms import block

ROWS = ["the", "cat", "sleeps", "<pad>", "a", "bird", "sings", "loudly"]
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
}
