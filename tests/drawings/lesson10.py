"""Examples of each drawing in lessons/lesson10/draw.py."""

from lessons.lesson10 import draw

DRAWINGS = {
    "two_orders": lambda: draw.draw_two_orders(
        {
            "noun first": (["the", "black", "cat"], ["le", "chat", "noir"], (0, 2, 1)),
            "adjective first": (
                ["the", "little", "cat"],
                ["le", "petit", "chat"],
                (0, 1, 2),
            ),
        }
    ),
}
