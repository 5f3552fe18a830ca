"""Examples of each drawing in lessons/lesson10/draw.py."""

from lessons.lesson10 import draw
from lessons.studies import study

DRAWINGS = {
    "rate": lambda: draw.rate(200, 7, 4e-3),
    "soups": lambda: draw.soups(study("good_soup").assign(other=0)),
}
