"""Drawings of lesson 15: two ways through a decoder, masks, symptoms and costs."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd
import torch
from matplotlib.axes import Axes
from torch import Tensor

from helpers.plots import drawing
from helpers.plots.heatmaps import heatmap
from helpers.plots.style import COLOURS, MARKERS


def draw_two_ways(words: Sequence[str]) -> None:
    """All positions at once, as the loss is computed; then one more at each step."""
    ax = drawing.canvas(6.4, 4.5, title="Two ways to the same logits")
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
            look = {"colour": drawing.HIDDEN, "width": 0.8}
            drawing.arrow(ax, word.top, logits.bottom, **look)
    return read[-1]


def two_maps(
    maps: Mapping[str, Tensor], rows: Sequence[str], columns: Sequence[str]
) -> None:
    """Cross-attention (target_length, source_length) in two ways, below each other."""
    figure, axes = plt.subplots(2, 1, figsize=(4.8, 5.6))
    for ax, (name, weights) in zip(axes, maps.items(), strict=True):
        options = {"numbers": True, "colour_bar": False, "rotation": 0, "ax": ax}
        heatmap(weights, rows, columns, title=name, **options)
        ax.set(xlabel="", ylabel="French read")
    axes[-1].set_xlabel("English")
    figure.suptitle("Step by step, each row sees only the first words")
    plt.show()


def two_masks(target: Sequence[str], source: Sequence[str]) -> None:
    """The cross-attention's mask at a step: as due, and with the sides swapped."""
    length = len(source)
    padded = [*target, *["<pad>"] * (length - len(target))]
    real = {
        "due: hides the source's padding": [word != "<pad>" for word in source],
        "D: hides the target's padding": [word != "<pad>" for word in padded],
    }
    figure, axes = plt.subplots(2, 1, figsize=(4.8, 5.6))
    for ax, (name, visible) in zip(axes, real.items(), strict=True):
        mask = torch.tensor(visible).expand(length, length)
        options = {"colour_bar": False, "rotation": 0, "ax": ax, "mask": mask}
        heatmap(mask.float() * 0.6, padded, source, title=name, **options)
        ax.set(xlabel="", ylabel="French read")
    axes[-1].set_xlabel("English (grey: hidden)")
    figure.suptitle("Both masks have the same shape")
    plt.show()


def symptom_table(
    failed: Mapping[str, str], checks: Sequence[str], printed_in: Mapping[str, str]
) -> None:
    """Which checks fail for which fault: {fault: names, separated by "; "}.

    `checks` are all of them, in their order; those that never fail are left out.
    """
    lists = {fault: names.split("; ") for fault, names in failed.items()}
    some = {name for names in lists.values() for name in names}
    checks = [name for name in checks if name in some]
    found = torch.tensor(
        [[float(name in names) for name in checks] for names in lists.values()]
    )
    rows = [
        f"{fault} ({printed_in[fault]})" if fault in printed_in else fault
        for fault in lists
    ]
    _, ax = plt.subplots(figsize=(7.4, 6.2))
    options = {"signed": True, "highest": 3, "colour_bar": False, "ax": ax}
    title = f"{len(rows)} silent faults; the last three pass every check"
    heatmap(found, rows, checks, title="", **options, numbers=lambda x: "✗" * bool(x))
    ax.figure.suptitle(title, x=0.02, ha="left")
    ax.xaxis.tick_top()
    ax.set_xticklabels(checks, rotation=40, ha="left", rotation_mode="anchor")
    ax.set(xlabel="", ylabel="")
    plt.show()


def costs(table: pd.DataFrame, groups: Mapping[str, Sequence[str]]) -> None:
    """Score and training loss of every run, a row for each fault, in groups."""
    names = [name for group in groups.values() for name in group]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(8, 6.6), sharey=True, width_ratios=(3, 2)
    )
    for y, name in enumerate(names):
        runs = table[table["fault"] == name]
        (number,) = (i for i, group in enumerate(groups.values()) if name in group)
        look = {"color": COLOURS[number], "marker": MARKERS[number], "s": 22}
        left.scatter(100 * runs["right"], [y] * len(runs), **look)
        right.scatter(runs["train"], [y] * len(runs), **look)
    start = 0
    for group, members in groups.items():
        middle, start = start + (len(members) - 1) / 2, start + len(members)
        place = {"transform": right.get_yaxis_transform(), "va": "center"}
        right.text(1.03, middle, group, fontsize=9, **place)
        for ax in (left, right):
            ax.axhline(start - 0.5, color="grey", lw=0.5)
    sound = table.loc[table["fault"] == names[0]]
    left.axvspan(*100 * sound["right"].agg(["min", "max"]), color="grey", alpha=0.2)
    right.axvspan(*sound["train"].agg(["min", "max"]), color="grey", alpha=0.2)
    left.set_yticks(range(len(names)), names, fontsize=9)
    left.set(xlabel="held-out sentences right (%)", xlim=(-3, 100))
    left.set_ylim(len(names) - 0.5, -0.5)
    right.set(xscale="log", xlabel="training loss (nats)")
    figure.suptitle("Five seeds each; grey: the range of sound runs", x=0.02, ha="left")
    plt.show()
