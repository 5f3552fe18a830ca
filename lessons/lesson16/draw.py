"""Drawings of lesson 16: what in each reading's text is the paper's, and what is not.

All in one style, and each box is of one of four kinds: thin and grey is as in the
paper; dashed with a "≠" is a choice of the text's own; thick with a "✗" is a slip of
the text, which the course has repaired; dotted with a "+" is not in the text, and ours.
A layer whose frame is dotted is not in the text, either: it has only the parts.
"""

from collections.abc import Sequence
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor

from helpers.plots import drawing
from helpers.plots.drawing import INK, PAPER, Block
from helpers.plots.style import COLOURS

PAPERS, OWN, SLIP, OURS = (
    "as in the paper",
    "the text's own choice",
    "a slip, repaired here",
    "not in the text",
)
# Fill, edge, width and style of the line, and the sign before the words.
LOOKS = {
    PAPERS: (PAPER, "#8A8A8A", 1.0, "-", ""),
    OWN: ("#F8D9A0", COLOURS[5], 1.6, (0, (4, 1.5)), "≠ "),
    SLIP: ("#F3DDE9", COLOURS[3], 2.4, "-", "✗ "),
    OURS: ("white", COLOURS[0], 1.4, (0, (1, 1.5)), "+ "),
}
Row = tuple[str, str, str]  # the first line, the second line, and whose it is
EMBED = "embed × √d, positions"
ATTEND, CROSS = "attention, add, norm", "cross-attention, add, norm"
FEED = "feed-forward, add, norm"
FIRST_A = ("norm, attention, add", "dropout on the weights", OWN)
FIRST_CROSS = ("norm, cross-attention, add", "dropout on the weights", OWN)
FIRST_F = ("norm, feed-forward, add", "dropout inside", OWN)
ON_TOP = ("norm", "once, on top", OWN)
BOTH_AXES = "examples: norm, both axes"
BREAKS_OFF = "the text breaks off"
OWN_MATRIX = "not the embeddings' matrix"
MIXED, TURNED = "wrong scale, heads mixed", "second layer turned"
UNMASKED = "no mask, no add"
TITLES = {
    "A": "A: parts only, with the norm first",
    "B": "B: nothing embedded, the decoder unfinished",
    "C": "C: norm first, and once more on top",
    "D": "D: a whole model, wrong in many lines",
    "E": "E: attention alone, and unmasked",
}
PARTS_ONLY = (
    "AE"  # readings without a layer: its parts are there, and nothing joins them
)
# Of each reading: rows below the layers, in a layer, and above; encoder, then decoder.
# Compared with the paper's sections 3.1 to 3.5 and 5.4. What the paper leaves open, and
# its feed-forward as two convolutions, counts as the paper's.
READINGS: dict[str, tuple[tuple[list[Row], ...], tuple[list[Row], ...]]] = {
    "A": (
        (
            [("embed × √d", "", PAPERS), ("positions", "", OURS)],
            [FIRST_A, FIRST_F],
            [],
        ),
        (
            [("embed × √d", "", PAPERS), ("positions", "", OURS)],
            [FIRST_A, FIRST_CROSS, FIRST_F],
            [("linear", "", OURS)],
        ),
    ),
    "B": (
        (
            [(EMBED, "made, never applied", SLIP)],
            [(ATTEND, BOTH_AXES, OWN), (FEED, BOTH_AXES, OWN)],
            [],
        ),
        (
            [(EMBED, "", OURS)],
            [
                (ATTEND, BREAKS_OFF, OURS),
                (CROSS, BREAKS_OFF, OURS),
                (FEED, BREAKS_OFF, OURS),
            ],
            [("linear", "", OURS)],
        ),
    ),
    "C": (
        (
            [(EMBED, "handed in", OURS)],
            [FIRST_A, FIRST_F],
            [ON_TOP],
        ),
        (
            [(EMBED, "handed in", OURS)],
            [FIRST_A, FIRST_CROSS, FIRST_F],
            [ON_TOP, ("linear, log-softmax", OWN_MATRIX, OWN)],
        ),
    ),
    "D": (
        (
            [("embed, positions", "no √d, no dropout", SLIP)],
            [(ATTEND, MIXED, SLIP), (FEED, TURNED, SLIP)],
            [],
        ),
        (
            [("embed, positions", "no √d, no dropout", SLIP)],
            [
                (ATTEND, MIXED, SLIP),
                (CROSS, "the same module again", SLIP),
                (FEED, TURNED, SLIP),
            ],
            [("linear, softmax", OWN_MATRIX, OWN)],
        ),
    ),
    "E": (
        (
            [("embed × √d", "", OURS), ("positions", "", PAPERS)],
            [(ATTEND, UNMASKED, SLIP)],
            [],
        ),
        (
            [("embed × √d", "", OURS), ("positions", "", PAPERS)],
            [(ATTEND, UNMASKED, SLIP), (CROSS, UNMASKED, SLIP)],
            [("linear", "", OURS)],
        ),
    ),
}
MIDDLES, WIDTH, HEIGHT, PITCH, FLOOR = (1.24, 3.76), 2.28, 0.5, 0.7, 0.62


def draw_reading(key: str) -> None:
    """A reading's model, "A" to "E": encoder and decoder, one layer of each."""
    encoder, decoder = READINGS[key]
    rows = max(sum(map(len, column)) for column in (encoder, decoder))
    high = FLOOR + PITCH * rows + 0.3
    ax = drawing.canvas(5.0, high, title=TITLES[key])
    _draw_legend(ax, high - 0.6)
    frame = OURS if key in PARTS_ONLY else None
    layers = [
        _draw_column(ax, x, name, column, frame)
        for x, name, column in zip(
            MIDDLES, ("source", "target"), (encoder, decoder), strict=True
        )
    ]
    _draw_memory(ax, layers[0][-1], layers[1][1])


def _draw_column(
    ax: Axes,
    x: float,
    name: str,
    column: Sequence[Sequence[Row]],
    frame: str | None,
) -> list[Block]:
    """Boxes from the floor up, a frame around the layer; the blocks from the layer on.

    The last one is what the memory, or the output, leaves by.
    """
    below, inside, _ = column
    drawing.write(ax, (x, FLOOR - 0.43), f"{name} ids", size=11)
    blocks = [
        _draw_box(ax, (x, FLOOR + 0.05 + PITCH * place), *row)
        for place, row in enumerate(row for part in column for row in part)
    ]
    drawing.arrow(ax, (x, FLOOR - 0.32), blocks[0].bottom)
    for one, other in pairwise(blocks):
        drawing.arrow(ax, one.top, other.bottom)
    first, last = blocks[len(below)], blocks[len(below) + len(inside) - 1]
    corner = first.left[0] - 0.08, first.bottom[1] - 0.08
    height = last.top[1] - first.bottom[1] + 0.16
    _, edge, width, style, _ = LOOKS[frame] if frame else ("", INK, 0.8, "-", "")
    look = {"fill": False, "edgecolor": edge, "lw": width, "linestyle": style}
    ax.add_patch(Rectangle(corner, first.width + 0.16, height, zorder=1, **look))
    return [*blocks[len(below) : len(below) + len(inside)], blocks[-1]]


def _draw_box(
    ax: Axes, middle: tuple[float, float], words: str, note: str, whose: str
) -> Block:
    fill, edge, width, style, sign = LOOKS[whose]
    block = Block(*middle, WIDTH, HEIGHT)
    look = {"fc": fill, "ec": edge, "lw": width, "linestyle": style, "zorder": 2}
    ax.add_patch(
        FancyBboxPatch(
            (block.left[0], block.bottom[1]),
            WIDTH,
            HEIGHT,
            boxstyle="round,pad=0,rounding_size=.08",
            **look,
        )
    )
    shift = 0.11 if note else 0
    drawing.write(ax, (block.x, block.y + shift), sign + words, size=10.5)
    drawing.write(ax, (block.x, block.y - shift), note, size=10.5)
    return block


def _draw_memory(ax: Axes, top: Block, cross: Block) -> None:
    """From the encoder's last box to the decoder's second one in a layer."""
    edge = (top.right[0] + cross.left[0]) / 2
    points = [top.right, (edge, top.y), (edge, cross.y)]
    look = {"color": INK, "lw": 1.2, "zorder": 1.5}
    ax.plot(*zip(*points, strict=True), **look)
    drawing.arrow(ax, (edge, cross.y), cross.left)


def _draw_legend(ax: Axes, top: float) -> None:
    """In the upper left, where no reading's encoder reaches."""
    for place, (whose, (fill, edge, width, style, sign)) in enumerate(LOOKS.items()):
        y = top - 0.27 * place
        look = {"fc": fill, "ec": edge, "lw": width, "linestyle": style}
        ax.add_patch(Rectangle((0.12, y - 0.1), 0.3, 0.2, **look))
        drawing.write(ax, (0.5, y), sign + whose, size=11, align="left")


def draw_masks(
    given: dict[str, Tensor | int], queries: Sequence[str], keys: Sequence[str]
) -> None:
    """What each attention was given to hide padding; cells that it hides are grey.

    given {name: mask (rows, key_length), or a number}: a row for each query, or one row
    for all. In the reading D, True hides; elsewhere, it shows.
    """
    figure, axes = plt.subplots(2, 2, figsize=(5.6, 5.4), layout="constrained")
    for ax, (name, mask) in zip(axes.flat, given.items(), strict=True):
        ax.set(title=name, xlim=(0, len(keys)), ylim=(len(queries), 0), aspect="equal")
        ax.set_xticks([j + 0.5 for j in range(len(keys))], keys, rotation=90)
        ax.set_yticks([i + 0.5 for i in range(len(queries))], queries)
        ax.tick_params(length=0)
        if isinstance(mask, int):
            place = len(keys) / 2, len(queries) / 2
            ax.text(*place, str(mask), fontsize=30, ha="center", va="center")
            continue
        for (i, j), value in np.ndenumerate(mask.numpy()):
            hidden = value == name.startswith("D")
            look = {"fc": drawing.HIDDEN if hidden else "white", "ec": INK, "lw": 0.5}
            ax.add_patch(Rectangle((j, i), 1, 1, **look))
            ax.text(j + 0.5, i + 0.5, int(value), ha="center", va="center", size=9)
    for ax in axes[0]:
        ax.set_xticks([])
    for ax in axes[:, 1]:
        ax.set_yticks([])
    figure.suptitle("Four ways to hide two paddings (grey)", x=0.01, ha="left")
