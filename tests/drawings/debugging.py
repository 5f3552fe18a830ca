"""Examples of the drawings in helpers/plots/mechanisms/debugging.py."""

from helpers.plots.mechanisms import debugging

DRAWINGS = {
    "two ways": lambda: debugging.draw_two_ways(["<bos>", "il", "voit", "le"]),
}
