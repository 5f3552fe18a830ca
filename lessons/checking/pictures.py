"""Pictures that checks draw: the learner's answer beside the expected one."""

from matplotlib import pyplot as plt
from torch import Tensor

from helpers.plots import heatmap


def weights_beside(yours: Tensor, due: Tensor) -> None:
    """Draw the learner's attention weights beside the expected ones.

    Both (query_length, key_length); a row per query, in one colour scale.
    """
    rows, columns = ([f"{i + 1}" for i in range(size)] for size in due.shape)
    _, axes = plt.subplots(1, 2, figsize=(7, 1.2 + 0.34 * len(rows)))
    for ax, weights, whose in zip(
        axes, (yours, due), ("yours", "expected"), strict=True
    ):
        heatmap(
            weights, rows, columns, title=whose, ax=ax, numbers=True, colour_bar=False
        )
    plt.show()
