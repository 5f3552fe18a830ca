"""Drawings of lesson 15: two ways through a decoder, and symptoms."""

import textwrap
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes

from helpers.plots import drawing
from helpers.plots.heatmaps import heatmap


def draw_two_ways(words: Sequence[str]) -> None:
    """All positions at once, as the loss is computed; then one more at each step."""
    ax = drawing.canvas(5.4, 4.5, title="Two ways to the same logits")
    left = 1.9
    note = "all at once:\na mask hides\nwhat is later"
    drawing.write(ax, (0.1, 3.55), note, align="left")
    _pass_through(ax, words, (left, 3.1), 0.85, kept=range(len(words)))
    note = "step by step:\nnothing later\nis there"
    drawing.write(ax, (0.1, 1.3), note, align="left")
    for step in (1, 2, 3):
        y = 2.95 - 0.9 * step
        end = _pass_through(ax, words[:step], (left, y), 0.48, kept=[step - 1])
        place = end.right[0] + 0.12, end.y
        drawing.write(ax, place, f"step {step}", size=8.5, align="left")


def _pass_through(
    ax: Axes,
    words: Sequence[str],
    start: tuple[float, float],
    above: float,
    *,
    kept: Sequence[int],
) -> drawing.Block:
    """Words, and above them the logits of the kept positions; gives the last word."""
    read = drawing.tokens(ax, words, start, gap=0.15)
    for place in kept:
        box = (read[place].x, start[1] + above)
        logits = drawing.operation(ax, box, "logits", role="query", height=0.22)
        for word in read[: place + 1]:
            drawing.arrow(ax, word.top, logits.bottom, width=0.9)
    return read[-1]


def symptom_table(
    failed: Mapping[str, Sequence[str]], checks: Sequence[str], *, title: str
) -> None:
    """Which checks fail for which fault: {fault: the names of the checks}."""
    rows = [textwrap.fill(fault, 26, break_on_hyphens=False) for fault in failed]
    found = [[float(x in names) for x in checks] for names in failed.values()]
    _, ax = plt.subplots(figsize=(5, 2 + 0.35 * len(rows)))
    options = {"signed": True, "highest": 3, "colour_bar": False, "ax": ax, "title": ""}
    options["numbers"] = lambda x: "✗" * bool(x)
    heatmap(torch.tensor(found), rows, checks, **options)
    ax.figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    ax.xaxis.tick_top()
    above = {"ha": "left", "va": "center", "rotation_mode": "anchor"}
    names = [textwrap.fill(name, 15) for name in checks]
    ax.set_xticklabels(names, rotation=90, fontsize=9.5, **above)
    ax.tick_params(axis="y", labelsize=9.5)
    for line in range(1, len(rows)):
        ax.axhline(line, color="white", lw=2)
    ax.set(xlabel="", ylabel="")
    plt.show()
