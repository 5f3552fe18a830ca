"""Drawings of lesson 10: the rate of a run, and what leaving sentences out does."""

import matplotlib.pyplot as plt
import pandas as pd

from helpers.plots.style import COLOURS
from helpers.training import cosine_rate

LEFT_OUT = {
    "nothing": "nothing",
    "de + adjective": "the 272",
    "as many others": "272 others",
}
FOODS = "some good soup", "some beautiful soup", "some beautiful cakes"
MARKS = "os^"


def rate(steps_per_epoch: int, epochs: int, peak: float) -> None:
    """The rate at each step of a run, and where its epochs begin."""
    steps = steps_per_epoch * epochs
    rates = [cosine_rate(i / steps, peak=peak, warmup=0.1) for i in range(steps + 1)]
    _, ax = plt.subplots(figsize=(5.4, 2.6))
    ax.plot(rates, color=COLOURS[0])
    for epoch in range(epochs):
        start = epoch * steps_per_epoch
        ax.axvline(start, color="grey", linestyle=":", linewidth=0.8)
        ax.text(
            start + steps_per_epoch / 2, peak * 1.06, epoch + 1, ha="center", fontsize=9
        )
    ax.text(-0.02 * steps, peak * 1.06, "epoch", ha="right", fontsize=9)
    ax.axvspan(0, steps / 10, color=COLOURS[1], alpha=0.25, linewidth=0)
    ax.text(steps / 9, peak * 0.06, "← warm-up", fontsize=9)
    ax.plot(steps / 20, peak / 2, "ko", markersize=5)
    ax.text(steps / 9, peak / 2, f"← step {steps // 20}", va="center", fontsize=9)
    ax.set(
        xlabel="step",
        ylabel="rate",
        xlim=(0, steps),
        ylim=(0, peak * 1.18),
        yticks=[0, peak / 2, peak],
    )
    ax.set_title(f"One run: {epochs} epochs of new batches, one rate", pad=10)
    plt.show()


def soups(table: pd.DataFrame) -> None:
    """How many of 53 are wrong, by what is left out: two marks for each seed."""
    figure, panels = plt.subplots(3, 1, figsize=(5.4, 5.4), sharex=True)
    for food, ax in zip(FOODS, panels, strict=True):
        for row, name in enumerate(LEFT_OUT):
            chosen = table[(table["food"] == food) & (table["left_out"] == name)]
            for kind, start in (("de", row - 0.2), ("other", row + 0.2)):
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
