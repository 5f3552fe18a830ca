"""Drawings of lesson 06: a circuit in a story, a swap."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from helpers.plots import drawing
from helpers.plots.drawing import ROLES, Block

Moves = Mapping[tuple[int, int], str]  # {(from, to): what the second place holds then}


def draw_circuit(
    words: Sequence[str], layers: Sequence[Moves], moved: Sequence[str], *, title: str
) -> None:
    """What layers move between the words of a story; from the bottom to the top.

    `layers` holds the moves of each layer, drawn as thick arrows; `moved` says in words
    what each layer moves where.
    """
    ax = drawing.canvas(5.5, 3.7, title=title)
    gap = 3.7 / (len(words) - 1)
    names = ["words", *(f"after layer {i}" for i, _ in enumerate(layers, start=1))]
    rows: list[list[Block]] = []
    for level, moves in enumerate([{}, *layers]):
        y = 0.35 + 1.3 * level
        drawing.write(ax, (0.1, y), names[level], size=9.5, align="left")
        holds = {place: text for (_, place), text in moves.items()}
        row = []
        for place, word in enumerate(words):
            middle = 1.42 + gap * place, y
            look = {"role": "context" if place in holds else "input"}
            size = {"width": min(0.64, gap - 0.05)}
            size["height"] = 0.46 if place in holds else 0.3
            text = holds.get(place, word)
            row.append(drawing.operation(ax, middle, text, **look, **size))
        if rows:
            _draw_moves(ax, rows[-1], row, moves, f"layer {level}\n{moved[level - 1]}")
        rows.append(row)


def _draw_moves(
    ax: Axes, below: Sequence[Block], above: Sequence[Block], moves: Moves, text: str
) -> None:
    """The moves of one layer, and thin arrows for what the residuals carry up."""
    for one, other in zip(below, above, strict=True):
        drawing.arrow(ax, one.top, other.bottom, colour=drawing.HIDDEN, width=0.8)
    for source, place in moves:
        style = {"colour": ROLES["attention"], "width": 2.2}
        drawing.arrow(ax, below[source].top, above[place].bottom, **style)
    middle = (below[0].y + above[0].y) / 2
    drawing.write(ax, (0.1, middle), text, size=9.5, align="left")


def draw_swap(
    donor: Sequence[str], story: Sequence[str], places: Sequence[int], answer: str
) -> None:
    """Vectors of the donor (above) are put into the run of the story (below).

    This happens after layer 1, at these places; layer 2 then gives the last answer.
    """
    ax = drawing.canvas(5.5, 3.2, title="Swap vectors between the layers")
    rows = {}
    for y, name, words in (
        *((2.55, "donor", donor), (1.85, "after layer 1", None)),
        *((1.05, "after layer 1", None), (0.35, "story", story)),
    ):
        drawing.write(ax, (0.1, y), name, size=9.5, align="left")
        row = []
        for place, word in enumerate(words or [""] * len(story)):
            role = "input" if words or y > 1.5 or place not in places else "context"
            role = "context" if not words and y > 1.5 and place in places else role
            middle, size = (1.35 + 0.54 * place, y), {"width": 0.48, "height": 0.3}
            row.append(drawing.operation(ax, middle, word, role=role, **size))
        rows[y] = row
    for place in range(len(story)):
        drawing.arrow(ax, rows[2.55][place].bottom, rows[1.85][place].top)
        drawing.arrow(ax, rows[0.35][place].top, rows[1.05][place].bottom)
    for place in places:
        style = {"colour": ROLES["context"], "width": 2.2}
        drawing.arrow(ax, rows[1.85][place].bottom, rows[1.05][place].top, **style)
    drawing.write(ax, (rows[1.85][1].x, 1.45), "put in", size=9.5)
    above = drawing.operation(ax, (4.95, 1.05), "layer 2", role="attention", width=0.75)
    said = drawing.operation(ax, (4.95, 0.35), answer, role="input", width=0.75)
    drawing.arrow(ax, rows[1.05][-1].right, above.left)
    drawing.arrow(ax, above.bottom, said.top)
