"""Examples of each drawing in lessons/lesson04/draw.py."""

from lessons.lesson04 import draw
from lessons.lesson04.rings import WORDS

DRAWINGS = {
    "two_looks": lambda: draw.draw_two_looks(WORDS, 4),
    "block": lambda: draw.draw_block(6, 24, 3),
    "block_of_two": lambda: draw.draw_block(10, 512, 2),
}
