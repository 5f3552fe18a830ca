"""Drawings of lesson 06: the stack of layers, a circuit in a story, a patch, probes."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from torch import Tensor

from helpers.plots import drawing, heatmap
from helpers.plots.drawing import ROLES, Block

Moves = Mapping[tuple[int, int], str]  # {(from, to): what the second place holds then}


def draw_stack(length: int, d_model: int, n_layers: int) -> None:
    """Layers on top of each other, three or more, all with the same mask."""
    title = "The same shapes go in and come out of every layer"
    ax = drawing.canvas(5.4, 4.1, title=title)
    x, shape = 1.7, f"({length}, {d_model})"
    names = ["tokens", "embedding + positions", "layer 1", "layer 2", "…"]
    names += [f"layer {n_layers}", "last norm (norm first only)", "memory"]
    roles = ["input", "query", "attention", "attention", "", "attention", "norm"]
    roles += ["context"]
    before, mask = None, drawing.operation(ax, (4.4, 1.75), "mask", role="mask")
    for i, (name, role) in enumerate(zip(names, roles, strict=True)):
        y = 0.3 + 0.46 * i
        if name == "…":
            drawing.write(ax, (x, y), "⋮", size=12)
            box = Block(x, y, 0.3, 0.2)
        else:
            box = drawing.operation(ax, (x, y), name, role=role, width=2.2, height=0.28)
        if role == "norm":  # not in the paper's own six layers
            ax.patches[-1].set_linestyle("--")
        if before:
            drawing.arrow(ax, before.top, box.bottom)
            label = f"({length},)" if i == 1 else shape
            drawing.write(ax, (x - 0.15, y - 0.23), label, size=8, align="right")
        if name.startswith("layer"):
            drawing.arrow(ax, mask.left, box.right, colour=ROLES["mask"])
        before = box
    text = "each layer:\nself-attention,\nfeed-forward, each\nwith residual and norm"
    drawing.write(ax, (4.3, 3.05), text)


def draw_circuit(
    words: Sequence[str], layers: Sequence[Moves], moved: Sequence[str], *, title: str
) -> None:
    """What layers move between the words of a story; from the bottom to the top.

    `layers` holds the moves of each layer, drawn as thick arrows; `moved` says in words
    what each layer moves where.
    """
    ax = drawing.canvas(5.5, 3.7, title=title)
    gap = 3.7 / (len(words) - 1)
    names = ["words", *(f"after layer {i}" for i, _ in enumerate(layers, start=1))]
    rows: list[list[Block]] = []
    for level, moves in enumerate([{}, *layers]):
        y = 0.35 + 1.3 * level
        drawing.write(ax, (0.1, y), names[level], size=9.5, align="left")
        holds = {place: text for (_, place), text in moves.items()}
        row = []
        for place, word in enumerate(words):
            middle = 1.42 + gap * place, y
            look = {"role": "context" if place in holds else "input"}
            size = {"width": min(0.64, gap - 0.05)}
            size["height"] = 0.46 if place in holds else 0.3
            text = holds.get(place, word)
            row.append(drawing.operation(ax, middle, text, **look, **size))
        if rows:
            _draw_moves(ax, rows[-1], row, moves, f"layer {level}\n{moved[level - 1]}")
        rows.append(row)


def _draw_moves(
    ax: Axes, below: Sequence[Block], above: Sequence[Block], moves: Moves, text: str
) -> None:
    """The moves of one layer, and thin arrows for what the residuals carry up."""
    for one, other in zip(below, above, strict=True):
        drawing.arrow(ax, one.top, other.bottom, colour=drawing.HIDDEN, width=0.8)
    for source, place in moves:
        style = {"colour": ROLES["attention"], "width": 2.2}
        drawing.arrow(ax, below[source].top, above[place].bottom, **style)
    middle = (below[0].y + above[0].y) / 2
    drawing.write(ax, (0.1, middle), text, size=9.5, align="left")


def draw_patch(
    runs: Mapping[str, tuple[Sequence[str], str, str]], *, head: str, title: str
) -> None:
    """Two runs, the donor's above: its context is put into the run below.

    `runs` gives each run's words, the head's context at the last of them, and the
    answer there; the patched run's is the donor's.
    """
    ax = drawing.canvas(5.5, 2.5, title=title)
    drawing.write(ax, (4.08, 2.0), head, size=9.5)
    drawing.write(ax, (5.06, 2.0), "answer", size=9.5)
    contexts = []
    for i, (name, (words, context, answer)) in enumerate(runs.items()):
        y = 1.55 - 1.15 * i
        drawing.write(ax, (0.1, y), name, size=9.5, align="left")
        size = {"width": 0.42, "gap": 0.05}
        said = drawing.tokens(ax, words, (0.93, y), **size)
        context = drawing.operation(ax, (4.08, y), context, role="context")
        answer = drawing.operation(ax, (5.06, y), answer, role="input", width=0.6)
        drawing.arrow(ax, said[-1].right, context.left)
        drawing.arrow(ax, context.right, answer.left)
        contexts.append(context)
    style = {"colour": ROLES["attention"], "width": 2.2}
    drawing.arrow(ax, contexts[0].bottom, contexts[1].top, **style)
    drawing.write(ax, (3.95, 0.98), "put in", size=9.5, align="right")


def probe_table(table: Tensor, rows: Sequence[str], title: str, note: str) -> None:
    """What probes read, (rows, levels), with the numbers; a note stands below."""
    _, ax = plt.subplots(figsize=(5.4, 2.6))
    levels = ["embedded", "after layer 1", "after layer 2"]
    options = {"title": title, "numbers": True, "colour_bar": False, "rotation": 0}
    heatmap(table, rows, levels, ax=ax, **options)
    ax.set(xlabel=note, ylabel="")
    plt.show()
