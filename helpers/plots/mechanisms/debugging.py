"""Drawings of lesson 15: two ways through a decoder, masks, symptoms and costs."""

import textwrap
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
            look = {"colour": drawing.HIDDEN, "width": 0.8}
            drawing.arrow(ax, word.top, logits.bottom, **look)
    return read[-1]


def two_maps(
    maps: Mapping[str, Tensor], rows: Sequence[str], columns: Sequence[str]
) -> None:
    """Cross-attention (target_length, source_length) in two ways, below each other.

    A weight of exactly zero is that of a hidden key.
    """
    figure, axes = plt.subplots(2, 1, figsize=(4.8, 5.6))
    for ax, (name, weights) in zip(axes, maps.items(), strict=True):
        options = {"numbers": True, "colour_bar": False, "rotation": 0, "ax": ax}
        heatmap(weights, rows, columns, title=name, mask=weights > 0, **options)
        ax.set(xlabel="", ylabel="French read")
    axes[-1].set_xlabel("English (grey: hidden)")
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
    letters = {fault: f" ({letter})" for fault, letter in printed_in.items()}
    rows = [_in_lines(fault + letters.get(fault, "")) for fault in lists]
    _, ax = plt.subplots(figsize=(5, 7.4))
    options = {"signed": True, "highest": 3, "colour_bar": False, "ax": ax}
    title = f"{len(rows)} silent faults; the last three pass every check"
    heatmap(found, rows, checks, title="", **options, numbers=lambda x: "✗" * bool(x))
    ax.figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    ax.xaxis.tick_top()
    above = {"ha": "left", "va": "center", "rotation_mode": "anchor"}
    ax.set_xticklabels(checks, rotation=90, fontsize=9.5, **above)
    ax.tick_params(axis="y", labelsize=9.5)
    for line in range(1, len(rows)):
        ax.axhline(line, color="white", lw=2)
    ax.set(xlabel="", ylabel="")
    plt.show()


def costs(table: pd.DataFrame, groups: Mapping[str, Sequence[str]]) -> None:
    """Score and training loss of every run, a row for each fault, in groups."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(5, 9.4), sharey=True, width_ratios=(5, 4)
    )
    labels, y = {}, 0
    for number, (group, names) in enumerate(groups.items()):
        place = {"transform": left.get_yaxis_transform(), "va": "center", "ha": "right"}
        left.text(-0.06, y, group, fontsize=9.5, weight="bold", **place)
        left.axhline(y - 0.6, color="grey", lw=0.5)
        right.axhline(y - 0.6, color="grey", lw=0.5)
        look = {"color": COLOURS[number], "marker": MARKERS[number], "s": 22}
        for name in names:
            y += 1
            labels[y] = _in_lines(name)
            runs = table[table["fault"] == name]
            left.scatter(100 * runs["right"], [y] * len(runs), **look)
            right.scatter(runs["train"], [y] * len(runs), **look)
        y += 1
    sound = table[table["fault"] == "none"]
    left.axvspan(*100 * sound["right"].agg(["min", "max"]), color="grey", alpha=0.2)
    right.axvspan(*sound["train"].agg(["min", "max"]), color="grey", alpha=0.2)
    left.set_yticks([*labels], [*labels.values()], fontsize=9.5)
    left.set(xlabel="right (%)", xlim=(-6, 106), ylim=(y - 0.4, -0.6))
    right.set(xscale="log", xlabel="training loss")
    title = "Five seeds each; grey: the range of sound runs"
    figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    plt.show()


def _in_lines(name: str) -> str:
    return textwrap.fill(name, 28, break_on_hyphens=False)
