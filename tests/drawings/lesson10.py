"""An example of the drawing in lessons/lesson10/draw.py."""

from lessons.lesson10 import draw
from lessons.studies import study

DRAWINGS = {"soups": lambda: draw.soups(study("good_soup").assign(other=0))}
