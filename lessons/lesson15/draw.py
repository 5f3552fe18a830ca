"""Drawings of lesson 15: two ways through a decoder, maps, masks and symptoms."""

import textwrap
from collections.abc import Mapping, Sequence
from itertools import product

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor

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
    """Which keys cross-attention sees by the right mask, and by the wrong one.

    `sides` maps titles to (source, target) tokens; the shorter side is padded. In each
    cell stands the token from which the mask is made: the key's own, or the target's.
    """
    figure, axes = plt.subplots(len(sides), 1, figsize=(5, 1.75 * len(sides)))
    for ax, (title, (source, target)) in zip(axes, sides.items(), strict=True):
        length = max(len(source), len(target))
        made_from = [[*x, *["<pad>"] * (length - len(x))] for x in (source, target)]
        mask = torch.tensor([[word != "<pad>" for word in row] for row in made_from])
        options = {"colour_bar": False, "rotation": 0, "ax": ax, "mask": mask}
        rows = ["right: source's", "wrong: target's"]
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
    title = "The wrong mask hides words, and shows padding"
    figure.suptitle(title, x=0.02, ha="left", fontsize=11, weight="bold")
    plt.show()


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
