"""Pictures that checks draw: the learner's answer beside the expected one."""

from collections.abc import Iterable

from matplotlib import pyplot as plt
from matplotlib.colors import ListedColormap, to_rgb
from torch import Tensor

from helpers.plots import COLOURS, heatmap


def weights_beside(yours: Tensor, due: Tensor) -> None:
    """Draw the learner's attention weights beside the expected ones.

    Both (query_length, key_length); a row per query, in one colour scale.
    """
    rows, columns = ([f"{i + 1}" for i in range(size)] for size in due.shape)
    _, axes = plt.subplots(1, 2, figsize=(7, 1.2 + 0.34 * len(rows)))
    for ax, weights, whose in _sides(axes, yours, due):
        heatmap(
            weights, rows, columns, title=whose, ax=ax, numbers=True, colour_bar=False
        )
    plt.show()


def owners_beside(yours: Tensor, due: Tensor, d_model: int) -> None:
    """Draw which token and feature each number was, yours beside the expected.

    Both (heads, length, d_head), made by moving the entries 0, 1, … of a tensor
    (length, d_model): the numbers' tokens are colours, their features are written.
    """
    heads, length, _ = due.shape
    tints = [[1 - 0.6 * (1 - c) for c in to_rgb(colour)] for colour in COLOURS]
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True)
    for ax, moved, whose in _sides(axes, yours, due):
        numbers = moved.detach().flatten(0, 1)
        tokens = (numbers // d_model).numpy()
        ax.imshow(tokens, cmap=ListedColormap(tints), vmin=0, vmax=5, aspect="auto")
        for row, line in enumerate((numbers % d_model).tolist()):
            for column, feature in enumerate(line):
                text = f"{feature + 1:.0f}"
                ax.text(column, row, text, ha="center", va="center", fontsize=9)
        for head in range(1, heads):
            ax.axhline(head * length - 0.5, color="black", lw=1.5)
        ax.set(title=whose, xticks=[], xlabel="features of a head")
    names = [f"head {h + 1}, row {i + 1}" for h in range(heads) for i in range(length)]
    axes[0].set_yticks(range(len(names)), names, fontsize=8)
    figure.suptitle("Every token has a colour, and its features are numbered")
    plt.show()


def _sides(axes: Iterable, yours: Tensor, due: Tensor) -> Iterable[tuple]:
    return zip(axes, (yours, due), ("yours", "expected"), strict=True)
