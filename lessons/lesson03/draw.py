"""Drawings of lesson 03: shifted targets, masks as grids, influence side by side."""

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from helpers.plots import drawing
from helpers.plots.curves import learning_curves
from helpers.plots.drawing import HIDDEN, ROLES
from helpers.plots.heatmaps import heatmap

LEAK = "#F0308F"  # what must not pass
ROUNDING = 1e-5  # an influence below may be nothing else
PALE = 0.3  # how strong what broadcasting repeats is drawn


def _draw_grid(
    ax: Axes,
    middle: tuple[float, float],
    mask: Tensor,
    *,
    name: str = "",
    rows: Sequence[str] = "",
    columns: Sequence[str] = "",
    stored: Tensor | None = None,
    cell: float = drawing.CELL,
) -> None:
    """A mask (query_length, key_length): coloured may attend, grey is hidden.

    Cells that are not `stored` but repeated are pale.
    """
    words = [[""] * mask.size(1)] * mask.size(0)
    labels = {"name": name, "rows": rows, "columns": columns, "cell": cell}
    block = drawing.tensor(ax, middle, words, "mask", **labels)
    left, top = block.left[0], block.top[1]
    for i, line in enumerate(mask.tolist()):
        for j, may in enumerate(line):
            corner = left + j * cell, top - (i + 1) * cell
            pale = PALE if may else 2 * PALE  # grey is pale already
            alpha = 1 if stored is None or stored[i, j] else pale
            look = {"fc": ROLES["mask"] if may else HIDDEN, "ec": "white", "lw": 1.5}
            look |= {} if may else {"hatch": "////"}
            for face in ({"fc": "white", "ec": "white"}, {**look, "alpha": alpha}):
                ax.add_patch(Rectangle(corner, cell, cell, zorder=3, **face))


def draw_masks(panels: Mapping[str, tuple[Tensor, Sequence[str]]], title: str) -> None:
    """Masks of self-attention side by side, {name: (mask, tokens)}: at most two."""
    sizes = [len(words) * drawing.CELL for _, words in panels.values()]
    height = max(sizes) + (1.25 if any(panels) else 1.0)
    ax = drawing.canvas(0.3 + sum(size + 0.75 for size in sizes), height, title=title)
    left = 0.85
    for (name, (mask, words)), size in zip(panels.items(), sizes, strict=True):
        middle = left + size / 2, 0.5 + size / 2
        labels = {"name": name, "rows": words, "columns": words}
        _draw_grid(ax, middle, mask, **labels)
        drawing.write(ax, (middle[0], 0.15), "key", size=9)
        left += size + 0.75
    drawing.write(ax, (0.12, 0.5 + sizes[0] / 2), "query", size=9, rotation=90)


def draw_shift(words: Sequence[str]) -> None:
    """The input and, above it, what must be guessed: the same words, shifted by one."""
    title = "The next word, the answer, is in the input for all but the last position"
    ax = drawing.canvas(5.5, 2.1, title=title)
    drawing.write(ax, (0.12, 1.4), "must guess", align="left")
    drawing.write(ax, (0.12, 0.45), "reads", align="left")
    place = {"width": 0.85, "gap": 0.2}
    below = drawing.tokens(ax, words[:-1], (1.55, 0.45), **place)
    above = drawing.tokens(ax, words[1:], (1.55, 1.4), role="context", **place)
    for one, other in zip(below, above, strict=True):
        drawing.arrow(ax, one.top, other.bottom)
    for one, other in zip(below[1:], above[:-1], strict=True):
        start, end = (one.x - 0.15, one.top[1]), (other.x + 0.15, other.bottom[1])
        drawing.arrow(ax, start, end, colour=LEAK)
    text = "pink: forbidden, for it copies the answer"
    drawing.write(ax, (1.13, 0.12), text, align="left", colour="#B0006D")


def draw_and(
    padding: Tensor, causal: Tensor, both: Tensor, names: Sequence[str]
) -> None:
    """How two masks broadcast: for each of two sentences padding & causal = both.

    padding (2, 1, 1, length), causal (1, 1, length, length), both (2, 1, length,
    length).
    """
    length, cell = causal.size(-1), 0.3
    ax = drawing.canvas(
        6.0, 4.5, title="Padding & causal = decoder mask (pale: repeated)"
    )
    whole = torch.ones(length, length, dtype=torch.bool)
    for sentence, name in enumerate(names):
        y = 2.95 - 1.9 * sentence
        drawing.write(ax, (0.25, y), name, size=9, rotation=90)
        first_row = torch.arange(length)[:, None].expand(length, length) == 0
        stored = first_row, whole & (sentence == 0), whole
        for x, mask, kept, sign in zip(
            (1.3, 3.15, 5.0), (padding, causal, both), stored, "&= ", strict=True
        ):
            grid = mask.expand(len(names), 1, length, length)[sentence, 0]
            title = "" if sentence else str(tuple(mask.shape))
            _draw_grid(ax, (x, y), grid, name=title, stored=kept, cell=cell)
            drawing.write(ax, (x + 0.925, y), sign, size=14)
    for x, text in ((1.3, "padding"), (3.15, "causal"), (5.0, "decoder")):
        drawing.write(ax, (x, 4.07), text, size=10)
        drawing.write(ax, (x, 0.12), "key", size=9)
    for y in (2.95, 1.05):
        drawing.write(ax, (0.46, y), "query", size=9, rotation=90)


def draw_packing(documents: Sequence[Sequence[str]]) -> None:
    """Documents as rows of a padded batch, and the same in one row."""
    longest = max(map(len, documents))
    ax = drawing.canvas(5.5, 2.5, title="Packing: several documents share one row")
    place = {"width": 0.6, "gap": 0.06}
    drawing.write(ax, (0.12, 1.75), "padded", align="left")
    drawing.write(ax, (0.12, 0.6), "packed", align="left")
    start = 1.1
    for row, words in enumerate(documents):
        padded = [*words, *["<pad>"] * (longest - len(words))]
        drawing.tokens(ax, padded, (1.1, 1.95 - 0.4 * row), **place)
        blocks = drawing.tokens(ax, words, (start, 0.6), **place)
        left, right = blocks[0].left[0], blocks[-1].right[0]
        ax.plot([left, right], [0.34, 0.34], color=drawing.INK, lw=2)
        drawing.write(ax, ((left + right) / 2, 0.18), f"document {row + 1}", size=9)
        start = blocks[-1].x + 0.66


def influence_maps(
    found: Mapping[str, Tensor], words: Sequence[str], allowed: Tensor, *, title: str
) -> None:
    """Influence of each input on each output, {name: (length, length)}: four maps.

    Framed are leaks, more than rounding where the mask `allowed` (length, length)
    hides, off the diagonal; dashed frames stand around a 0 where it allows.
    """
    _, axes = plt.subplots(2, 2, figsize=(6.4, 6.1))
    itself = torch.eye(len(words)).bool()
    for ax, (name, strength) in zip(axes.flat, found.items(), strict=True):
        look = {"numbers": True, "colour_bar": False, "highest": 3.2}
        heatmap(strength, words, words, title=name, ax=ax, **look)
        ax.set(xlabel="input", ylabel="output")
        leaks = (strength > ROUNDING) & ~allowed & ~itself
        blind = (strength == 0) & allowed
        leaky, dashed = {"ec": LEAK, "lw": 3.5}, {"ec": "white", "lw": 2, "ls": "--"}
        for cells, frame in ((leaks, leaky), (blind, dashed)):
            for i, j in cells.nonzero().tolist():
                corner = j + 0.07, i + 0.07
                ax.add_patch(Rectangle(corner, 0.86, 0.86, fill=False, **frame))
    ax.figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    plt.show()


def losses_by_step(losses: Mapping[str, Tensor], *, title: str) -> None:
    """The losses {name: (steps,)} of some runs, as means of ten steps."""
    means = {name: line.view(-1, 10).mean(dim=1) for name, line in losses.items()}
    curves = {name: (range(5, 10 * len(y), 10), y) for name, y in means.items()}
    _, ax = plt.subplots(figsize=(5.6, 3.6))
    learning_curves(curves, title=title, xlabel="training step", ax=ax)
    ax.lines[0].set(linewidth=6, alpha=0.4)  # wide, as the fourth lies on it
    ax.lines[3].set(color=drawing.INK)
    chance = math.log(16)  # the loss of the honest
    lines = ((chance, "chance: 2.77", 5), (chance / 8, "perfect cheat: 0.35", -13))
    for loss, name, above in lines:
        ax.axhline(loss, color="#808080", lw=1, ls=":", zorder=0)
        place = {"xycoords": ax.get_yaxis_transform(), "textcoords": "offset points"}
        ax.annotate(name, (0.02, loss), xytext=(0, above), fontsize=9, **place)
    ax.set(ylim=(0, 3.3))
    place = {"loc": "upper right", "bbox_to_anchor": (1, 0.83)}
    ax.legend(**place, frameon=False, fontsize=9, labelspacing=0.3)
    plt.show()
