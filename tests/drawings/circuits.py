"""Examples of the drawings in helpers/plots/mechanisms/circuits.py."""

from helpers.plots.mechanisms import circuits

STORY = ["ann", "tea", "ben", "milk", "?", "ben"]
LONGER = ["ann", "tea", "ben", "milk", "?", "ben", "ann"]
DRAWINGS = {
    "stack": lambda: circuits.draw_stack(5, 512, 6),
    "told_looks": lambda: circuits.draw_circuit(
        STORY,
        [{(1, 0): "ann\ntea", (3, 2): "ben\nmilk"}, {(2, 5): "ben\nmilk"}],
        ["told name\nlooks at\nits drink", "asked name\nlooks at\ntold name"],
        title="First circuit",
    ),
    "drink_looks": lambda: circuits.draw_circuit(
        LONGER,
        [{(0, 1): "tea\nof ann", (2, 3): "milk\nof ben"}, {(3, 5): "ben\nmilk"}],
        ["drink\nlooks at\nits name", "asked name\nlooks at\nits drink"],
        title="Second circuit",
    ),
}
