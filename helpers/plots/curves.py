"""Losses and other numbers as they change."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator

from helpers.plots.style import COLOURS, STYLES

Curve = tuple[Sequence[float], Sequence[float]]


def learning_curves(
    curves: Mapping[str, Curve],
    *,
    title: str,
    xlabel: str = "step",
    ylabel: str = "loss",
    log: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """One line per curve, {name: (xs, ys)}, for example training and validation loss.

    `log` gives a logarithmic y axis. ValueError for a curve whose xs and ys differ in
    number, or that has none.
    """
    for name, (xs, ys) in curves.items():
        if not len(xs) == len(ys) > 0:
            raise ValueError(f"curve {name!r} has {len(xs)} xs and {len(ys)} ys")
    if ax is None:
        _, ax = plt.subplots(figsize=(5.4, 3.2))
    for i, (name, (xs, ys)) in enumerate(curves.items()):
        # A few measurements are seen as such; a loss for every step is a plain line.
        marker = "o" if len(xs) <= 25 else None
        look = {"ls": STYLES[i % len(STYLES)], "color": COLOURS[i % len(COLOURS)]}
        ax.plot(xs, ys, marker=marker, markersize=4, label=name, **look)
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    if log:
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_formatter("")
    ax.legend(frameon=False)
    return ax
