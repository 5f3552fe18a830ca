"""All attention maps of one translation on one page, each axis with its tokens."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from helpers.masks import causal_mask
from helpers.plots.heatmaps import heatmap


class Kind(NamedTuple):
    """One of a Transformer's three attentions.

    Its modules' name, and which of `texts_of` its queries and its keys are.
    """

    module: str  # with {} for the layer, counted from 0
    queries: str
    keys: str


KINDS = {
    "encoder self-attention": Kind(
        "encoder.layers.{}.self_attention", "source", "source"
    ),
    "decoder self-attention": Kind("decoder.layers.{}.self_attention", "read", "read"),
    "cross-attention": Kind("decoder.layers.{}.cross_attention", "said", "source"),
}
AXES = {"source": "source", "read": "word read", "said": "word said"}


def texts_of(source: Sequence[str], target: Sequence[str]) -> dict[str, list[str]]:
    """The tokens along the axes, from the two sentences' words.

    The encoder reads the source and <eos>. A decoder position has two tokens: the one
    it reads, beginning with <bos>, and the next one, which it says, ending with <eos>.
    """
    return {
        "source": [*source, "<eos>"],
        "read": ["<bos>", *target],
        "said": [*target, "<eos>"],
    }


def count_layers(maps: Mapping[str, Tensor], kind: str) -> int:
    """How many layers the maps hold of a kind."""
    before, after = KINDS[kind].module.split("{}")
    return sum(name.startswith(before) and name.endswith(after) for name in maps)


def mask_of(kind: str, length: int) -> Tensor | None:
    """Where a kind's queries may attend, (length, length); None for everywhere."""
    return causal_mask(length)[0, 0] if kind == "decoder self-attention" else None


def attention_page(
    maps: Mapping[str, Tensor],
    source: Sequence[str],
    target: Sequence[str],
    *,
    title: str,
    highest: float = 1.0,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> Figure:
    """The layers and heads of a Transformer for one sentence pair, on one page.

    maps is what `record_attention` gives for a batch of that pair alone; source and
    target are its words, without <bos> and <eos>. A row of the page is a layer of one
    kind of attention, a column is a head. Tokens stand once where maps share them. In
    cross-attention a row carries the word that is said there. What the decoder's causal
    mask hides is grey. `layers` and `heads` are the numbers of those that are drawn,
    counted from 0: all of them by default. ValueError if the maps are of another batch,
    or the words do not fit them.
    """
    texts = texts_of(source, target)
    rows = [
        (kind, i)
        for kind in KINDS
        for i in range(count_layers(maps, kind))
        if layers is None or i in layers
    ]
    if not rows:
        raise ValueError(f"no maps of a Transformer among {sorted(maps)}")
    chosen = [maps[KINDS[kind].module.format(layer)] for kind, layer in rows]
    if sizes := {weights.size(0) for weights in chosen} - {1}:
        raise ValueError(f"maps of {sizes.pop()} sentences, a page shows one")
    ends = {kind: [i for name, i in rows if name == kind] for kind, _ in rows}
    chosen = [w if heads is None else w[:, [*heads]] for w in chosen]
    page = _Page(max(weights.size(1) for weights in chosen))
    for (kind, layer), weights in zip(rows, chosen, strict=True):
        _, queries, keys = KINDS[kind]
        first, last = layer == ends[kind][0], layer == ends[kind][-1]
        line = page.line(weights.size(1), len(texts[queries]), first, last)
        options = {"title": "", "highest": highest, "colour_bar": False}
        options |= {"mask": mask_of(kind, len(texts[queries])), "rotation": 90}
        for column, ax in enumerate(line):
            name = f"head {(heads or range(len(line)))[column] + 1}"
            name = name if column else f"layer {layer + 1}, {name}"
            heatmap(weights[0, column], texts[queries], texts[keys], ax=ax, **options)
            ax.set_title(name, fontsize=8.5, pad=3)
            ax.set_xlabel(AXES[keys] if last else "", fontsize=8)
            ax.set_ylabel("" if column else AXES[queries], fontsize=8)
            if column:
                ax.set_yticklabels([])
            if not last:
                ax.set_xticklabels([])
            ax.tick_params(labelsize=8, length=2, pad=1.5)
        if first:
            above = {"xycoords": "axes fraction", "textcoords": "offset points"}
            line[0].annotate(kind, (0, 1), (0, 20), weight="bold", fontsize=9, **above)
    return page.finish(title)


class _Page:
    """A tall figure that is filled from the top; all numbers are inches."""

    WIDEST, LEFT, RIGHT, GAP, TOP = 8.6, 0.85, 0.85, 0.14, 0.45
    TITLE, KIND, KEYS = 0.26, 0.3, 0.85  # above a map; above a kind; below its last

    def __init__(self, columns: int):
        self.figure = plt.figure(layout="none")
        between = self.LEFT + self.RIGHT + self.GAP * (columns - 1)
        self.map_width = min(1.62, (self.WIDEST - between) / columns)
        self.width, self.used = between + columns * self.map_width, self.TOP
        self.boxes: list[tuple[Axes, float, float, float]] = []

    def line(self, heads: int, queries: int, first: bool, last: bool) -> list[Axes]:
        """Axes for the heads of one layer, below those that are there."""
        height = 0.145 * queries  # a line of 8 points with its leading
        self.used += self.TITLE + self.KIND * first
        line = [
            self.figure.add_axes((0, 0, 1, 1), label=f"{self.used} {head}")
            for head in range(heads)
        ]
        for head, ax in enumerate(line):
            x = self.LEFT + head * (self.map_width + self.GAP)
            self.boxes.append((ax, x, self.used, height))
        self.used += height + self.KEYS * last
        return line

    def finish(self, title: str) -> Figure:
        """Put everything in its place, now that the height is known."""
        figure, height = self.figure, self.used
        figure.set_size_inches(self.width, height)
        for ax, x, y, high in self.boxes:
            ax.set_position(
                (
                    x / self.width,
                    1 - (y + high) / height,
                    self.map_width / self.width,
                    high / height,
                )
            )
        first, (*_, top, high) = self.boxes[0][0], self.boxes[0]
        bar = figure.add_axes(
            (
                1 - 0.6 / self.width,
                1 - (top + 2.6) / height,
                0.13 / self.width,
                2.6 / height,
            )
        )
        figure.colorbar(first.collections[0], cax=bar, label="weight")
        bar.tick_params(labelsize=8)
        figure.suptitle(
            title,
            x=0.1 / self.width,
            y=1 - 0.1 / height,
            ha="left",
            va="top",
            fontsize=11,
        )
        return figure
