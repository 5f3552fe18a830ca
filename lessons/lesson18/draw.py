"""Drawings of lesson 18: the mask, and what the loss counts."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from helpers.plots import drawing
from helpers.plots.drawing import HIDDEN, INK


def _cell(
    ax: Axes, corner: tuple[float, float], size: tuple[float, float], **look
) -> None:
    ax.add_patch(Rectangle(corner, *size, **look))


def draw_who_sees_whom(mask: Tensor, words: Sequence[str], english: int) -> None:
    """A causal mask (length, length): rows see the columns in colour.

    The first `english` words are the prompt's; a line stands behind them. What it hides
    of the prompt has a dark edge.
    """
    size, left = 0.3, 0.75
    side = size * len(words)
    ax = drawing.canvas(
        left + side + 1.85, side + 1.2, title="A causal mask: no token sees a later one"
    )
    top = side + 0.75
    for row, line in enumerate(mask.tolist()):
        for column, seen in enumerate(line):
            role = "key" if row < english else "query"
            corner = left + column * size, top - (row + 1) * size
            fill = drawing.tint(role, 0.75) if seen else HIDDEN
            _cell(ax, corner, (size, size), ec="white", fc=fill)
            if not seen and max(row, column) < english:
                inner = corner[0] + 0.05, corner[1] + 0.05
                _cell(ax, inner, (size - 0.1,) * 2, fc="none", ec=INK, lw=1)
    edge = english * size
    ax.plot([left + edge] * 2, [top - side, top], color=INK, lw=1.5)
    ax.plot([left, left + side], [top - edge] * 2, color=INK, lw=1.5)
    for place, word in enumerate(words):
        middle = (place + 0.5) * size
        look = {"size": 9, "rotation": 90}
        ax.text(left + middle, top - side - 0.06, word, ha="center", va="top", **look)
        drawing.write(ax, (left - 0.08, top - middle), word, align="right")
    for i, (text, fill, line) in enumerate(
        (
            ("English sees", drawing.tint("key", 0.75), "white"),
            ("French sees", drawing.tint("query", 0.75), "white"),
            ("hidden", HIDDEN, "white"),
            ("hidden within\nthe prompt", HIDDEN, INK),
        )
    ):
        corner = left + side + 0.2, top - 0.5 - 0.45 * i
        _cell(ax, corner, (0.24, 0.24), fc=fill, ec=line)
        place = corner[0] + 0.36, corner[1] + 0.12
        drawing.write(ax, place, text, size=10, align="left")


def draw_shifted(words: Sequence[str], counted: Mapping[str, Sequence[bool]]) -> None:
    """A sequence, what each place must say, and which of that each loss counts."""
    width, left = 0.5, 1.0
    high = 1.75 + 0.36 * len(counted)
    title = "Each token but the first is a label; a loss counts some of them"
    ax = drawing.canvas(left + width * (len(words) - 1) + 0.1, high, title=title)
    options = {"width": width - 0.03, "gap": 0.03}
    middle = left + width / 2
    reads = drawing.tokens(ax, words[:-1], (middle, high - 0.65), **options)
    says = drawing.tokens(
        ax, words[1:], (middle, high - 1.3), role="context", **options
    )
    for one, other in zip(reads, says, strict=True):
        drawing.arrow(ax, one.bottom, other.top)
    for text, y in (("it reads", high - 0.65), ("it must say", high - 1.3)):
        drawing.write(ax, (left - 0.08, y), text, size=10, align="right")
    for i, (name, which) in enumerate(counted.items()):
        y = high - 1.7 - 0.36 * i
        drawing.write(ax, (left - 0.08, y), name, size=10, align="right")
        for block, counts in zip(says, which[1:], strict=True):
            fill = drawing.tint("context", 0.8) if counts else "white"
            _cell(ax, (block.x - 0.12, y - 0.12), (0.24, 0.24), fc=fill, ec=HIDDEN)
            drawing.write(ax, (block.x, y), "1" if counts else "0", size=9)
