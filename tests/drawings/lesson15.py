"""Examples of the drawings in lessons/lesson15/draw.py."""

from lessons.lesson15 import draw

DRAWINGS = {
    "two ways": lambda: draw.draw_two_ways(["<bos>", "il", "voit", "le"]),
}
