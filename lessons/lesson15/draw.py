"""Drawings of lesson 15: two ways through a decoder, masks, symptoms and costs."""

import textwrap
from collections.abc import Mapping, Sequence
from itertools import product

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


def two_masks(sides: Mapping[str, tuple[Sequence[str], Sequence[str]]]) -> None:
    """Which keys cross-attention sees by the right mask, and by the swapped one.

    `sides` maps titles to (source, target) tokens; the shorter side is padded. In each
    cell stands the token from which the mask is made: the key's own, or the target's.
    """
    figure, axes = plt.subplots(len(sides), 1, figsize=(5, 1.75 * len(sides)))
    for ax, (title, (source, target)) in zip(axes, sides.items(), strict=True):
        length = max(len(source), len(target))
        made_from = [[*x, *["<pad>"] * (length - len(x))] for x in (source, target)]
        mask = torch.tensor([[word != "<pad>" for word in row] for row in made_from])
        options = {"colour_bar": False, "rotation": 0, "ax": ax, "mask": mask}
        rows = ["right: keys'", "D: target's"]
        heatmap(mask.float() * 0.6, rows, made_from[0], title=title, **options)
        for y, x in product(range(2), range(length)):
            seen = bool(mask[y, x])
            look = {"color": "white" if seen else "black", "fontsize": 9}
            box = None if seen else {"fc": "white", "ec": "none", "pad": 1.2}
            place = {"ha": "center", "va": "center", "bbox": box}
            ax.text(x + 0.5, y + 0.5, made_from[y][x], **look, **place)
        ax.axhline(1, color="white", lw=4)
        ax.set(xlabel="", ylabel="")
    axes[-1].set_xlabel("key: the English (hatched: hidden)")
    title = "The swapped mask hides words, and shows padding"
    figure.suptitle(title, x=0.02, ha="left", fontsize=11, weight="bold")
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
    """Score and training loss of every run, a row for each fault, in named groups."""
    rows = [name for names in groups.values() for name in names]
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(5, 0.8 + 0.3 * len(rows)), sharey=True, width_ratios=(5, 4)
    )
    sound = table[table["fault"] == "none"]
    left.axvspan(*100 * sound["right"].agg(["min", "max"]), color="grey", alpha=0.2)
    right.axvspan(*sound["train"].agg(["min", "max"]), color="grey", alpha=0.2)
    for number, (group, names) in enumerate(groups.items()):
        look = {"color": COLOURS[number], "marker": MARKERS[number], "s": 22}
        for name in names:
            runs, y = table[table["fault"] == name], [rows.index(name)] * 5
            left.scatter(100 * runs["right"], y, **look)
            right.scatter(runs["train"], y, **look)
        first, last = rows.index(names[0]), rows.index(names[-1])
        for ax in (left, right):
            ax.axhline(last + 0.5, color="grey", lw=0.5)
        if len(names) > 1:
            beside = {"transform": right.get_yaxis_transform(), "rotation": 90}
            middle = {"ha": "left", "va": "center", "fontsize": 9}
            right.text(1.03, (first + last) / 2, group, **beside, **middle)
    labels = [_in_lines(name) for name in rows]
    left.set_yticks(range(len(rows)), labels, fontsize=9, linespacing=0.9)
    left.set(xlabel="right (%)", xlim=(-6, 106), ylim=(len(rows) - 0.5, -0.5))
    right.set(xscale="log", xlabel="training loss")
    title = "Five seeds each; grey: the range of sound runs"
    figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    plt.show()


def _in_lines(name: str) -> str:
    return textwrap.fill(name, 28, break_on_hyphens=False)
