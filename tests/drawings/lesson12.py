"""Examples of the drawings in lessons/lesson12/draw.py."""

from lessons.lesson12 import draw

DOG, BIRD = ["he", "sees", "the", "dog", "."], ["he", "sees", "the", "bird", "."]
DRAWINGS = {
    "routes": lambda: draw.draw_routes(DOG, ["il", "voit", "le", "chien", "."], 2),
    "patch": lambda: draw.draw_patch(DOG, BIRD, 2, 2),
}
