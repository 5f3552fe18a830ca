"""Drawings of lesson 18: who sees whom, which tokens count, prefill and decode."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from helpers.plots import drawing
from helpers.plots.architecture import COLUMNS, FLOOR, PITCH
from helpers.plots.drawing import HIDDEN, INK, ROLES

SMALL = 0.205  # the side of a cell of a mask


def strike_out_cross_attention() -> None:
    """A cross through the decoder's cross-attention, on the map drawn last."""
    x, y = COLUMNS["decoder"], FLOOR + PITCH + 0.36
    for rise in (-1, 1):
        ends = [y - 0.36 * rise, y + 0.36 * rise]
        plt.gca().plot([x - 0.85, x + 0.85], ends, color=INK, lw=2)


def draw_who_sees_whom(
    masks: Mapping[str, Tensor], words: Sequence[str], english: int
) -> None:
    """A panel for each mask (length, length): rows see the columns in colour.

    The first `english` words are the prompt's; a line stands behind them. What a mask
    hides and the first one shows has a dark edge.
    """
    before = next(iter(masks.values())).tolist()
    side = SMALL * len(words)
    title = "Decoder-only loses the prompt's upper triangle"
    ax = drawing.canvas(1.0 + len(masks) * (side + 0.3), side + 1.7, title=title)
    says = "rows see the coloured columns; blue: French"
    drawing.write(ax, (0.95, 0.1), says, size=9, align="left")
    for i, (name, mask) in enumerate(masks.items()):
        left, top = 0.95 + i * (side + 0.3), side + 0.95
        drawing.write(ax, (left + side / 2, top + 0.2), name, size=9.5)
        for row, line in enumerate(mask.tolist()):
            for column, seen in enumerate(line):
                english_row = row < english
                role = "key" if english_row else "query"
                look = {"fc": drawing.tint(role, 0.75) if seen else HIDDEN}
                corner = left + column * SMALL, top - (row + 1) * SMALL
                ax.add_patch(Rectangle(corner, SMALL, SMALL, ec="white", **look))
                if before[row][column] and not seen:
                    inner = corner[0] + 0.03, corner[1] + 0.03
                    look = {"fc": "none", "ec": INK, "lw": 0.8}
                    ax.add_patch(Rectangle(inner, SMALL - 0.06, SMALL - 0.06, **look))
        edge = english * SMALL
        ax.plot([left + edge] * 2, [top - side, top], color=INK, lw=1.2)
        ax.plot([left, left + side], [top - edge] * 2, color=INK, lw=1.2)
        for place, word in enumerate(words):
            middle = left + (place + 0.5) * SMALL, top - side - 0.08
            ax.text(*middle, word, size=7.5, rotation=90, ha="center", va="top")
            if i == 0:
                y = top - (place + 0.5) * SMALL
                drawing.write(ax, (left - 0.07, y), word, size=7.5, align="right")


def draw_shifted(words: Sequence[str], counted: Mapping[str, Sequence[bool]]) -> None:
    """A sequence, what each place must say, and which of that each loss counts."""
    width, left = 0.66, 1.5
    high = 1.75 + 0.36 * len(counted)
    title = "Each token but the first is a label; a loss counts some of them"
    ax = drawing.canvas(left + width * (len(words) - 1), high, title=title)
    options = {"width": width - 0.08, "gap": 0.08}
    middle = left + width / 2 - 0.1
    reads = drawing.tokens(ax, words[:-1], (middle, high - 0.65), **options)
    says = drawing.tokens(
        ax, words[1:], (middle, high - 1.3), role="context", **options
    )
    for one, other in zip(reads, says, strict=True):
        drawing.arrow(ax, one.bottom, other.top)
    for text, y in (("it reads", high - 0.65), ("it must say", high - 1.3)):
        drawing.write(ax, (left - 0.2, y), text, size=9.5, align="right")
    for i, (name, which) in enumerate(counted.items()):
        y = high - 1.7 - 0.36 * i
        drawing.write(ax, (left - 0.2, y), name, size=9, align="right")
        for block, counts in zip(says, which[1:], strict=True):
            _mark(ax, (block.x, y), counted=counts)


def _mark(ax: Axes, place: tuple[float, float], *, counted: bool) -> None:
    """A filled square with a tick, or an empty one."""
    look = {"fc": drawing.tint("context", 0.8) if counted else "white", "ec": HIDDEN}
    ax.add_patch(Rectangle((place[0] - 0.11, place[1] - 0.11), 0.22, 0.22, **look))
    drawing.write(ax, place, "1" if counted else "0", size=8)


def draw_prefill(prompt: Sequence[str], written: Sequence[str]) -> None:
    """Which positions each pass computes, and which keys and values it finds kept."""
    words, width, height = [*prompt, *written[:-1]], 0.6, 0.3
    passes = len(written)
    high = passes * height + 1.5
    title = "Prefill computes the prompt at once, decoding one token a pass"
    ax = drawing.canvas(1.1 + width * len(words) + 1.1, high, title=title)
    top = high - 0.75
    for place, word in enumerate(words):
        middle = 1.1 + (place + 0.5) * width, top + 0.14
        drawing.write(ax, middle, word, size=8.5)
    for step in range(passes):
        y, name = top - step * height, f"decode {step}" if step else "prefill"
        drawing.write(ax, (1.02, y - height / 2), name, align="right")
        end = len(prompt) + step
        for place in range(end):
            new = place == end - 1 if step else True
            look = {"fc": ROLES["context"] if new else "white"}
            look["ec"] = "white" if new else INK
            corner = 1.1 + place * width, y - height
            ax.add_patch(Rectangle(corner, width * 0.94, height * 0.88, **look))
        place = 1.1 + end * width + 0.05, y - height / 2
        drawing.write(ax, place, f"→ {written[step]}", size=9, align="left")
    for text, x, fill, edge in (
        ("computed in this pass", 1.1, ROLES["context"], "white"),
        ("keys and values kept", 3.4, "white", INK),
    ):
        look = {"fc": fill, "ec": edge}
        ax.add_patch(Rectangle((x, 0.14), 0.3, 0.2, **look))
        drawing.write(ax, (x + 0.38, 0.24), text, align="left")
