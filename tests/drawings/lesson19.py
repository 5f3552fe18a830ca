"""Examples of each drawing in lessons/lesson19/draw.py."""

from lessons.lesson19 import draw

RUNNING = {
    "exp(maximum)": [2, 2, 4, 8, 8],
    "total": [1, 1.5, 1.75, 1.875, 2],
    "mixed": [10, 10, 25, 52.5, 56.25],
}
DRAWINGS = {
    "running": lambda: draw.draw_running([2, 1, 4, 8, 1], RUNNING),
    "tiles": lambda: draw.draw_tiles(3, 12),
}
