"""Drawing of lesson 10: adjectives after and before their nouns."""

from collections.abc import Mapping, Sequence

from helpers.plots import drawing
from helpers.plots.drawing import ROLES


def draw_two_orders(
    phrases: Mapping[str, tuple[Sequence[str], Sequence[str], Sequence[int]]],
) -> None:
    """What an article, an adjective and a noun become, and the place that we look at.

    phrases {kind: (English words, French words, each English word's place in French)}.
    The English noun comes last. The French words are numbered from 0.
    """
    title = "“Here” is a noun (orange) in one phrase, an adjective in the other"
    ax = drawing.canvas(5.4, 2.5, title=title)
    size = {"width": 0.72, "gap": 0.12}
    for (kind, (english, french, places)), x in zip(
        phrases.items(), (0.52, 3.18), strict=True
    ):
        step = size["width"] + size["gap"]
        for word, place in enumerate(places):
            noun = word == len(english) - 1
            role = {"role": "mask" if noun else "input"}
            above = x + word * step, 1.6
            below = x + place * step, 0.8
            (said,) = drawing.tokens(ax, [english[word]], above, **size, **role)
            (due,) = drawing.tokens(ax, [french[place]], below, **size, **role)
            look = {"colour": ROLES["mask"], "width": 2} if noun else {}
            drawing.arrow(ax, said.bottom, due.top, **look)
            drawing.write(ax, (due.x, 0.52), str(place), size=10)
        drawing.write(ax, (x + step, 2.0), kind, size=10)
        drawing.write(ax, (x + step, 0.28), "▲ here", size=10)
