"""Drawings of lesson 16: what a head gets, and who moves whom."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from torch import Tensor

from helpers.plots import drawing, heatmap
from helpers.plots.style import COLOURS


def draw_heads(heads: Mapping[str, Tensor]) -> None:
    """Which head gets each number of a sentence (length, features), in several ways."""
    figure, axes = plt.subplots(1, len(heads), figsize=(5.4, 2.7), layout="constrained")
    for ax, (name, owners) in zip(axes, heads.items(), strict=True):
        words, features = owners.shape
        ax.set(title=name, xlim=(0, features), ylim=(words, 0), aspect="equal")
        ax.set_yticks(
            [i + 0.5 for i in range(words)], [f"word {i}" for i in range(words)]
        )
        ax.set_xticks([])
        ax.set_xlabel("features")
        ax.tick_params(length=0, labelleft=ax is axes[0])
        for (i, j), head in np.ndenumerate(owners.numpy()):
            look = {"fc": COLOURS[int(head)], "alpha": 0.35, "ec": drawing.INK}
            ax.add_patch(Rectangle((j, i), 1, 1, lw=0.5, **look))
            ax.text(j + 0.5, i + 0.5, int(head), ha="center", va="center", size=12)
    figure.suptitle("Which head gets which number", x=0.01, ha="left")


def who_moves_whom(moved: Mapping[str, Tensor]) -> None:
    """Four maps (outputs, words): dark where moving a word moves an output."""
    figure, axes = plt.subplots(2, 2, figsize=(5.6, 5.6), layout="constrained")
    for ax, (name, change) in zip(axes.flat, moved.items(), strict=True):
        places = [*map(str, range(len(change)))]
        options = {"colour_bar": False, "rotation": 0, "ax": ax}
        heatmap((change > 1e-6).float(), places, places, title=name, **options)
        ax.set(aspect="equal", xlabel="this word is moved", ylabel="this output moves")
    figure.suptitle("Yellow: moving the word moves the output", x=0.01, ha="left")
