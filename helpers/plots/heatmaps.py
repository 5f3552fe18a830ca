"""Attention weights as pictures: a row per query, a column per key."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import matplotlib.pyplot as plt
import seaborn
import torch
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

# Hatched, so that a cell that is hidden is told from one of a middle weight in black
# and white too.
HIDDEN = {"facecolor": "#D4D4D4", "edgecolor": "#A8A8A8", "hatch": "////", "lw": 0}
MANY = 8  # labels of numbers along an axis; more are thinned out


def heatmap(
    weights: Tensor,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    title: str,
    ax: Axes | None = None,
    mask: Tensor | None = None,
    highest: float = 1.0,
    signed: bool = False,
    numbers: bool | Callable[[float], str] = False,
    label: str = "weight",
    colour_bar: bool = True,
    rotation: float = 45,
) -> Axes:
    """Weights, or other numbers, as colour: a row per query, a column per key.

    weights and mask (query_length, key_length). Colour runs from 0 to `highest`, where
    `signed` from -highest (blue) through 0 (white) to highest (red); `label` says at
    the colour bar what it measures. The mask is True where a query may attend: other
    cells are grey and hatched, as are those of NaN. `numbers` writes the weights into
    the cells, an exact zero as 0, or what a function makes of each. `rotation` turns
    the keys, in degrees. Positions are given as ranges; of a long one few are labelled.

    Cell (i, j) is the square from (x, y) = (j, i) to (j + 1, i + 1), so its centre is
    at (j + 0.5, i + 0.5). ValueError if the labels or the mask do not fit the weights.
    """
    shape = (len(queries), len(keys))
    weights = torch.as_tensor(weights).detach().float().cpu().numpy()
    if weights.shape != shape:
        raise ValueError(f"weights of shape {weights.shape} with labels for {shape}")
    if mask is not None and tuple(mask.shape) != shape:
        raise ValueError(f"weights of shape {shape} with a mask of {tuple(mask.shape)}")
    if ax is None:
        width, height = 1.8 + 0.42 * shape[1], 1.3 + 0.36 * shape[0]
        _, ax = plt.subplots(figsize=(max(3.6, width), max(2.4, height)))
    options = {"cmap": "viridis", "vmin": 0, "vmax": highest, "cbar": colour_bar}
    if signed:
        options |= {"cmap": "RdBu_r", "vmin": -highest}
    if mask is not None:
        options["mask"] = ~mask.bool().cpu().numpy()
    if numbers:
        write = numbers if callable(numbers) else _two_decimals
        options["annot"] = [[write(weight) for weight in row] for row in weights]
        options |= {"fmt": "", "annot_kws": {"size": 9}}
    ax.patch.set(**HIDDEN)
    with _undrawn(ax.figure):
        # Labels of our own follow: seaborn's would depend on the figure's layout.
        options |= {"xticklabels": False, "yticklabels": False}
        seaborn.heatmap(weights, ax=ax, cbar_kws={"label": label}, **options)
    _label(ax.xaxis, keys, rotation)
    _label(ax.yaxis, queries)
    ax.set(xlabel="key", ylabel="query", title=title)
    return ax


def _two_decimals(weight: float) -> str:
    return f"{weight:.2f}" if weight else "0"


def _label(axis: Axis, labels: Sequence[str], rotation: float = 0) -> None:
    """A tick in the middle of every cell, or of every so many along a range."""
    step, turned = 1, {"rotation": rotation}
    if isinstance(labels, range):
        steps = (step * 10**power for power in range(9) for step in (1, 2, 5))
        step, turned = next(step for step in steps if len(labels) <= MANY * step), {}
    elif 0 < rotation < 90:
        turned |= {"ha": "right", "rotation_mode": "anchor"}
    middles = [i + 0.5 for i in range(0, len(labels), step)]
    axis.set_ticks(middles, labels[::step], **turned)


class _NoCanvas(FigureCanvasBase):
    def draw(self) -> None:
        self.figure.stale = False  # else seaborn draws pyplot's figure instead


@contextmanager
def _undrawn(figure: Figure) -> Iterator[None]:
    """Keep seaborn.heatmap from drawing the figure to see whether its labels overlap.

    A page of 24 maps would be drawn 24 times, and a layout that is not done yet warns.
    """
    canvas = figure.canvas
    _NoCanvas(figure)
    try:
        yield
    finally:
        figure.set_canvas(canvas)
        figure.stale = True


def alignment_overlay(ax: Axes, alignment: Iterable[tuple[int, int]]) -> Axes:
    """Hollow squares on a heatmap where source and target words truly correspond.

    alignment holds pairs (source index, target index), as SentencePair does; on the
    heatmap of a cross-attention the source gives the keys and the target the queries.
    ValueError for a pair that lies outside the heatmap.
    """
    target_length, source_length = ax.collections[0].get_array().shape
    for source, target in alignment:
        if not (0 <= source < source_length and 0 <= target < target_length):
            raise ValueError(
                f"alignment {(source, target)} lies outside a heatmap of "
                f"{source_length} source and {target_length} target tokens"
            )
        corner = (source + 0.06, target + 0.06)
        square = Rectangle(corner, 0.88, 0.88, fill=False, ec="white", lw=1.6)
        # White on a dark rim is seen on every colour of the scale.
        square.set_path_effects([withStroke(linewidth=3.4, foreground="black")])
        ax.add_patch(square)
    if ax.patches and not ax.figure.legends:
        handles, labels = ax.patches[-1:], ["true alignment"]
        ax.figure.legend(handles, labels, loc="outside lower right", frameon=False)
    return ax
