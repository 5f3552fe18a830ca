"""Drawings of lesson 01: rows that are looked up, and clock hands."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Arc, Circle
from torch import Tensor

from helpers.plots import drawing
from helpers.plots.drawing import INK, PAPER, ROLES

RADIUS = 0.27


def draw_embedding(
    words: Sequence[str], tokens: Tensor, matrix: Tensor, names: Sequence[str]
) -> None:
    """A sentence, its token ids, the matrix, and the rows that are copied from it.

    tokens (length,), matrix (vocab_size, d_model); `names` are the vocabulary's words.
    """
    ax = drawing.canvas(6.4, 3.1, title="An embedding copies a row for each token id")
    places = [2.25 - 0.42 * i for i in range(len(words))]
    labels = [f"{name}  {i}" for i, name in enumerate(names)]
    look = {"cell": 0.42, "columns": "d_model"}
    table = drawing.tensor(
        ax, (3.45, 1.41), matrix, "value", name="matrix", rows=labels, **look
    )
    rows = drawing.tensor(ax, (5.5, 1.41), matrix[tokens], "value", name="rows", **look)
    drawing.write(ax, (0.6, 2.68), "tokens", size=10)
    drawing.write(ax, (1.45, 2.68), "ids", size=10)
    for place, word, token in zip(places, words, tokens.tolist(), strict=True):
        (pill,) = drawing.tokens(ax, [word], (0.6, place), height=0.28)
        number = drawing.tensor(ax, (1.45, place), [[str(token)]], "input", cell=0.3)
        drawing.arrow(ax, pill.right, number.left)
        height = table.top[1] - (token + 0.5) * 0.42
        start, end = (table.right[0], height), (rows.left[0], place)
        drawing.arrow(ax, start, end, colour=ROLES["value"], width=1)


def draw_hand(angle: float) -> None:
    """One clock hand, with the sine and the cosine of its angle, in radians."""
    title = f"A hand at {angle:.2g} radians: sine across, cosine up"
    ax = drawing.canvas(4.6, 2.7, title=title)
    x, y, radius = 2.3, 1.2, 1.08
    across, up = radius * math.sin(angle), radius * math.cos(angle)
    _dial(ax, (x, y), angle, radius=radius, length=1, colour=ROLES["input"])
    thin = {"color": INK, "lw": 0.8, "ls": ":", "zorder": 3}
    ax.plot([x, x + across, x + across], [y + up, y + up, y], **thin)
    look = {"lw": 2.4, "zorder": 3}
    ax.plot([x, x + across], [y, y], color=ROLES["key"], **look)
    ax.plot([x, x], [y, y + up], color=ROLES["value"], **look)
    last = 90 - math.degrees(angle)
    look = {"theta1": last, "theta2": 90, "color": INK, "lw": 1.2}
    ax.add_patch(Arc((x, y), 0.5, 0.5, zorder=3, **look))
    half = angle / 2
    beside = (x + 0.36 * math.sin(half), y + 0.36 * math.cos(half))
    drawing.write(ax, beside, f"{angle:.2g}", size=9)
    sine, cosine = f"sine {math.sin(angle):.2f}", f"cosine {math.cos(angle):.2f}"
    drawing.write(ax, (x + across / 2, y - 0.14), sine, size=9)
    drawing.write(ax, (x - 0.08, y + up / 2), cosine, size=9, align="right")


def draw_clocks(turns: Tensor, positions: Sequence[int]) -> None:
    """A dial for each pair (row) and position (column), its hand at the pair's angle.

    turns (pairs,) in radians a step, clockwise from the top, as on a clock.
    """
    pairs = len(turns)
    title = "Each pair of features is a hand, turning by so many radians a step"
    ax = drawing.canvas(6.4, 0.75 + 0.72 * pairs, title=title)
    for pair, turn in enumerate(turns.tolist()):
        y = 0.72 * (pairs - pair) - 0.18
        text = f"pair {pair}: {turn:.3g} a step"
        drawing.write(ax, (0.1, y), text, size=9, align="left")
        for column, position in enumerate(positions):
            _dial(ax, (2.25 + 0.74 * column, y), position * turn)
    for column, position in enumerate(positions):
        drawing.write(ax, (2.25 + 0.74 * column, 0.09), str(position), size=9)
    drawing.write(ax, (0.1, 0.09), "position", size=9, align="left")


def _dial(
    ax: Axes,
    middle: tuple[float, float],
    angle: float,
    *,
    radius: float = RADIUS,
    colour: str = ROLES["key"],
    length: float = 0.88,
) -> None:
    """A round dial with one hand; an angle of 0 is at the top, clockwise from there.

    The hand's `length` is a share of the radius.
    """
    ax.add_patch(Circle(middle, radius, fc=PAPER, ec=INK, lw=0.8, zorder=2))
    tip = (
        middle[0] + length * radius * math.sin(angle),
        middle[1] + length * radius * math.cos(angle),
    )
    line = {"color": colour, "lw": 2.4, "solid_capstyle": "round"}
    ax.plot(*zip(middle, tip, strict=True), zorder=3, **line)
    ax.add_patch(Circle(middle, 0.03, fc=INK, ec=INK, zorder=4))
