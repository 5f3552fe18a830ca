"""Drawings of lesson 05: the feed-forward network, the stream, the measured blocks."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from helpers.plots import drawing
from helpers.plots.drawing import ROLES, Block
from helpers.plots.style import COLOURS

# A sublayer, or the norm, in all drawings of the lesson.
ATTENTION, FEED_FORWARD, NORM, STREAM = "attention", "feed-forward", "norm", "stream"
# Colour and line style of each way of joining a sublayer to the stack. Where lines
# coincide, the broader ones lie beneath.
LOOKS = {
    "plain": ("#6A6A6A", ":"),
    "norm only": (COLOURS[5], "-."),
    "x + only": (COLOURS[2], (0, (7, 2))),
    "norm last": (COLOURS[1], "--"),
    "norm first": (COLOURS[0], "-"),
}
BROAD = {"norm first": 5, "x + only": 3}


def draw_feed_forward(words: Sequence[str], d_model: int, d_ff: int) -> None:
    """The same small network at every position, with the sizes on its arrows."""
    title = "Feed-forward: one network, applied to each position alone"
    ax = drawing.canvas(5.6, 3.5, title=title)
    for i, word in enumerate(words):
        x = 1.35 + 1.45 * i
        (token,) = drawing.tokens(ax, [word], (x, 0.35), width=0.9)
        look = {"role": FEED_FORWARD, "width": 1.15}
        wide = drawing.operation(ax, (x, 1.05), "expand", **look)
        relu = drawing.operation(ax, (x, 1.8), "ReLU", width=1.15)
        narrow = drawing.operation(ax, (x, 2.55), "contract", **look)
        for one, other in ((token, wide), (wide, relu), (relu, narrow)):
            drawing.arrow(ax, one.top, other.bottom)
        drawing.arrow(ax, narrow.top, (x, 3.15))
    for y, size in ((0.69, d_model), (1.43, d_ff), (2.18, d_ff), (2.93, d_model)):
        drawing.write(ax, (0.4, y), str(size), size=10)
    drawing.write(ax, (0.4, 3.12), "features:", size=9)


def draw_stream(names: Sequence[str]) -> None:
    """The residual stream: sublayers read a copy of it and add what they compute."""
    title = "The residual stream: each sublayer reads it and adds to it"
    ax = drawing.canvas(5.6, 2.5, title=title)
    y, place = 0.7, 0.35
    drawing.write(ax, (place, y), "$x_0$", size=11)
    for i, name in enumerate(names):
        x = 1.05 + 1.2 * i
        role = ATTENTION if "attention" in name else FEED_FORWARD
        box = drawing.operation(ax, (x, 1.75), name, role=role, width=1.1, height=0.5)
        plus = _plus(ax, (x + 0.4, y))
        _flow(ax, (place + 0.15, y), plus.left)
        drawing.arrow(ax, (x - 0.3, y), (x - 0.3, box.bottom[1]))
        drawing.arrow(ax, (x + 0.4, box.bottom[1]), plus.top)
        drawing.write(ax, (x - 0.33, 1.12), "reads", size=8, align="right")
        drawing.write(ax, (x + 0.37, 1.2), "adds", size=8, align="right")
        place = plus.right[0] - 0.15
    _flow(ax, (place + 0.15, y), (5.45, y))
    sums = " + ".join(["$x_0$", *(f"$f_{i + 1}$" for i in range(len(names)))])
    drawing.write(
        ax, (2.8, 0.22), f"without norms, the stream ends as {sums}", size=9.5
    )


def draw_wirings() -> None:
    """A block wired norm last and one wired norm first, side by side."""
    title = "One block: norm last (2017) and norm first"
    ax = drawing.canvas(5.6, 5.6, title=title)
    for x, name, first in ((1.5, "norm last", False), (4.2, "norm first", True)):
        drawing.write(ax, (x, 5.1), name, size=11)
        drawing.write(ax, (x, 0.2), "x", size=11)
        y = 0.34
        for sublayer, role in (
            ("attention", ATTENTION),
            ("feed-forward", FEED_FORWARD),
        ):
            y = _draw_half(ax, x, y, sublayer, role, first)
        if first:
            look = {"role": NORM, "width": 1.1, "height": 0.36}
            top = drawing.operation(ax, (x, y + 0.45), "norm", **look)
            _flow(ax, (x, y), top.bottom)
            drawing.write(
                ax, (x + 0.62, y + 0.45), "once, at\nthe top", size=8, align="left"
            )
            y = top.top[1]
        _flow(ax, (x, y), (x, 4.9))


def _draw_half(
    ax: Axes, x: float, y: float, sublayer: str, role: str, first: bool
) -> float:
    """A sublayer with its norm and its way around; where it ends."""
    look = {"width": 1.1, "height": 0.36}
    steps = [y + 0.55, y + 1.1, y + 1.6]
    norm = drawing.operation(
        ax, (x, steps[0] if first else steps[2]), "norm", role=NORM, **look
    )
    box = drawing.operation(
        ax, (x, steps[1] if first else steps[0]), sublayer, role=role, **look
    )
    plus = _plus(ax, (x, steps[2] if first else steps[1]))
    order = [norm, box, plus] if first else [box, plus, norm]
    side, branch = x - 0.85, y + 0.18
    drawing.arrow(ax, (x, branch), order[0].bottom)
    for one, other in pairwise(order):
        (_flow if one is plus else drawing.arrow)(ax, one.top, other.bottom)
    look = {"color": ROLES[STREAM], "lw": 2.5}
    ax.plot([x, x, side, side], [y, branch, branch, plus.y], **look)
    _flow(ax, (side, plus.y), plus.left)
    return order[-1].top[1]


def _flow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    """A piece of the stream."""
    drawing.arrow(ax, start, end, width=2.5, colour=ROLES[STREAM])


def _plus(ax: Axes, middle: tuple[float, float]) -> Block:
    """A sum: a circle with a plus in it."""
    look = {"markerfacecolor": "white", "markeredgecolor": drawing.INK, "zorder": 3}
    ax.plot(*middle, "o", ms=15, **look)
    drawing.write(ax, middle, "+", size=12)
    return Block(*middle, 0.22, 0.22)


def lines_by_block(
    runs: Mapping[str, Sequence[Mapping[str, Sequence[float]]]],
    ylabels: Mapping[str, str],
    *,
    title: str,
) -> Figure:
    """A panel for each of `ylabels`; in it, a line for each seed of each way.

    runs {way: [{name of a panel: its values by block} of each seed]}: the last value
    is that of the last block, so a line with a value more begins at block 0, the input.
    """
    figure, axes = plt.subplots(len(ylabels), figsize=(5.6, 2.6 * len(ylabels)))
    for ax, (name, ylabel) in zip(axes, ylabels.items(), strict=True):
        for way, seeds in runs.items():
            colour, style = LOOKS[way]
            width = BROAD.get(way, 1.8)
            look = {"color": colour, "linestyle": style, "lw": width}
            look["zorder"] = 2 - 0.1 * width
            for run in seeds:
                first = len(run["gradient"]) + 1 - len(run[name])
                ax.semilogy(range(first, first + len(run[name])), run[name], **look)
            ax.plot([], [], label=way, **look)
        ax.set(xlabel="block", ylabel=ylabel)
    axes[0].set_title(title)
    look = {"loc": "outside lower center", "ncols": 3, "handlelength": 3.5}
    figure.legend(*axes[0].get_legend_handles_labels(), **look)
    return figure
