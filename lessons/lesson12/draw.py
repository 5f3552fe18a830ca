"""Drawings of lesson 12: two ways to a gender, and a patch."""

from collections.abc import Sequence

from helpers.plots import drawing
from helpers.plots.drawing import ROLES


def draw_routes(english: Sequence[str], french: Sequence[str], at: int) -> None:
    """Two ways by which the French word at a place can know the noun to its right."""
    ax = drawing.canvas(4.65, 3.7, title="Two ways from the noun to its article")
    left, gap = 1.2, 0.72
    look = {"width": 0.62, "gap": 0.1}
    names = {0.35: "English", 1.6: "memory", 3.0: "French"}
    for y, name in names.items():
        drawing.write(ax, (0.1, y), name, size=10, align="left")
    words = drawing.tokens(ax, english, (left, 0.35), **look)
    memory = [
        drawing.operation(ax, (word.x, 1.6), text, role="context", width=0.62)
        for word, text in zip(words, english, strict=True)
    ]
    said = drawing.tokens(ax, french[: at + 1], (left, 3.0), role="query", **look)
    for one, other in zip(words, memory, strict=True):
        drawing.arrow(ax, one.top, other.bottom, colour=drawing.HIDDEN, width=0.8)
    first, second = ROLES["attention"], ROLES["query"]
    style = {"width": 2.2}
    drawing.arrow(ax, words[at + 1].top, memory[at].bottom, colour=first, **style)
    drawing.arrow(ax, memory[at].top, said[at].bottom, colour=first, **style)
    drawing.arrow(ax, memory[at + 1].top, said[at].bottom, colour=second, **style)
    middle = (left + (at - 0.5) * gap, 0.98), (left + (at + 1.75) * gap, 2.35)
    drawing.write(ax, middle[0], "A:\na head\nbrings it\nto “the”", size=9.5)
    drawing.write(ax, middle[1], "B: cross-\nattention reads\nit at the noun", size=9.5)


def draw_patch(
    sentence: Sequence[str], donor: Sequence[str], level: int, place: int
) -> None:
    """The two runs of the encoder, and the one vector that is put in."""
    title = "A patch: one vector of the donor's run is put in"
    ax = drawing.canvas(5.05, 3.2, title=title)
    for i, name in enumerate(["embedded", "after\nlayer 1", "memory"]):
        drawing.write(ax, (0.05, 1.0 + 0.62 * i), name, size=9.5, align="left")
    ends = []
    runs = (("sentence", sentence, 0.98, "input"), ("donor", donor, 3.16, "query"))
    for name, words, left, role in runs:
        drawing.write(ax, (left + 0.21 * (len(words) - 1), 0.3), name, size=10)
        for j, word in enumerate(words):
            x, below = left + 0.42 * j, None
            drawing.write(ax, (x, 0.66), word, size=10)
            for i in range(3):
                look = {"role": role, "width": 0.34, "height": 0.3}
                if (i, j) == (level, place):
                    look["role"] = "mask"
                block = drawing.operation(ax, (x, 1.0 + 0.62 * i), "", **look)
                if below:
                    drawing.arrow(ax, below.top, block.bottom, colour=drawing.HIDDEN)
                if (i, j) == (level, place):
                    ends.append(block.top)
                below = block
    style = {"colour": ROLES["mask"], "width": 2.2, "bend": 0.25}
    drawing.arrow(ax, ends[1], ends[0], **style)
