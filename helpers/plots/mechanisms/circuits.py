"""Drawings of lesson 06: the stack of layers, a circuit in a story, heads, probes."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from torch import Tensor

from helpers.plots import alignment_overlay, drawing, heatmap
from helpers.plots.drawing import ROLES, Block

Moves = Mapping[tuple[int, int], str]  # {(from, to): what the second place holds then}


def draw_stack(length: int, d_model: int, n_layers: int) -> None:
    """Layers on top of each other, three or more, all with the same mask."""
    title = "The encoder: the same shapes go in and come out of every layer"
    ax = drawing.canvas(6.4, 4.1, title=title)
    x, shape = 2.3, f"({length}, {d_model})"
    names = ["tokens", "embedding + positions", "layer 1", "layer 2", "…"]
    names += [f"layer {n_layers}", "norm, with norm first only", "memory"]
    roles = ["input", "query", "attention", "attention", "", "attention", "norm"]
    roles += ["context"]
    before, mask = None, drawing.operation(ax, (5.3, 1.75), "mask", role="mask")
    for i, (name, role) in enumerate(zip(names, roles, strict=True)):
        y = 0.3 + 0.46 * i
        if name == "…":
            drawing.write(ax, (x, y), "⋮", size=12)
            box = Block(x, y, 0.3, 0.2)
        else:
            box = drawing.operation(ax, (x, y), name, role=role, width=2.2, height=0.28)
        if before:
            drawing.arrow(ax, before.top, box.bottom)
            label = f"({length},)" if i == 1 else shape
            drawing.write(ax, (x - 0.15, y - 0.23), label, size=8, align="right")
        if name.startswith("layer"):
            drawing.arrow(ax, mask.left, box.right, colour=ROLES["mask"])
        before = box
    text = "each layer:\nself-attention,\nfeed-forward, each\nwith residual and norm"
    drawing.write(ax, (5.2, 3.05), text, size=8.5)


def draw_circuit(
    words: Sequence[str], layers: Sequence[Moves], looks: Sequence[str], *, title: str
) -> None:
    """What layers move between the words of a story; from the bottom to the top.

    `layers` holds the moves of each layer, `looks` says in words who looks at what.
    """
    ax = drawing.canvas(6.4, 3.7, title=title)
    gap = 4.5 / (len(words) - 1)
    names = ["words", *(f"after layer {i}" for i, _ in enumerate(layers, start=1))]
    rows: list[list[Block]] = []
    for level, moves in enumerate([{}, *layers]):
        y = 0.35 + 1.3 * level
        drawing.write(ax, (0.1, y), names[level], size=9, align="left")
        holds = {place: text for (_, place), text in moves.items()}
        row = []
        for place, word in enumerate(words):
            middle = 1.4 + gap * place, y
            look = {"role": "context" if place in holds else "input"}
            text = holds.get(place, word)
            size = {"width": 0.74, "height": 0.46 if place in holds else 0.3}
            row.append(drawing.operation(ax, middle, text, **look, **size))
        if rows:
            _draw_moves(ax, rows[-1], row, moves, looks[level - 1], level)
        rows.append(row)


def _draw_moves(
    ax: Axes,
    below: Sequence[Block],
    above: Sequence[Block],
    moves: Moves,
    look: str,
    level: int,
) -> None:
    """The moves of one layer, and thin arrows for what the residuals carry up."""
    for one, other in zip(below, above, strict=True):
        drawing.arrow(ax, one.top, other.bottom, colour=drawing.HIDDEN, width=0.8)
    for source, place in moves:
        style = {"colour": ROLES["attention"], "width": 2.2}
        drawing.arrow(ax, below[source].top, above[place].bottom, **style)
    text = f"layer {level}:\n{look}"
    drawing.write(
        ax, (0.1, (below[0].y + above[0].y) / 2), text, size=8.5, align="left"
    )


def story_maps(
    maps: Mapping[str, Tensor],
    words: Sequence[str],
    looks: Sequence[Tensor],
    *,
    title: str,
) -> None:
    """The heads of each layer in one story, with squares where each should look.

    maps {name: (heads, length, length)}; looks: for each layer (length,), -1 for none.
    """
    n = len(words)
    figure, axes = plt.subplots(2, 2, figsize=(6.4, 6.4), sharex=True, sharey=True)
    for layer, (line, weights) in enumerate(zip(axes, maps.values(), strict=True)):
        keys = enumerate(looks[layer].tolist())
        squares = [(key, query) for query, key in keys if key >= 0]
        for head, ax in enumerate(line):
            name = f"layer {layer + 1}, head {head + 1}"
            options = {"title": name, "colour_bar": False, "rotation": 90}
            heatmap(weights[head, :n, :n], words, words, ax=ax, **options)
            alignment_overlay(ax, squares)
            ax.label_outer()
    figure.legends[0].get_texts()[0].set_text("where it should look")
    figure.colorbar(axes[0, 0].collections[0], ax=axes, label="weight", shrink=0.6)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    plt.show()


def seeds_and_places(
    table: pd.DataFrame, columns: Mapping[str, str], title: str
) -> None:
    """For each seed (column) and each place (row): how often answers follow a patch."""
    shares = table[[*columns]].T.to_numpy().copy()
    names = [str(seed) for seed in table["seed"]]
    _, ax = plt.subplots(figsize=(6.4, 2.2))
    options = {"title": title, "label": "share that follows", "rotation": 0}
    heatmap(shares, [*columns.values()], names, ax=ax, **options)
    ax.set(xlabel="seed", ylabel="layer 1 replaced at")
    plt.show()


def probe_tables(tables: Mapping[str, Tensor], rows: Sequence[str], title: str) -> None:
    """What probes read, (rows, levels) each, side by side with their numbers."""
    figure, axes = plt.subplots(1, len(tables), figsize=(6.4, 2.9), sharey=True)
    levels = ["embedded", "layer 1", "layer 2"]
    for ax, (name, table) in zip(axes, tables.items(), strict=True):
        options = {"title": name, "numbers": True, "colour_bar": False, "rotation": 30}
        heatmap(table, rows, levels, ax=ax, **options)
        ax.set(xlabel="vector after", ylabel="")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    plt.show()
