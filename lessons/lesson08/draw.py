"""Drawings of lesson 08: shapes on their way, parameters, memory."""

from collections.abc import Callable, Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor

from helpers import PAD
from helpers.plots import drawing
from helpers.plots.drawing import HIDDEN, INK, Block
from helpers.plots.style import COLOURS
from helpers.transformer import Transformer, TransformerConfig

LEFT, RIGHT = 1.25, 3.75  # the middles of the two columns


Words = Callable[[list[int]], Sequence[str]]


def draw_shapes(
    source: Tensor,
    target: Tensor,
    words: tuple[Words, Words],
    config: TransformerConfig,
) -> None:
    """The way from two sentence pairs to their logits, from top to bottom, with shapes.

    In the stacks, each attention with its mask.

    source and target (2, length) are ids, `words` gives the tokens of each. A model
    runs, and the shapes are those of its tensors. Large enough for a phone.
    """
    model = Transformer(config)
    with torch.no_grad():
        embedded = model.positions(model.source_embedding(source))
        memory = model.encode(source)
        read = model.positions(model.target_embedding(target))
        states = model.decode(target, memory, source)
        logits = model.project(states)
    top = 4.68 + 0.27 * max(source.size(1), target.size(1))
    ax = drawing.canvas(5, top + 0.9)
    title = "Two sentence pairs become logits"
    drawing.write(ax, (0.1, top + 0.7), title, size=13, align="left")
    sides = (LEFT, "source", source), (RIGHT, "target", target)
    for (x, name, ids), tokens in zip(sides, words, strict=True):
        drawing.write(ax, (x, top + 0.32), f"{name} ids {_shape(ids)}", size=13)
        _draw_tokens(ax, x, top, [tokens(row) for row in ids.tolist()], ids)
    layers = model.config.n_layers
    embeds = [_box(ax, (x, 4.11), "embed, positions", 3) for x in (LEFT, RIGHT)]
    encoder = _stack(
        *(ax, (LEFT, 3.46), f"encoder, {layers} layers"),
        {"self-attention": "padding_mask(source)"},
    )
    decoder = _stack(
        *(ax, (RIGHT, 3.11), f"decoder, {layers} layers"),
        {
            "self-attention": "decoder_mask(target)",
            "cross-attention": "padding_mask(source)",
        },
    )
    projection = _box(ax, (RIGHT, 1.05), "projection", 3)
    for box in embeds:
        drawing.arrow(ax, (box.x, 4.78), box.top, width=2)
    steps = (
        (embeds[0].bottom, encoder.top, embedded, ""),
        (embeds[1].bottom, decoder.top, read, ""),
        (decoder.bottom, projection.top, states, "states"),
        (projection.bottom, (RIGHT, 0.42), logits, ""),
    )
    for start, end, tensor, name in steps:
        drawing.arrow(ax, start, end, width=2)
        if tensor is not logits:
            x, y = start[0], (start[1] + end[1]) / 2
            drawing.write(ax, (x + 0.08, y), _shape(tensor), size=12, align="left")
            drawing.write(ax, (x - 0.1, y), name, size=12, align="right")
    drawing.write(ax, (RIGHT, 0.25), f"logits {_shape(logits)}", size=13)
    ax.plot([LEFT, LEFT], [encoder.bottom[1], 2.02], color=INK, lw=2, zorder=1)
    drawing.arrow(ax, (LEFT, 2.02), (decoder.left[0], 2.02), width=2)
    drawing.write(ax, (0.1, 2.3), "memory", size=12, align="left")
    drawing.write(ax, (LEFT + 0.08, 2.3), _shape(memory), size=12, align="left")
    axes = (
        (source.size(0), "batch"),
        (source.size(1), "source_length"),
        (target.size(1), "target_length"),
        (memory.size(2), "d_model"),
        (logits.size(2), "target_vocab"),
    )
    for i, (size, name) in enumerate(axes):
        drawing.write(ax, (0.55, 1.4 - 0.27 * i), str(size), size=12, align="right")
        drawing.write(ax, (0.68, 1.4 - 0.27 * i), name, size=12, align="left")


def _shape(tensor: Tensor) -> str:
    return str(tuple(tensor.shape))


def _box(ax: Axes, middle: tuple[float, float], text: str, colour: int) -> Block:
    """A part of the model, in its colour on the map of the architecture."""
    role = {0: "query", 3: "weights"}[colour]
    box = drawing.operation(ax, middle, "", role=role, width=2.2, height=0.42)
    drawing.write(ax, middle, text, size=13)
    return box


def _stack(
    ax: Axes, top: tuple[float, float], text: str, masks: Mapping[str, str]
) -> Block:
    """A stack of layers below a place, with its attentions and their masks."""
    (x, y), height = top, 0.32 + 0.52 * len(masks)
    box = drawing.operation(
        *(ax, (x, y - height / 2), ""), role="query", width=2.2, height=height
    )
    drawing.write(ax, (x, y - 0.17), text, size=13)
    for i, (attention, mask) in enumerate(masks.items()):
        middle = y - 0.42 - 0.52 * i
        drawing.write(ax, (x, middle), attention, size=11)
        look = {"role": "mask", "width": 2, "height": 0.23}
        drawing.operation(ax, (x, middle - 0.24), "", **look)
        drawing.write(ax, (x, middle - 0.24), mask, size=11)
    return box


def _draw_tokens(
    ax: Axes, x: float, top: float, sentences: Sequence[Sequence[str]], ids: Tensor
) -> None:
    """Sentences side by side, each from top to bottom; padding is grey."""
    for column, (sentence, row) in enumerate(zip(sentences, ids, strict=True)):
        for place, (word, token) in enumerate(zip(sentence, row, strict=True)):
            middle = x - 0.58 + 1.16 * column, top - 0.27 * place
            padding = token == PAD
            look = {"fc": HIDDEN if padding else "white", "ec": INK, "lw": 0.8}
            corner = middle[0] - 0.55, middle[1] - 0.125
            ax.add_patch(plt.Rectangle(corner, 1.1, 0.25, zorder=2, **look))
            ink = "#6A6A6A" if padding else INK
            drawing.write(ax, middle, word, size=11, colour=ink)


def bar(sizes: Mapping[str, float], *, title: str, xlabel: str) -> None:
    """One bar, a piece for each size with its name (of several lines) and its share."""
    total, left = sum(sizes.values()), 0.0
    _, ax = plt.subplots(figsize=(6, 1.9))
    for i, (name, size) in enumerate(sizes.items()):
        look = {"color": COLOURS[i % len(COLOURS)], "alpha": 0.35, "edgecolor": INK}
        ax.barh(0, size, left=left, **look)
        if size > 0.02 * total:
            text, place = f"{name}\n{size / total:.0%}", left + size / 2
            style = {"ha": "center", "va": "center", "fontsize": 8}
            ax.text(place, 0, text, rotation=90 * (size < 0.08 * total), **style)
        left += size
    ax.set(xlim=(0, total), yticks=[], xlabel=xlabel, title=title)
    plt.show()
