"""Drawings of lesson 04: two looks, the block of heads, split and join, influences."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
from matplotlib.patches import Rectangle
from torch import Tensor

from helpers.plots import drawing, heatmap
from helpers.plots.drawing import ROLES
from helpers.plots.style import COLOURS

PALE_KEY = [0.6 + 0.4 * channel for channel in to_rgb(ROLES["key"])]


def draw_two_looks(words: Sequence[str], place: int) -> None:
    """A word in the middle of a sentence looks at both neighbours, a head each.

    The keys of all other words reach both heads, too: of them, two pale arrows a head.
    """
    title = f"“{words[place]}” looks twice: one head looks left, the other right"
    ax = drawing.canvas(6, 2.75, title=title)
    row = drawing.tokens(ax, words, (0.45, 0.35), width=0.6, gap=0.125)
    sides = ((1, -1, "left", "+1"), (2, 1, "right", "−1"))
    answer = drawing.operation(
        ax, (row[place].x, 2.05), "left − right", role="context", width=1.2
    )
    for head, step, side, sign in sides:
        seen = row[place + step]
        x = row[place].x + 1.4 * step
        box = drawing.operation(
            ax, (x, 1.25), f"head {head}: {side}", role="weights", width=1.25
        )
        for other in (row[place + 2 * step], row[place + 3 * step]):
            look = {"colour": PALE_KEY, "width": 0.6}
            drawing.arrow(ax, other.top, box.bottom, **look)
        for shift, role in ((-0.06, "key"), (0.06, "value")):
            start = seen.x + shift, seen.top[1]
            end = box.x + shift, box.bottom[1]
            drawing.arrow(ax, start, end, colour=ROLES[role], width=2)
        inner = box.right if step < 0 else box.left
        drawing.arrow(ax, row[place].top, inner, colour=ROLES["query"])
        end = answer.left if step < 0 else answer.right
        beside = (-0.3 if step < 0 else 0.3, 0.1)
        drawing.arrow(ax, box.top, end, text=f"times {sign}", offset=beside)
    for y, role in ((2.25, "query"), (2.0, "key"), (1.75, "value")):
        drawing.arrow(ax, (0.1, y), (0.5, y), colour=ROLES[role], width=2)
        drawing.write(ax, (0.6, y), role, size=9, align="left")
    drawing.arrow(ax, (0.1, 1.5), (0.5, 1.5), colour=PALE_KEY, width=0.6)
    drawing.write(ax, (0.6, 1.5), "others (two shown)", size=9, align="left")


def draw_block(length: int, d_model: int, n_heads: int) -> None:
    """Multi-head self-attention with shapes: project, split, attend, join, project.

    Three heads at most can be drawn.
    """
    d_head = d_model // n_heads
    title = f"Multi-head self-attention, for one sentence of {length} tokens"
    ax = drawing.canvas(6, 6.2, title=title)
    x = drawing.operation(ax, (2.55, 5.65), "x", role="input", width=0.9)
    _note(ax, 5.65, f"({length}, {d_model})", "length, d_model")
    middles = [2.55 + 1.4 * (i - 1) for i in range(3)]
    piece = 1.2 / n_heads  # of a bar, for a head
    shifts = [i - (n_heads - 1) / 2 for i in range(n_heads)]
    bars = {}
    for role, middle in zip(("query", "key", "value"), middles, strict=True):
        linear = drawing.operation(
            ax, (middle, 4.9), f"$W^{role[0].upper()}$", role=role
        )
        drawing.arrow(ax, x.bottom, linear.top)
        look = {"role": role, "width": 0.92 * piece, "height": 0.3}
        bars[role] = [
            drawing.operation(ax, (middle + shift * piece, 4.15), f"{i + 1}", **look)
            for i, shift in enumerate(shifts)
        ]
        drawing.arrow(ax, linear.bottom, (middle, 4.3))
    joined = drawing.operation(
        ax,
        (2.55, 2.05),
        f"heads 1 to {n_heads}, side by side",
        role="context",
        width=3.6,
    )
    output = drawing.operation(ax, (2.55, 1.15), "$W^O$")
    for i, middle in enumerate(middles[:n_heads]):
        attends = drawing.operation(
            ax, (middle, 3.05), f"attention {i + 1}", role="weights", width=1.15
        )
        for shift, role in zip((-0.25, 0, 0.25), bars, strict=True):
            end = attends.x + shift, attends.top[1]
            drawing.arrow(ax, bars[role][i].bottom, end, colour=ROLES[role], width=0.9)
        drawing.arrow(ax, attends.bottom, (2.55 + 1.2 * (i - 1), joined.top[1]))
    drawing.arrow(ax, joined.bottom, output.top)
    result = drawing.operation(ax, (2.55, 0.4), "output", role="input", width=0.9)
    drawing.arrow(ax, output.bottom, result.top)
    steps = {
        4.9: "project",
        4.15: "split",
        3.05: "attend",
        2.05: "join",
        1.15: "project",
    }
    for y, step in steps.items():
        drawing.write(ax, (0.1, y), step, align="left")
    _note(ax, 4.9, f"({length}, {d_model}) each", "length, d_model")
    _note(ax, 4.15, f"({n_heads}, {length}, {d_head}) each", "heads, length, d_head")
    _note(ax, 3.28, f"weights ({n_heads}, {length}, {length})", "heads, query, key")
    _note(ax, 2.8, f"context ({n_heads}, {length}, {d_head})", "heads, length, d_head")
    _note(ax, 2.05, f"({length}, {d_model})", "length, d_model")
    _note(ax, 0.4, f"({length}, {d_model})", "length, d_model")


def _note(ax: Axes, y: float, shape: str, axes: str) -> None:
    """A shape at the right margin and, below it, what its axes are."""
    drawing.write(ax, (5.28, y + 0.1), shape, size=10)
    drawing.write(ax, (5.28, y - 0.12), axes, size=8)


def four_influences(influences: Mapping[str, Tensor], words: Sequence[str]) -> None:
    """Where inputs reach outputs in four modules, the past apart from the future.

    influences {name: (length, length)}: how much of input j arrives in output i.
    """
    kinds = ("no influence", "of past and present", "of the future")
    colours = [drawing.HIDDEN, ROLES["query"], ROLES["mask"]]
    figure, axes = plt.subplots(2, 2, figsize=(5.8, 6), sharex=True, sharey=True)
    places = [i + 0.5 for i in range(len(words))]
    for ax, (name, matrix) in zip(axes.flat, influences.items(), strict=True):
        reached = (matrix > 0).int()
        kind = reached + reached.triu(1)
        look = {"cmap": ListedColormap(colours), "vmin": 0, "vmax": 2}
        ax.pcolormesh(kind.numpy(), edgecolors="white", linewidth=1, **look)
        ax.set_xticks(places, words, rotation=90)
        ax.set_yticks(places, words)
        ax.set(title=name, xlabel="input", ylabel="output", aspect="equal")
        ax.label_outer()
    axes[0, 0].invert_yaxis()  # all share it
    keys = [Rectangle((0, 0), 1, 1, color=colour) for colour in colours]
    figure.legend(keys, kinds, loc="outside lower center", ncols=3, frameon=False)
    title = "Two mistakes together respect the causal mask"
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    plt.show()


def paint_heads(ways: Mapping[str, Tensor], tokens: Sequence[str], title: str) -> None:
    """Which features a head gets: a colour for each token, dark for head 1's.

    ways {name: (2, length, d_head)}; an entry is 2 · token + the head it belongs to.
    """
    tints = [
        [1 - tint * (1 - channel) for channel in to_rgb(colour)]
        for colour in COLOURS[: len(tokens)]
        for tint in (0.7, 0.25)
    ]
    figure, axes = plt.subplots(len(ways), 2, figsize=(6, 0.6 + 2.1 * len(ways)))
    for line, (way, painted) in zip(axes, ways.items(), strict=True):
        for head, ax in enumerate(line):
            look = {"cmap": ListedColormap(tints), "vmin": 0, "vmax": len(tints) - 1}
            ax.imshow(painted[head].numpy(), aspect="auto", **look)
            for row, labels in enumerate(painted[head].tolist()):
                for column, label in enumerate(labels):
                    text = f"{tokens[label // 2]} {label % 2 + 1}"
                    ax.text(column, row, text, ha="center", va="center")
            ax.set_yticks(
                range(len(tokens)), [f"row {i + 1}" for i in range(len(tokens))]
            )
            features = f"{painted.size(2)} features"
            ax.set(title=f"{way}: head {head + 1}", xlabel=features, xticks=[])
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    plt.show()


def maps_and_effect(
    maps: Tensor, times: float, effect: Tensor, words: Sequence[str], *, title: str
) -> None:
    """The maps of two heads, their difference `times` a number, and the effect.

    maps (2, length, length), effect (length, length). Colour shows weights up to 0.5.
    """
    figure, axes = plt.subplots(2, 2, figsize=(6, 6), sharex=True, sharey=True)
    look = {"colour_bar": False, "rotation": 90}
    for head, ax in enumerate(axes[0]):
        heading = f"map of head {head + 1}"
        heatmap(maps[head], words, words, title=heading, ax=ax, highest=0.5, **look)
    difference = f"{times:.1f} · (map 1 − map 2)".replace("-", "−")
    signed = {difference: times * (maps[0] - maps[1]), "effect, measured": effect}
    for (heading, matrix), ax in zip(signed.items(), axes[1], strict=True):
        heatmap(matrix, words, words, title=heading, ax=ax, signed=True, **look)
    for line, label in zip(axes, ("weight", "effect"), strict=True):
        figure.colorbar(line[0].collections[0], ax=line, label=label)
    for ax in axes.flat:
        ax.set(xlabel="word at", ylabel="answer at")
        ax.label_outer()
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    plt.show()
