"""Examples of each drawing in helpers/plots/mechanisms/heads.py."""

from helpers.experiments.rings import WORDS
from helpers.plots.mechanisms import heads

DRAWINGS = {
    "two_looks": lambda: heads.draw_two_looks(WORDS, 4),
    "block": lambda: heads.draw_block(6, 24, 3),
    "sum": lambda: heads.draw_sum(6, 24, 3),
    "sum_of_two": lambda: heads.draw_sum(10, 512, 2),
    "block_of_two": lambda: heads.draw_block(10, 512, 2),
}
