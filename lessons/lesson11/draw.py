"""Drawings of lesson 11: what a cache saves, a beam's tree, what wider beams write."""

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from seaborn import heatmap

from helpers.plots import over_seeds
from helpers.plots.drawing import HIDDEN, INK, ROLES
from helpers.plots.style import COLOURS

KINDS = {"computed for the first time": COLOURS[4], "computed again": HIDDEN}
KINDS |= {"kept": "#F5E6A8"}


def draw_cache(written: Sequence[str], source: Sequence[str]) -> None:
    """Whose keys and values each step computes, without a cache and with one.

    Left the target, whose tokens are read one more a step; right the source, which the
    cross-attention reads.
    """
    steps, words = len(written), [*written, "", *source]
    figure, axes = plt.subplots(2, 1, figsize=(6, 4.4), sharex=True)
    for ax, name, old in zip(axes, ("no cache", "cache"), (1, 2), strict=True):
        table = torch.full((steps, len(words)), math.nan)
        for step in range(steps):
            table[step, :step] = table[step, steps + 1 :] = old
            table[step, step] = 0
        table[0, steps + 1 :] = 0
        look = {"cmap": ListedColormap([*KINDS.values()]), "vmin": 0, "vmax": 2}
        heatmap(table, ax=ax, cbar=False, linewidths=1.5, xticklabels=words, **look)
        ax.set_yticklabels([f"step {step + 1}" for step in range(steps)], rotation=0)
        ax.set_title(f"{name}: keys and values of target and source", fontsize=10)
        ax.tick_params(length=0)
    axes[1].tick_params(axis="x", rotation=45)
    patches = [Patch(facecolor=c, edgecolor=INK, label=x) for x, c in KINDS.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle("With a cache no key and no value is computed twice", size=11)
    plt.show()


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
    # Side by side, or a run of the one kind would hide one of the other.
    table["place"] = np.log2(table["beam"]) + 0.12 * (table["factor"] > 1)
    _, (upper, lower) = plt.subplots(2, 1, figsize=(5.4, 5), sharex=True)
    for ax, y in ((upper, "tokens"), (lower, "gain")):
        over_seeds(table, x="place", y=y, hue="student", title="", ax=ax)
    upper.axhline(wanted, color="grey", lw=0.8, ls="--")
    upper.text(-0.15, wanted + 0.08, "references", size=9, color="0.4")
    lower.axhline(0, color="grey", lw=0.8)
    upper.set(ylabel="tokens a sentence", ylim=(4.2, 8))
    upper.set_title(title)
    lower.set(xlabel="beam size", ylabel="BLEU over greedy")
    lower.set_xticks(range(5), ["1", "2", "4", "8", "16"])
    lower.get_legend().remove()
    plt.show()
