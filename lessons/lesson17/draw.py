"""Drawings of lesson 17: two blocks, the rotation, shared heads, two tables."""

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from helpers.plots import drawing, heatmap
from helpers.plots.drawing import ROLES, Block
from helpers.plots.spread import over_seeds
from helpers.plots.style import COLOURS

# What each column holds from below, and the role of its colour; None is a sum.
BLOCK_2017 = (
    ("multi-head attention", "attention"),
    None,
    ("LayerNorm", "norm"),
    ("two matrices, ReLU", "feed-forward"),
    None,
    ("LayerNorm", "norm"),
)
BLOCK_TODAY = (
    ("RMSNorm", "norm"),
    ("grouped queries,\nrotated with the keys", "attention"),
    None,
    ("RMSNorm", "norm"),
    ("SwiGLU", "feed-forward"),
    None,
)


def draw_two_blocks() -> None:
    """A block of 2017 and one of today, each from below to above."""
    ax = drawing.canvas(5.2, 5.3, title="One block with self-attention, then and now")
    for x, name, parts, start in (
        (1.3, "2017", BLOCK_2017, "embedding + sinusoids"),
        (3.9, "today", BLOCK_TODAY, "embedding"),
    ):
        drawing.write(ax, (x, 4.8), name, size=11)
        drawing.write(ax, (x, 0.22), start, size=10)
        _draw_column(ax, x, parts)


def _draw_column(ax: Axes, x: float, parts: Sequence) -> None:
    """The boxes and sums of a block, and the two ways around them."""
    below, branch = (x, 0.38), 0.0
    for i, part in enumerate(parts):
        y = 0.98 + 0.65 * i
        if i in (0, 3):  # a way around begins below the sublayer, or below its norm
            branch = y - 0.33
        if part is None:
            box, side = _plus(ax, (x, y)), x + 1.14
            look = {"color": ROLES["stream"], "lw": 2.5}
            ax.plot([x, side, side], [branch, branch, y], **look)
            drawing.arrow(ax, (side, y), box.right, width=2.5, colour=ROLES["stream"])
        else:
            look = {"role": part[1], "width": 1.9, "height": 0.42}
            box = drawing.operation(ax, (x, y), "", **look)
            drawing.write(ax, (x, y), part[0], size=10)
        drawing.arrow(ax, below, box.bottom)
        below = box.top
    drawing.arrow(ax, below, (x, 4.66))


def _plus(ax: Axes, middle: tuple[float, float]) -> Block:
    """A sum: a circle with a plus in it."""
    look = {"markerfacecolor": "white", "markeredgecolor": drawing.INK, "zorder": 3}
    ax.plot(*middle, "o", ms=13, **look)
    drawing.write(ax, middle, "+", size=11)
    return Block(*middle, 0.2, 0.2)


def draw_rotation(pairs: Sequence[tuple[int, int]]) -> None:
    """Clock faces: q and k, both (1, 0), turned by 1 rad a position; the angle between.

    `pairs` are (position of the query, position of the key).
    """
    title = "Turned by the position: same offset, same angle, same score"
    ax = drawing.canvas(6, 2.5, title=title)
    for i, (m, n) in enumerate(pairs):
        x, y, radius = 1.1 + 1.9 * i, 1.1, 0.62
        ax.add_patch(Circle((x, y), radius, fill=False, ec="#BBBBBB", lw=1))
        for place, role, name in ((m, "query", "q"), (n, "key", "k")):
            across, up = radius * math.cos(place), radius * math.sin(place)
            tip, beyond = (x + across, y + up), (x + 1.28 * across, y + 1.28 * up)
            drawing.arrow(ax, (x, y), tip, width=2.2, colour=ROLES[role])
            drawing.write(ax, beyond, name, size=10)
        way = torch.linspace(n, m, 20)  # from k to q
        inner = 0.38 * radius
        ax.plot(x + inner * way.cos(), y + inner * way.sin(), color=drawing.INK, lw=1)
        middle = x + 0.6 * radius * math.cos((m + n) / 2)
        height = y + 0.6 * radius * math.sin((m + n) / 2)
        drawing.write(ax, (middle, height), f"{m - n} rad", size=8)
        text = f"q at {m}, k at {n}: score {math.cos(m - n):.2f}".replace("-", "−")
        drawing.write(ax, (x, 0.15), text, size=8.5)


def draw_shared_heads(n_heads: int, shared: Sequence[tuple[str, int]]) -> None:
    """Which query heads read which heads of keys and values; one panel for each."""
    ax = drawing.canvas(6, 2.2, title="Query heads share heads of keys and values")
    cell = 0.34
    for i, (name, count) in enumerate(shared):
        left = 0.8 + 1.8 * i
        width = cell * (n_heads - 1)
        drawing.write(ax, (left + width / 2, 0.2), f"{name}: {count}", size=9)
        owners = []
        for k in range(count):
            group = n_heads // count
            x = left + cell * (k * group + (group - 1) / 2)
            owners.append(_head(ax, (x, 0.65), "key"))
        for h in range(n_heads):
            head = _head(ax, (left + cell * h, 1.45), "query")
            owner = owners[h * count // n_heads]
            drawing.arrow(ax, owner.top, head.bottom, width=0.9)
    drawing.write(ax, (0.3, 1.45), "queries", size=8)
    drawing.write(ax, (0.3, 0.65), "k, v", size=8)


def _head(ax: Axes, middle: tuple[float, float], role: str) -> Block:
    """One head: a small box in the colour of its role."""
    return drawing.operation(ax, middle, "", role=role, width=0.26, height=0.3)


def draw_misreadings(
    apart: Mapping[str, Sequence[float]],
    inputs: Sequence[str],
    *,
    bound: float,
    title: str,
) -> None:
    """How far each misread block is from Llama's layer, on each input.

    `apart` holds a row of differences for each misreading; one below `bound` passes.
    """
    _, ax = plt.subplots(figsize=(6, 1.5 + 0.34 * len(apart)))
    far = torch.tensor([*map(list, apart.values())])
    options = {"signed": True, "highest": 2.5, "colour_bar": False, "ax": ax}
    heatmap(far.ge(bound), [*apart], inputs, **options, title="", rotation=0)
    for (row, column), x in zip(
        (far > -1).nonzero().tolist(), far.ravel(), strict=True
    ):
        text, look = (f"{x:.2f}", "normal") if x >= bound else ("passes", "italic")
        ax.text(column + 0.5, row + 0.5, text, ha="center", va="center", style=look)
    ax.figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    for line in range(1, len(apart)):
        ax.axhline(line, color="white", lw=2)
    ax.set(xlabel="largest difference from Llama's output", ylabel="")
    plt.show()


def draw_steps(table: pd.DataFrame, chance: tuple[float, float], *, title: str) -> None:
    """How many steps each change takes to 90 %, next to what chance does.

    `table` is the study since_2017; `chance` is the range of the runs in which nothing
    was changed.
    """
    _, ax = plt.subplots(figsize=(6, 0.9 + 0.27 * table["change"].nunique()))
    look = {"colours": (COLOURS[0],), "ax": ax}
    over_seeds(table, x="steps_to_90", y="change", title="", **look)
    ax.axvspan(*chance, color="#E8E8E8", zorder=0)
    at = sum(chance) / 2, 0.99
    options = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "bottom"}
    ax.text(*at, "chance", fontsize=9, color="#555555", **options)
    ax.figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    ax.set(xlabel="steps until 90 % of the words are right: fewer is better", ylabel="")
    plt.show()
