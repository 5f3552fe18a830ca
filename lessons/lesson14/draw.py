"""Drawings of lesson 14: parts of a batch, two processes, and the ring."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from helpers.plots import drawing
from helpers.plots.drawing import INK, ROLES, Block
from helpers.plots.style import COLOURS, MARKERS


def draw_data_parallel() -> None:
    """Two processes: the batch is shared, the gradients are averaged, both step."""
    ax = drawing.canvas(5, 3.9)
    title = "Two copies of the model, one gradient"
    drawing.write(ax, (0.1, 3.72), title, size=13, align="left")
    _box(ax, (2.5, 3.2), "batch, 8 sentences", "input", 2.2)
    average = _box(ax, (2.5, 1.25), "all-reduce", "mask", 1.5)
    for rank, (x, side) in enumerate(((1.0, average.left), (4.0, average.right))):
        drawing.arrow(ax, (2.5 + 0.8 * (2 * rank - 1), 3.0), (x, 2.72), width=1.5)
        model = _box(ax, (x, 2.5), "model, a copy", "attention", 1.7)
        gradient = _box(ax, (x, 1.75), "gradient", "mask", 1.7)
        step = _box(ax, (x, 0.55), "step", "norm", 1.7)
        drawing.arrow(ax, model.bottom, gradient.top, width=1.5)
        drawing.arrow(ax, gradient.bottom, (side[0], side[1] + 0.12), width=1.5)
        drawing.arrow(ax, (side[0], side[1] - 0.12), step.top, width=1.5)
        drawing.write(ax, (x, 0.17), f"process {rank}", size=12)
    drawing.write(ax, (2.5, 2.5), "4 and 4", size=12)
    drawing.write(ax, (2.5, 0.55), "same step", size=12)


def _box(
    ax: Axes, middle: tuple[float, float], text: str, role: str, width: float
) -> Block:
    drawing.write(ax, middle, text, size=12)
    return drawing.operation(ax, middle, "", role=role, width=width, height=0.4)


def draw_ring(rows: Tensor) -> None:
    """The ring all-reduce of three processes' tensors (3, 3), step by step.

    An arrow takes a piece to the next process; a complete piece is strongly coloured.
    """
    ax = drawing.canvas(5.75, 5.2)
    title = "In each step, each process sends one piece to the next"
    drawing.write(ax, (0.1, 5.02), title, size=13, align="left")
    cell, total, now = 0.46, rows.sum(dim=0), rows.clone()

    def middle(line: int, rank: int, piece: int) -> tuple[float, float]:
        return 1.62 + rank * 1.6 + (piece - 1) * cell, 4.2 - 0.95 * line

    for line, name in enumerate(["start", "add", "add", "hand out", "hand out"]):
        before = now.clone()
        for rank in range(3 * (line > 0)):
            piece, following = (rank - line + 1) % 3, (rank + 1) % 3
            x, y = middle(line - 1, rank, piece)
            to_x, to_y = middle(line, following, piece)
            look = {"width": 1.3, "colour": INK}
            if following == 0:  # from the last process to the first, behind the others
                look = {"width": 0.8, "colour": "#7A7A7A"}
            drawing.arrow(ax, (x, y - cell / 2), (to_x, to_y + cell / 2), **look)
            kept = before[following, piece] * (name == "add")
            now[following, piece] = kept + before[rank, piece]
        drawing.write(ax, (0.08, 4.2 - 0.95 * line), name, size=11, align="left")
        for rank, numbers in enumerate(now.tolist()):
            for piece, number in enumerate(numbers):
                x, y = middle(line, rank, piece)
                fill = drawing.tint("mask", 0.6 if number == total[piece] else 0.12)
                look = {"fc": fill, "ec": ROLES["mask"], "lw": 1, "zorder": 2}
                corner = x - cell / 2, y - cell / 2
                ax.add_patch(Rectangle(corner, cell, cell, **look))
                drawing.write(ax, (x, y), f"{number:.0f}", size=10.5)
    for rank in range(3):
        x, y = middle(0, rank, 1)
        drawing.write(ax, (x, y + 0.42), f"process {rank}", size=11)


def draw_errors(measured: Mapping[str, Sequence[tuple[float, float]]]) -> None:
    """The error of the mean of means by the share of the tokens in the first part."""
    _, ax = plt.subplots(figsize=(5.4, 3.2))
    looks = zip(MARKERS, COLOURS, range(len(measured), 0, -1), strict=False)
    for (kind, rows), (marker, colour, z) in zip(measured.items(), looks, strict=False):
        held, errors = ([100 * x for x in column] for column in zip(*rows, strict=True))
        look = {"color": colour, "ms": 5, "label": kind, "zorder": 2 + z}
        ax.plot(held, errors, marker, **look)
    ax.axhline(0, color="grey", lw=0.8)
    ax.set(xlabel="tokens in the first part (%)", ylabel="error of the gradient (%)")
    ax.set_title("The less even the parts, the more wrong the mean of means")
    ax.legend(frameon=False)
    plt.show()
