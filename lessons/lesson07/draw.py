"""Drawings of lesson 07: the decoder layer, the shift, prefixes."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from helpers.plots import drawing
from helpers.plots.drawing import HIDDEN, ROLES, Block

RIGHT, WRONG = "#CDE3F1", "#F7DDB0"  # words that are right, and wrong ones


def draw_decoder_layer(target_length: int, source_length: int, d_model: int) -> None:
    """A decoder layer with its three sublayers, from top to bottom, with shapes."""
    target, source = (target_length, d_model), (source_length, d_model)
    ax = drawing.canvas(6.4, 5.6, title="A decoder layer, for one sentence")
    x = drawing.operation(ax, (2.0, 5.1), "x: target", role="input", width=1.2)
    drawing.write(ax, (2.75, 5.1), f"{target}", align="left")
    memory = drawing.operation(
        ax, (5.5, 2.95), "memory: source", role="input", width=1.4
    )
    drawing.write(ax, (5.5, 3.3), f"{source}")
    before, boxes = x, []
    for y, text, role in (
        (4.3, "masked self-attention", "attention"),
        (2.95, "cross-attention", "attention"),
        (1.6, "feed-forward", "feed-forward"),
    ):
        box = drawing.operation(ax, (2.0, y), text, role=role, width=1.8)
        drawing.arrow(ax, before.bottom, box.top)
        added = drawing.operation(
            ax, (2.0, y - 0.62), "add and norm", role="norm", width=1.3, height=0.28
        )
        drawing.arrow(ax, box.bottom, added.top)
        _way_around(ax, (box.top[1] + before.bottom[1]) / 2, added)
        before = added
        boxes.append(box)
    own, across, _ = boxes
    output = drawing.operation(ax, (2.0, 0.3), "output", role="input", width=1.2)
    drawing.arrow(ax, before.bottom, output.top)
    drawing.write(ax, (2.75, 0.3), f"{target}", align="left")
    drawing.write(ax, (2.12, own.top[1] + 0.17), "query, key, value", align="left")
    drawing.write(ax, (2.12, across.top[1] + 0.17), "query", align="left")
    for shift, role in ((0.08, "key"), (-0.08, "value")):
        start = memory.left[0], memory.y + shift
        end = across.right[0], across.y + shift
        drawing.arrow(ax, start, end, colour=ROLES[role], width=2)
        drawing.write(ax, (3.8, across.y + 2.5 * shift), role)
    drawing.write(ax, (0.36, own.y), "residual")
    triangle = [[j <= i for j in range(target_length)] for i in range(target_length)]
    rectangle = [[True] * source_length] * target_length
    _weights(ax, (3.8, own.y - 0.1), triangle, "weights: target × target", "grey: 0")
    _weights(ax, (3.8, across.y - 0.72), rectangle, "weights: target × source")


def _way_around(ax: Axes, y: float, added: Block) -> None:
    """The residual connection: out of the stream at height y, into the sum."""
    left = 0.75
    line = {"color": ROLES["stream"], "lw": 2, "zorder": 1.5}
    ax.plot([2.0, left, left], [y, y, added.y], **line)
    drawing.arrow(
        ax, (left, added.y), added.left, colour=ROLES["stream"], width=2, text=""
    )


def _weights(
    ax: Axes,
    middle: tuple[float, float],
    seen: Sequence[Sequence[bool]],
    text: str,
    more: str = "",
) -> None:
    """Small attention weights; what is hidden is grey. Name and shape stand beside."""
    cell = 0.13
    high, wide = len(seen), len(seen[0])
    left, top = middle[0] - wide * cell / 2, middle[1] + high * cell / 2
    for i, row in enumerate(seen):
        for j, can_see in enumerate(row):
            fill = drawing.tint("weights", 0.5) if can_see else HIDDEN
            look = {"facecolor": fill, "edgecolor": ROLES["weights"], "lw": 0.6}
            corner = left + j * cell, top - (i + 1) * cell
            ax.add_patch(Rectangle(corner, cell, cell, zorder=2, **look))
    place = left + wide * cell + 0.12
    drawing.write(ax, (place, middle[1] + 0.11), text, align="left")
    shape = ", ".join(filter(None, [f"({high}, {wide})", more]))
    drawing.write(ax, (place, middle[1] - 0.11), shape, align="left")


def draw_shift(words: Sequence[str]) -> None:
    """What the decoder reads and what it must say: the sentence, shifted by one."""
    ax = drawing.canvas(
        6.4, 1.75, title="All places at once: read a word, say the next"
    )
    step = 5.5 / (len(words) + 1)
    sizes = {"width": step - 0.12, "gap": 0.12, "height": 0.32}
    first = 0.75 + step / 2
    read = drawing.tokens(ax, ["<bos>", *words], (first, 0.3), **sizes)
    say = drawing.tokens(ax, [*words, "<eos>"], (first, 1.2), role="context", **sizes)
    for below, above in zip(read, say, strict=True):
        drawing.arrow(ax, below.top, above.bottom)
    for below, above in zip(read[1:], say, strict=False):
        start, end = (above.x + 0.15, above.bottom[1]), (below.x - 0.15, below.top[1])
        drawing.arrow(ax, start, end, colour=ROLES["input"], width=1.2)
    drawing.write(ax, (0.1, 0.3), "read", align="left")
    drawing.write(ax, (0.1, 1.2), "say", align="left")


def prefix_triangles(
    said: Mapping[str, Sequence[Sequence[str]]],
    read: Sequence[str],
    due: Sequence[str],
    *,
    title: str,
) -> None:
    """What each position says when only so many tokens are read: a row a prefix.

    said {name: rows}, row i with i + 1 words. Right words are blue, wrong ones orange;
    the last word of a row, which writing uses, has a frame.
    """
    figure, axes = plt.subplots(len(said), 1, figsize=(6.4, 2.9 * len(said)))
    for ax, (name, rows) in zip(axes, said.items(), strict=True):
        for i, row in enumerate(rows):
            for j, word in enumerate(row):
                fill = RIGHT if word == due[j] else WRONG
                frame = "#222222" if j == len(row) - 1 else "none"
                box = {"boxstyle": "round,pad=0.25", "ec": frame, "fc": fill}
                ax.text(j, i, word, bbox=box, ha="center", va="center", fontsize=9)
        ax.set_xticks(range(len(read)), read)
        ax.set_yticks(range(len(rows)), range(1, len(rows) + 1))
        ax.set(xlim=(-0.6, len(read) - 0.4), ylim=(len(rows) - 0.4, -0.6), title=name)
        ax.set(ylabel="tokens read")
        ax.tick_params(length=0)
    axes[-1].set_xlabel("token read at the position")
    figure.suptitle(title)
    plt.show()
