"""Attention weights as pictures: a row per query, a column per key."""

import math
from collections.abc import Iterable, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor


def heatmap(
    weights: Tensor,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    title: str,
    ax: Axes | None = None,
    highest: float = 1.0,
    numbers: bool = False,
    colour_bar: bool = True,
) -> Axes:
    """Attention weights as colour: a row per query, a column per key.

    weights (query_length, key_length); colour runs from 0 to `highest`; `numbers`
    writes the weights into the cells. ValueError if the labels do not fit the weights.
    """
    shape = (len(queries), len(keys))
    if tuple(weights.shape) != shape:
        raise ValueError(
            f"weights of shape {tuple(weights.shape)} with labels for {shape}"
        )
    weights = weights.detach().float().cpu().numpy()
    if ax is None:
        width, height = 1.8 + 0.42 * shape[1], 1.3 + 0.36 * shape[0]
        _, ax = plt.subplots(figsize=(max(3.6, width), max(2.4, height)))
    image = ax.imshow(weights, vmin=0, vmax=highest, aspect="auto")
    ax.set_xticks(
        range(shape[1]), keys, rotation=45, ha="right", rotation_mode="anchor"
    )
    ax.set_yticks(range(shape[0]), queries)
    ax.set(xlabel="key", ylabel="query", title=title)
    if numbers:
        for (query, key), weight in np.ndenumerate(weights):
            style = {"ha": "center", "va": "center"}
            style["color"] = "black" if weight > 0.45 * highest else "white"
            ax.text(key, query, f"{weight:.2f}", **style)
    if colour_bar:
        ax.figure.colorbar(image, ax=ax, label="weight")
    return ax


def attention_grid(
    maps: Tensor,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    title: str,
    columns: int = 4,
    highest: float = 1.0,
) -> Figure:
    """The heads of one layer side by side, on one colour scale.

    maps (heads, query_length, key_length), as `record_attention` gives them for one
    sentence. ValueError if the labels do not fit the maps.
    """
    rows = math.ceil(len(maps) / columns)
    columns = math.ceil(
        len(maps) / rows
    )  # six heads in rows of three, not four and two
    width = min(9.0, 1.6 + columns * max(1.2, 0.24 * len(keys)))
    height = 1.3 + rows * max(1.3, 0.3 + 0.24 * len(queries))
    figure, axes = plt.subplots(rows, columns, figsize=(width, height), squeeze=False)
    for head, ax in enumerate(axes.flat):
        if head >= len(maps):
            ax.remove()
            continue
        options = {"title": f"head {head + 1}", "highest": highest}
        heatmap(maps[head], queries, keys, ax=ax, colour_bar=False, **options)
        ax.tick_params(labelsize=8)
        ax.set_xticks(
            range(len(keys)), keys, rotation=90, rotation_mode="default", ha="center"
        )
        if head % columns:  # the first of the row has the queries' tokens
            ax.set(ylabel="", yticklabels=[])
        if head + columns < len(maps):  # and the last of the column the keys'
            ax.set(xlabel="", xticklabels=[])
    drawn = list(axes.flat)[: len(maps)]
    figure.colorbar(drawn[0].images[0], ax=drawn, label="weight")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    return figure


def alignment_overlay(ax: Axes, alignment: Iterable[tuple[int, int]]) -> Axes:
    """Hollow squares on a heatmap where source and target words truly correspond.

    alignment holds pairs (source index, target index), as SentencePair does; on the
    heatmap of a cross-attention the source gives the keys and the target the queries.
    ValueError for a pair that lies outside the heatmap.
    """
    target_length, source_length = ax.images[0].get_array().shape
    for source, target in alignment:
        if not (0 <= source < source_length and 0 <= target < target_length):
            raise ValueError(
                f"alignment {(source, target)} lies outside a heatmap of "
                f"{source_length} source and {target_length} target tokens"
            )
        corner = (source - 0.44, target - 0.44)
        square = Rectangle(corner, 0.88, 0.88, fill=False, ec="white", lw=1.6)
        # White on a dark rim is seen on every colour of the scale.
        square.set_path_effects([withStroke(linewidth=3.4, foreground="black")])
        ax.add_patch(square)
    if ax.patches and not ax.figure.legends:
        handles, labels = ax.patches[-1:], ["true alignment"]
        ax.figure.legend(handles, labels, loc="outside lower right", frameon=False)
    return ax
