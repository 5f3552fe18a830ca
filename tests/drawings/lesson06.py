"""Examples of the drawings in lessons/lesson06/draw.py."""

from lessons.lesson06 import draw

STORY = ["ann", "tea", "ben", "milk", "?", "ben"]
DRAWINGS = {
    "circuit": lambda: draw.draw_circuit(
        STORY,
        [{(1, 0): "ann,\ntea", (3, 2): "ben,\nmilk"}, {(2, 5): "ben,\nmilk"}],
        ["moves each\ndrink to\nits name", "moves the\ndrink to the\nasked name"],
        title="One way to answer",
    ),
    "swap": lambda: draw.draw_swap(STORY[::-1], STORY, [0, 2], "tea?"),
}
