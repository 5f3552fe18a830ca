"""Drawing of lesson 10: adjectives after and before their nouns."""

from collections.abc import Mapping, Sequence

from helpers.plots import drawing
from helpers.plots.drawing import ROLES


def draw_two_orders(
    phrases: Mapping[str, tuple[Sequence[str], Sequence[str], Sequence[int]]],
) -> None:
    """What an article, an adjective and a noun become, and the place that we look at.

    phrases {kind: (English words, French words, each English word's place in French)}.
    The English noun comes last.
    """
    title = "The place that we look at is the first of the two"
    ax = drawing.canvas(6.4, 2.5, title=title)
    size = {"width": 0.86, "gap": 0.14}
    for (kind, (english, french, places)), x in zip(
        phrases.items(), (0.6, 3.9), strict=True
    ):
        above = drawing.tokens(ax, english, (x, 1.6), **size)
        below = drawing.tokens(ax, french, (x, 0.7), **size)
        for word, place in enumerate(places):
            noun = word == len(english) - 1
            look = {"colour": ROLES["mask"], "width": 2} if noun else {}
            drawing.arrow(ax, above[word].bottom, below[place].top, **look)
        drawing.write(ax, (above[1].x, 2.0), kind, size=10)
        drawing.write(ax, (below[1].x, 0.4), "▲", size=10)
        drawing.write(ax, (below[1].x, 0.18), "here")
