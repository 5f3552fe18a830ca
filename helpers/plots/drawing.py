"""What drawings of mechanisms are made of: tensors, operations, tokens, arrows.

Coordinates are inches from the lower left corner, as in the architecture's map. One
colour stands for one role in all lessons: ROLES. A tensor is a grid of cells, an
operation a rounded box, a token a pill; arrows say what flows where.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backend_bases import DrawEvent, RendererBase
from matplotlib.colors import to_rgb
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from torch import Tensor

from helpers.plots.style import COLOURS

ROLES = {
    "query": COLOURS[0],
    "key": COLOURS[1],
    "value": COLOURS[2],
    "weights": COLOURS[3],
    "context": COLOURS[4],
    "mask": COLOURS[5],
    "input": "#8A8A8A",
    "attention": COLOURS[1],  # as on the architecture's map, and these, too
    "feed-forward": COLOURS[4],
    "norm": COLOURS[2],
    "stream": COLOURS[2],
}
INK, PAPER, HIDDEN = "#222222", "#F4F4F4", "#D4D4D4"
CELL = 0.42  # the side of a cell


@dataclass(frozen=True)
class Block:
    """Where something was drawn: its middle and its size."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> tuple[float, float]:
        """The middle of its left side."""
        return self.x - self.width / 2, self.y

    @property
    def right(self) -> tuple[float, float]:
        """The middle of its right side."""
        return self.x + self.width / 2, self.y

    @property
    def top(self) -> tuple[float, float]:
        """The middle of its upper side."""
        return self.x, self.y + self.height / 2

    @property
    def bottom(self) -> tuple[float, float]:
        """The middle of its lower side."""
        return self.x, self.y - self.height / 2


def warn_if_crowded(ax: Axes) -> None:
    """Let the figure warn, when it is drawn, of texts that overlap or leave it."""

    def look(event: DrawEvent) -> None:
        figure.canvas.mpl_disconnect(number)
        for text in crowded(ax, event.renderer):
            said = f"in a drawing, {text!r} lies on another text or leaves the sheet"
            warnings.warn(said, stacklevel=2)

    figure = ax.figure
    number = figure.canvas.mpl_connect("draw_event", look)


def crowded(ax: Axes, renderer: RendererBase) -> list[str]:
    """The texts of a drawing that overlap another, or leave the sheet."""
    texts = [text for text in ax.texts if text.get_text()]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    width, height = ax.figure.bbox.size
    found = [
        text
        for text, box in boxes
        if min(box.x0, box.y0) < 0 or box.x1 > width or box.y1 > height
    ]
    return found + [one for (one, a), (_, b) in combinations(boxes, 2) if a.overlaps(b)]


def canvas(width: float, height: float, *, title: str = "") -> Axes:
    """An empty sheet of so many inches, with its title in the upper left corner."""
    figure = plt.figure(figsize=(width, height), layout="none")
    ax = figure.add_axes((0, 0, 1, 1))
    warn_if_crowded(ax)
    ax.set(xlim=(0, width), ylim=(0, height), aspect="equal")
    ax.axis("off")
    write(ax, (0.1, height - 0.18), title, size=11, align="left")
    return ax


def write(
    ax: Axes,
    place: tuple[float, float],
    text: str,
    *,
    size: float = 9,
    colour: str = INK,
    align: str = "center",
    rotation: float = 0,
) -> None:
    """Text whose middle, or left or right end, is at a place."""
    style = {"fontsize": size, "color": colour, "rotation": rotation, "zorder": 4}
    ax.text(*place, text, ha=align, va="center", **style)


def tint(role: str, strength: float = 0.3) -> tuple[float, ...]:
    """The colour of a role, thinned with white; a strength of 1 is the colour."""
    return tuple(1 - strength * (1 - part) for part in to_rgb(ROLES[role]))


def tensor(
    ax: Axes,
    middle: tuple[float, float],
    numbers: Tensor | Sequence[Sequence[str]],
    role: str,
    *,
    name: str = "",
    rows: str | Sequence[str] = "",
    columns: str | Sequence[str] = "",
    shade: bool = False,
    cell: float = CELL,
) -> Block:
    """A matrix as a grid of cells with its numbers, or its words, in them.

    `name` stands above. `rows` and `columns` are the name of the axis, or a label for
    each row or column. With `shade`, a cell is the stronger coloured the nearer its
    number is to 1; a cell of −∞ or `False` is grey.
    """
    if isinstance(numbers, Tensor):
        numbers = numbers.tolist()
    high, wide = len(numbers), len(numbers[0])
    block = Block(*middle, wide * cell, high * cell)
    left, top = block.left[0], block.top[1]
    for i, line in enumerate(numbers):
        for j, number in enumerate(line):
            strength = 0.08 + 0.75 * number if shade else 0.25
            corner = left + j * cell, top - (i + 1) * cell
            hidden = number in (-math.inf, "False")
            fill = HIDDEN if hidden else tint(role, strength)
            look = {"facecolor": fill, "edgecolor": ROLES[role]}
            ax.add_patch(Rectangle(corner, cell, cell, lw=1, zorder=2, **look))
            place = corner[0] + cell / 2, corner[1] + cell / 2
            write(ax, place, _short(number), size=8.5 if cell >= 0.4 else 7.5)
    edge = 0.12 if isinstance(columns, str) else 0.3
    write(ax, (block.x, top + 0.16), name, size=10)
    _label_rows(ax, block, rows, cell)
    if isinstance(columns, str):
        write(ax, (block.x, block.bottom[1] - edge), columns, size=8)
    else:
        for j, label in enumerate(columns):
            place = left + (j + 0.5) * cell, block.bottom[1] - 0.12
            write(ax, place, label, size=8)
    return block


def _label_rows(ax: Axes, block: Block, rows: str | Sequence[str], cell: float) -> None:
    if isinstance(rows, str):
        place = block.left[0] - 0.12, block.y
        write(ax, place, rows, size=8, rotation=90)
        return
    for i, label in enumerate(rows):
        place = block.left[0] - 0.08, block.top[1] - (i + 0.5) * cell
        write(ax, place, label, size=8, align="right")


def _short(number: float | str) -> str:
    """A number in at most four signs; words as they are."""
    if isinstance(number, str):
        return number
    if number == -math.inf:
        return "−∞"
    return f"{number:.2f}" if number % 1 else f"{number:.0f}"


def operation(
    ax: Axes,
    middle: tuple[float, float],
    text: str,
    *,
    role: str = "",
    width: float = 0.8,
    height: float = 0.34,
) -> Block:
    """A rounded box: something that is computed."""
    block = Block(*middle, width, height)
    corner = block.left[0], block.bottom[1]
    style = "round,pad=0,rounding_size=.08"
    look = {"fc": tint(role) if role else PAPER, "ec": ROLES.get(role, INK)}
    ax.add_patch(
        FancyBboxPatch(corner, width, height, boxstyle=style, zorder=2, **look)
    )
    write(ax, middle, text)
    return block


def tokens(
    ax: Axes,
    words: Sequence[str],
    start: tuple[float, float],
    *,
    role: str = "input",
    width: float = 0.8,
    gap: float = 0.2,
    height: float = 0.3,
) -> list[Block]:
    """A row of tokens from left to right; `start` is the middle of the first one."""
    blocks = []
    for i, word in enumerate(words):
        block = Block(start[0] + i * (width + gap), start[1], width, height)
        corner = block.left[0], block.bottom[1]
        look = {"fc": tint(role), "ec": ROLES[role], "zorder": 2}
        style = f"round,pad=0,rounding_size={height / 2}"
        ax.add_patch(FancyBboxPatch(corner, width, height, boxstyle=style, **look))
        write(ax, (block.x, block.y), word)
        blocks.append(block)
    return blocks


def arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    *,
    text: str = "",
    width: float = 1.2,
    colour: str = INK,
    bend: float = 0,
    offset: tuple[float, float] = (0, 0.12),
) -> None:
    """An arrow, straight or bent, with its text beside its middle."""
    style = {"arrowstyle": "-|>", "mutation_scale": 8 + 2 * width, "lw": width}
    style |= {"connectionstyle": f"arc3,rad={bend}", "shrinkA": 2, "shrinkB": 2}
    ax.add_patch(FancyArrowPatch(start, end, color=colour, zorder=1.5, **style))
    middle = (start[0] + end[0]) / 2 + offset[0], (start[1] + end[1]) / 2 + offset[1]
    write(ax, middle, text, size=8)
