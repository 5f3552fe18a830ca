"""Examples of the drawings in helpers/plots/mechanisms/reading.py."""

from helpers.plots.mechanisms import reading

DOG, BIRD = ["he", "sees", "the", "dog", "."], ["he", "sees", "the", "bird", "."]
DRAWINGS = {
    "routes": lambda: reading.draw_routes(DOG, ["il", "voit", "le", "chien", "."], 2),
    "patch": lambda: reading.draw_patch(DOG, BIRD, 2, 2),
}
