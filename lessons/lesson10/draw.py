"""A drawing of lesson 10: what leaving sentences out does."""

import matplotlib.pyplot as plt
import pandas as pd

from helpers.plots.style import COLOURS

LEFT_OUT = {
    "nothing": "nothing",
    "de + adjective": "the 272",
    "as many others": "272 others",
}
FOODS = "some good soup", "some beautiful soup", "some beautiful cakes"
MARKS = "os^"


def soups(table: pd.DataFrame) -> None:
    """How many of 53 are wrong, by what is left out: two marks for each seed."""
    figure, panels = plt.subplots(3, 1, figsize=(5.4, 5.4), sharex=True)
    for food, ax in zip(FOODS, panels, strict=True):
        for row, name in enumerate(LEFT_OUT):
            chosen = table[(table["food"] == food) & (table["left_out"] == name)]
            kinds = {"de": row - 0.2, "other": row + 0.2}
            if food == "some beautiful cakes":
                del kinds["de"]  # there it is right
            for kind, start in kinds.items():
                counts = chosen.sort_values("seed")[kind].tolist()
                # Equal numbers would hide each other: a seed lies below the other.
                places = [start + 0.07 * (i - 2) for i in range(len(counts))]
                look = {"color": COLOURS[row], "markersize": 5, "clip_on": False}
                look |= {"markerfacecolor": "white"} if kind == "other" else {}
                ax.plot(counts, places, MARKS[row], **look)
        ax.set_yticks(range(3), [*LEFT_OUT.values()])
        ax.set(ylim=(2.6, -0.6), xlim=(-1, 54))
        ax.set_title(food, fontsize=10)
    panels[1].set_ylabel("left out of the training")
    panels[2].set_xlabel("of 53: with a wrong “de” (filled), wrong otherwise (hollow)")
    figure.suptitle("Without the 272: hardly a wrong “de”, but no right cakes", size=11)
    plt.show()
