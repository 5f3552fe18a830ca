"""Drawings of lesson 16: what each reading takes from the paper, and what it does not.

All in one style: thin and grey is the paper's, thick and dashed with a "≠" is the
reading's own choice, dotted with a "+" is not in its text and was added by the course.
"""

from collections.abc import Sequence
from itertools import pairwise

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor

from helpers.plots import drawing
from helpers.plots.drawing import INK, PAPER, Block
from helpers.plots.heatmaps import heatmap
from helpers.plots.style import COLOURS

PAPERS, OWN, OURS = "the paper's", "its own", "not in its text"
# Fill, edge, width and style of the line, and the sign before the words.
LOOKS = {
    PAPERS: (PAPER, "#8A8A8A", 1.0, "-", ""),
    OWN: ("#F8D9A0", COLOURS[5], 2.0, (0, (4, 1.5)), "≠ "),
    OURS: ("white", COLOURS[0], 1.4, (0, (1, 1.5)), "+ "),
}
Row = tuple[str, str, str]  # the first line, the second line, and whose it is
LAST = "add, norm"
FIRST_A = ("norm, attention, add", "std + eps; dropout on weights")
FIRST_B = ("norm, feed-forward, add", "dropout between the two")
# Of each reading: rows below the layers, in a layer, and above; encoder, then decoder.
READINGS: dict[str, tuple[tuple[list[Row], ...], tuple[list[Row], ...]]] = {
    "A": (
        (
            [("embed × √d", "", PAPERS), ("positions", "", OURS)],
            [(*FIRST_A, OWN), (*FIRST_B, OWN)],
            [],
        ),
        (
            [("embed × √d", "", PAPERS), ("positions", "", OURS)],
            [
                ("norm, attention, add", "", OURS),
                ("norm, cross-attention, add", "", OURS),
                ("norm, feed-forward, add", "", OURS),
            ],
            [("linear: logits", "", OURS)],
        ),
    ),
    "B": (
        (
            [("embed × √d, positions", "in words only", PAPERS)],
            [
                (f"attention, {LAST}", "valid_lens; no biases", OWN),
                (f"feed-forward, {LAST}", "norm over both axes", OWN),
            ],
            [],
        ),
        (
            [("embed × √d, positions", "", OURS)],
            [
                (f"attention, {LAST}", "a state of inputs", OWN),
                (f"cross-attention, {LAST}", "made, not yet called", OURS),
                (f"feed-forward, {LAST}", "made, not yet called", OURS),
            ],
            [("linear: logits", "", OURS)],
        ),
    ),
    "C": (
        (
            [("embed × √d, positions", "handed in", OURS)],
            [(*FIRST_A, OWN), (*FIRST_B, OWN)],
            [("norm", "once, on top", OWN)],
        ),
        (
            [("embed × √d, positions", "handed in", OURS)],
            [
                (*FIRST_A, OWN),
                ("norm, cross-attention, add", "", OWN),
                (*FIRST_B, OWN),
            ],
            [("norm", "once, on top", OWN), ("linear, log-softmax", "", OWN)],
        ),
    ),
    "D": (
        (
            [("embed, positions", "from lengths; zeros for PAD", OWN)],
            [
                (f"attention, {LAST}", "True = hidden; dropout on weights", OWN),
                (f"feed-forward, {LAST}", "two convolutions", OWN),
            ],
            [],
        ),
        (
            [("embed, positions", "from lengths; zeros for PAD", OWN)],
            [
                (f"attention, {LAST}", "key, value, query", OWN),
                (f"context attention, {LAST}", "maps are returned", OWN),
                (f"feed-forward, {LAST}", "two convolutions", OWN),
            ],
            [("linear, softmax", "", PAPERS)],
        ),
    ),
    "E": (
        (
            [("embed × √d", "", OURS), ("positions", "", PAPERS)],
            [("attention, add, norm", "d_k and d_v; no biases", OWN)],
            [],
        ),
        (
            [("embed × √d", "", OURS), ("positions", "", PAPERS)],
            [
                (f"attention, {LAST}", "", OURS),
                (f"cross-attention, {LAST}", "", OURS),
            ],
            [("linear: logits", "", OURS)],
        ),
    ),
}
MIDDLES, WIDTH, HEIGHT, PITCH, FLOOR = (1.42, 4.18), 2.46, 0.46, 0.66, 1.05


def draw_reading(key: str) -> None:
    """A reading's model, "A" to "E": encoder and decoder, one layer of each."""
    encoder, decoder = READINGS[key]
    rows = max(sum(map(len, column)) for column in (encoder, decoder))
    title = f"{key}: what differs from the paper (≠), what we added (+)"
    ax = drawing.canvas(5.6, FLOOR + PITCH * rows + 0.4, title=title)
    _draw_legend(ax)
    layers = [
        _draw_column(ax, x, name, column)
        for x, name, column in zip(
            MIDDLES, ("source", "target"), (encoder, decoder), strict=True
        )
    ]
    _draw_memory(ax, layers[0][-1], layers[1][1])


def _draw_column(
    ax: Axes, x: float, name: str, column: Sequence[Sequence[Row]]
) -> list[Block]:
    """Boxes from the floor up, a frame around the layer; the blocks from the layer on.

    The last one is what the memory, or the output, leaves by.
    """
    below, inside, _ = column
    drawing.write(ax, (x, FLOOR - 0.4), f"{name} ids", size=9)
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
    look = {"fill": False, "edgecolor": INK, "lw": 0.8, "zorder": 1}
    ax.add_patch(Rectangle(corner, first.width + 0.16, height, **look))
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
    shift = 0.1 if note else 0
    drawing.write(ax, (block.x, block.y + shift), sign + words, size=9.5)
    drawing.write(ax, (block.x, block.y - shift), note, size=8.5)
    return block


def _draw_memory(ax: Axes, top: Block, cross: Block) -> None:
    """From the encoder's last box to the decoder's second one in a layer."""
    edge = (top.right[0] + cross.left[0]) / 2
    points = [top.right, (edge, top.y), (edge, cross.y)]
    look = {"color": INK, "lw": 1.2, "zorder": 1.5}
    ax.plot(*zip(*points, strict=True), **look)
    drawing.arrow(ax, (edge, cross.y), cross.left)


def _draw_legend(ax: Axes) -> None:
    for place, (whose, (fill, edge, width, style, sign)) in enumerate(LOOKS.items()):
        left = 0.2 + 1.85 * place
        look = {"fc": fill, "ec": edge, "lw": width, "linestyle": style}
        ax.add_patch(Rectangle((left, 0.2), 0.36, 0.22, **look))
        drawing.write(ax, (left + 0.46, 0.31), sign + whose, size=9, align="left")


def draw_masks(
    given: dict[str, Tensor | int],
    maps: Sequence[Tensor],
    queries: Sequence[str],
    keys: Sequence[str],
) -> None:
    """What each attention was given to hide padding, above what it attended to.

    given {name: mask (rows, key_length), or a number}, maps of shape (query_length,
    key_length), grey where a weight is exactly 0.
    """
    figure, axes = plt.subplots(2, len(given), figsize=(9, 5))
    for (name, mask), weights, (above, below) in zip(
        given.items(), maps, axes.T, strict=True
    ):
        rows, columns = weights.shape
        above.set(title=f"given to {name}", xticks=[], yticks=[])
        if isinstance(mask, int):
            middle = (columns - 1) / 2, (rows - 1) / 2
            above.text(*middle, str(mask), fontsize=28, ha="center", va="center")
        else:
            shades = mask.float().numpy()
            above.imshow(shades, cmap="gray", vmin=-0.3, vmax=1, aspect="auto")
            for row, column in mask.nonzero().tolist():
                above.text(column, row, "1", ha="center", va="center", fontsize=8)
        above.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5))
        options = {"title": "so it attends", "colour_bar": False, "rotation": 90}
        heatmap(weights, queries, keys, mask=weights > 0, ax=below, **options)
        below.set(xlabel="English words (keys)", ylabel="")
    axes[1, 0].set_ylabel("French words (queries)")
    figure.suptitle("Four ways to say the same mask, one result", x=0.01, ha="left")
