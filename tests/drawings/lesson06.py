"""Examples of the drawings in lessons/lesson06/draw.py."""

from lessons.lesson06 import draw

STORY = ["ann", "tea", "ben", "milk", "?", "ben"]
DONOR = ["ben", "tea", "ann", "milk", "?", "ben"]
LONGER = ["ann", "tea", "ben", "milk", "?", "ben", "ann"]
TO_ASKED = "moves the\ndrink to the\nasked name"
DRAWINGS = {
    "stack": lambda: draw.draw_stack(5, 512, 6),
    "told_looks": lambda: draw.draw_circuit(
        STORY,
        [{(1, 0): "ann,\ntea", (3, 2): "ben,\nmilk"}, {(2, 5): "ben,\nmilk"}],
        ["moves each\ndrink to\nits name", TO_ASKED],
        title="First circuit",
    ),
    "drink_looks": lambda: draw.draw_circuit(
        LONGER,
        [{(0, 1): "tea\nof ann", (2, 3): "milk\nof ben"}, {(3, 5): "ben,\nmilk"}],
        ["moves each\nname to\nits drink", TO_ASKED],
        title="Second circuit",
    ),
    "asked_looks": lambda: draw.draw_circuit(
        STORY,
        [{(2, 5): "ben:\nplace 3"}, {(3, 5): "ben,\nmilk"}],
        ["moves the\nplace to the\nasked name", TO_ASKED],
        title="Third circuit",
    ),
    "swap": lambda: draw.draw_swap(DONOR, STORY, [0, 2], "tea?"),
}
