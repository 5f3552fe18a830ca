"""Drawings of lesson 11: what a cache saves, a beam's tree, what wider beams write."""

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from helpers.plots import drawing, over_seeds
from helpers.plots.drawing import HIDDEN, INK, ROLES
from helpers.plots.style import COLOURS

WIDTH, HEIGHT = 0.4, 0.21  # of a cell: a position at a step
NEW = COLOURS[4]
LOOKS = {"new": (NEW, "white"), "again": (HIDDEN, "white"), "kept": ("white", INK)}


def draw_cache(written: Sequence[str], source: Sequence[str]) -> None:
    """Whose keys and values each step computes, without a cache and with one.

    Left the target, whose tokens are read one more a step; right the source, which the
    cross-attention reads.
    """
    steps, second = len(written), len(written) + 0.5  # where the source begins
    high = steps * HEIGHT
    title = "With a cache no key and no value is computed twice"
    ax = drawing.canvas(6, 2 * high + 2.2, title=title)
    lower = 0.62
    upper = lower + high + 0.85
    for name, top in (("no cache", upper + high), ("cache", lower + high)):
        cached = name == "cache"
        for step in range(steps):
            y = top - step * HEIGHT
            drawing.write(ax, (0.87, y - HEIGHT / 2), f"step {step + 1}", align="right")
            old = "kept" if cached else "again"
            for place in range(step + 1):
                look = "new" if place == step else old
                _cell(ax, (0.95 + place * WIDTH, y), look)
            for place in range(len(source)):
                look = "new" if step == 0 else old
                _cell(ax, (0.95 + (second + place) * WIDTH, y), look)
        says = ("of the target", "of the source")
        if cached:
            says = ("a strip that grows", "a strip that stays")
        drawing.write(ax, (0.87, top + 0.15), name, size=10, align="right")
        for text, start in zip(says, (0, second), strict=True):
            place = 0.95 + start * WIDTH, top + 0.15
            drawing.write(ax, place, text, size=10, align="left")
    for words, start in ((written, 0), (source, second)):
        for i, word in enumerate(words):
            place = 0.95 + (start + i + 0.47) * WIDTH, upper - 0.14
            drawing.write(ax, place, word, size=8)
    for look, text, x in (
        ("new", "computed for the first time", 0.95),
        ("again", "computed again", 3.28),
        ("kept", "kept", 4.98),
    ):
        _cell(ax, (x, 0.36), look)
        drawing.write(ax, (x + WIDTH + 0.08, 0.25), text, align="left")


def _cell(ax: Axes, corner: tuple[float, float], look: str) -> None:
    """A cell by its upper left corner."""
    fill, edge = LOOKS[look]
    place = corner[0], corner[1] - HEIGHT
    style = {"facecolor": fill, "edgecolor": edge, "lw": 1, "zorder": 2}
    ax.add_patch(Rectangle(place, WIDTH * 0.94, HEIGHT * 0.9, **style))


def draw_tree(
    first: Mapping[str, float],
    then: Mapping[str, Mapping[str, float]],
    beam_size: int,
    *,
    title: str,
) -> None:
    """Two steps of a beam search, the best on top; what is dropped in grey.

    first: the share of each first word; then: those of the words that follow it. A box
    shows a word, its log-probability, and the sum of these so far.
    """
    totals = {(): 0.0} | {(word,): math.log(share) for word, share in first.items()}
    for word, shares in then.items():
        totals |= {(word, x): totals[word,] + math.log(y) for x, y in shares.items()}
    _, ax = plt.subplots(figsize=(6, 4.2))
    node = {"ha": "center", "va": "center", "size": 9, "linespacing": 1.2}
    ax.text(0, 0, "<bos>", bbox={"fc": "white", "ec": INK}, **node)
    heights = {(): 0.0}
    for step in (1, 2):
        found = [words for words in totals if len(words) == step]
        found.sort(key=lambda words: -totals[words])
        for rank, words in enumerate(found):
            start, heights[words] = words[:-1], -float(rank)
            kept = rank < beam_size
            ec, ink = (ROLES["query"], INK) if kept else ("0.75", "0.5")
            ends = [step - 1, step], [heights[start], -rank]
            ax.plot(*ends, color=ec, lw=2 if kept else 1, zorder=1)
            own = totals[words] - totals[start]
            said = f"{words[-1]}  {own:.2f}\nsum {totals[words]:.2f}"
            box = {"fc": "white", "ec": ec, "lw": 2 if kept else 1}
            ax.text(step, -rank, said.replace("-", "−"), color=ink, bbox=box, **node)
    ax.set(xlim=(-0.3, 2.4), ylim=(0.5 - len(found), 0.6), yticks=[])
    ax.set(xticks=range(3), xlabel="step", ylabel="best on top")
    ax.set_title(title)
    plt.show()


def wider_beams(runs: pd.DataFrame, wanted: float, *, title: str) -> None:
    """What beams of several sizes write: tokens a sentence, and BLEU over greedy.

    runs: a row for each factor, seed and beam; wanted: the references' tokens.
    """
    kinds = {1.0: "as trained", 1.5: "logits × 1.5"}
    table = runs.assign(student=runs["factor"].map(kinds))
    table["beam"] = table["beam"].astype(str)
    _, (upper, lower) = plt.subplots(2, 1, figsize=(5.4, 5), sharex=True)
    for ax, y in ((upper, "tokens"), (lower, "gain")):
        over_seeds(table, x="beam", y=y, hue="student", title="", ax=ax)
    upper.axhline(wanted, color="grey", lw=0.8, ls="--")
    upper.text(-0.4, wanted + 0.08, "references", size=9, color="0.4")
    lower.axhline(0, color="grey", lw=0.8)
    upper.set(ylabel="tokens a sentence", ylim=(4.2, 8))
    upper.set_title(title)
    lower.set(xlabel="beam size", ylabel="BLEU over greedy")
    lower.get_legend().remove()
    plt.show()
