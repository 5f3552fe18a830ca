"""Examples of each drawing in lessons/lesson05/draw.py."""

from lessons.lesson05 import draw

LINES = {
    name: [{"gradient": [0.5] * 24, "differ": [0.97] * 25}] * 2 for name in draw.LOOKS
}
DRAWINGS = {
    "feed_forward": lambda: draw.draw_feed_forward(["the", "cat", "sleeps"], 512, 2048),
    "stream": lambda: draw.draw_stream(["attention", "feed-\nforward"] * 2),
    "wirings": draw.draw_wirings,
    "lines_by_block": lambda: draw.lines_by_block(
        LINES, {"gradient": "gradient", "differ": "positions differ"}, title=""
    ),
}
