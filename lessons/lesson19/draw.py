"""Drawings of lesson 19: a running softmax, and tiles."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import accumulate

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from helpers.plots import drawing
from helpers.plots.drawing import INK, ROLES, tint

NEW = "#FFF3D6"  # a step that finds a new maximum


def draw_running(weights: Sequence[float], rows: Mapping[str, Sequence[float]]) -> None:
    """Each key of a softmax in turn, and the state after it.

    `weights` are the exponentials of the scores; `rows` {name: a number after each}.
    Steps whose exponential is the largest so far are shaded. Before the last two rows
    stands what the old sums are multiplied by.
    """
    step, high = 0.82, 0.36
    largest = [*accumulate(weights, max)]
    factors = [Fraction(a / b) for a, b in zip([0, *largest], largest, strict=False)]
    table = [(name, [_short(x) for x in numbers]) for name, numbers in rows.items()]
    table.insert(-2, ("rescale old sums by", ["", *(str(x) for x in factors[1:])]))
    top = 0.25 + high * len(table)
    title = "One pass over five keys (shaded: a new maximum)"
    ax = drawing.canvas(1.7 + step * len(weights), top + 0.95, title=title)
    for i, weight in enumerate(weights):
        x = 1.55 + step * (i + 0.5)
        if weight == max(weights[: i + 1]) and weight not in weights[:i]:
            corner = x - step / 2 + 0.03, 0.1
            fill = {"fc": NEW, "ec": "none", "zorder": 0.5}
            ax.add_patch(Rectangle(corner, step - 0.06, top + 0.42, **fill))
        drawing.operation(
            ax, (x, top + 0.3), f"ln {weight:g}", role="weights", width=0.6
        )
    drawing.write(ax, (1.45, top + 0.3), "score of key", align="right")
    for k, (name, numbers) in enumerate(table):
        y = top - 0.22 - high * k
        drawing.write(ax, (1.45, y), name, align="right")
        for i, number in enumerate(numbers):
            drawing.write(ax, (1.55 + step * (i + 0.5), y), number, size=10)


def _short(number: float) -> str:
    if number == -math.inf:
        return "−∞"
    return f"{number:.4g}"


def draw_tiles(block: int, length: int) -> None:
    """One tile at a time: which parts of Q, K, V it needs, and what is carried on."""
    cell = 0.2
    side = cell * length
    ax = drawing.canvas(
        6.0, side + 1.75, title="Forward: one tile of the table at a time"
    )
    left, bottom = 1.75, 0.65
    top, right = bottom + side, left + side
    row, column = 1, 2  # the tile that is drawn
    for i in range(length):
        for j in range(length):
            mine = i // block == row and j // block == column
            done = i // block < row or (i // block == row and j // block < column)
            fill = tint("weights", 0.9) if mine else "#EFE3EA" if done else "white"
            corner = left + j * cell, top - (i + 1) * cell
            ax.add_patch(Rectangle(corner, cell, cell, fc=fill, ec="#C9C9C9", lw=0.6))
    lines = range(0, length + 1, block)
    for line in lines:
        at = left + line * cell, top - line * cell
        ax.plot([at[0]] * 2, [bottom, top], color=INK, lw=1)
        ax.plot([left, right], [at[1]] * 2, color=INK, lw=1)
    long = block * cell
    for i in range(length // block):
        across, down = left + i * long, top - (i + 1) * long
        for role, corner, size, strong in (
            ("query", (left - 0.55, down), (0.4, long), i == row),
            ("key", (across, top + 0.38), (long, 0.24), i == column),
            ("value", (across, top + 0.1), (long, 0.24), i == column),
            ("context", (right + 0.95, down), (0.4, long), i < row),
        ):
            _strip(ax, corner, size, role, strong)
    middle = top - (row - 0.5) * long  # of the last row that is done
    for text, place in (
        ("Q", (left - 0.7, bottom + side / 2)),
        ("K", (left - 0.15, top + 0.5)),
        ("V", (left - 0.15, top + 0.22)),
        ("context", (right + 1.15, top + 0.15)),
    ):
        drawing.write(ax, place, text, size=10)
    drawing.arrow(ax, (right + 0.02, middle), (right + 0.9, middle), width=1.6)
    drawing.write(ax, (right + 0.45, middle + 0.14), "÷ total", size=9)
    here = top - (row + 0.5) * long
    at = left + (column + 1) * long
    drawing.arrow(ax, (at + 0.04, here), (at + 0.75 * long, here), width=1.6)
    drawing.write(ax, (at + 0.4 * long, here + 0.14), "state", size=9)
    says = "dark: scores that exist now; pale: done and forgotten; white: not yet made"
    drawing.write(ax, (0.1, 0.16), says, size=9, align="left")


def _strip(
    ax: Axes,
    corner: tuple[float, float],
    size: tuple[float, float],
    role: str,
    strong: bool,
) -> None:
    fill = tint(role, 0.75 if strong else 0.15)
    look = {"fc": fill, "ec": ROLES[role], "lw": 1}
    ax.add_patch(Rectangle(corner, *size, **look))
