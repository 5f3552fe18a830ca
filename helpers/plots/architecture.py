"""The map of the architecture that opens every lesson, this lesson's part in colour."""

from collections.abc import Collection

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import (
    Circle,
    FancyArrowPatch,
    FancyBboxPatch,
    Polygon,
    Rectangle,
)
from matplotlib.path import Path

from helpers.plots.drawing import warn_if_crowded
from helpers.plots.style import COLOURS

# Each part, the lesson that builds it, and its colour.
PARTS = {
    "data": ("00", COLOURS[5]),
    "embeddings": ("01", COLOURS[3]),
    "positions": ("01", COLOURS[3]),
    "attention": ("02", COLOURS[1]),
    "masks": ("03", COLOURS[5]),
    "multi-head": ("04", COLOURS[1]),
    "feed-forward": ("05", COLOURS[4]),
    "residual": ("05", COLOURS[2]),
    "norm": ("05", COLOURS[2]),
    "encoder": ("06", COLOURS[0]),
    "decoder": ("07", COLOURS[0]),
    "cross-attention": ("07", COLOURS[1]),
    "projection": ("08", COLOURS[3]),
    "transformer": ("08", COLOURS[0]),
    "training": ("09", COLOURS[5]),
    "decoding": ("11", COLOURS[5]),
}

# Coordinates are inches: the picture's height, the middles of encoder and decoder, the
# width of a box, where the stacks begin, and how high a sub-layer with its norm is.
# Texts are large for the width, so that they can be read on a phone, at 360 pixels.
HEIGHT = 5.76
COLUMNS = {"encoder": 2.06, "decoder": 4.36}
BOX, FLOOR, PITCH = 1.44, 1.1, 1.06
EDGES = {True: (0.1, 6.36), False: (0.92, 5.52)}  # the model's, with numbers or without
GREY, INK = "#C8C8C8", "#333333"


def architecture_map(*lit: str, ax: Axes | None = None) -> None:
    """The Transformer in one picture.

    The parts named in `lit` are in colour, all others grey; without a name all are in
    colour, each with the number of its lesson. Gives nothing back, so that it can be a
    cell's last line.
    ValueError for a name that is not in PARTS.
    After Vaswani et al. 2017, figure 1; the norms stand where the paper has them.
    """
    unknown = [part for part in lit if part not in PARTS]
    if unknown:
        raise ValueError(f"no part is called {unknown[0]!r}, only {', '.join(PARTS)}")
    left, right = EDGES[not lit][0] - 0.1, EDGES[not lit][1] + 0.44
    if ax is None:
        figure = plt.figure(figsize=(right - left, HEIGHT), layout="none")
        ax = figure.add_axes((0, 0, 1, 1))
        warn_if_crowded(ax)
    ax.set(xlim=(left, right), ylim=(0, HEIGHT), aspect="equal")
    ax.axis("off")
    pen = _Pen(ax, lit)
    _draw_inputs(pen, "encoder", "the black cat sleeps . <eos>")
    _draw_inputs(pen, "decoder", "<bos> le chat noir dort .")
    _draw_stack(pen, "encoder", "self-attention")
    _draw_stack(pen, "decoder", "masked self-attention", "cross-attention")
    _draw_memory(pen)
    _draw_outputs(pen, "le chat noir dort . <eos>")
    title = "The Transformer, each part with the lesson that builds it"
    if lit:
        title = f"The Transformer, in colour: {', '.join(lit)}"
    ax.text(left + 0.1, HEIGHT - 0.2, title, fontsize=11)


class _Pen:
    """Draws a shape in its colour where one of its parts is lit, otherwise in grey.

    `parts` names all parts that a shape belongs to; the first one gives the colour.
    Where all parts are lit, they have the numbers of their lessons.
    """

    def __init__(self, ax: Axes, lit: Collection[str]):
        self.ax, self.lit, self.numbered = ax, set(lit or PARTS), not lit

    def colour(self, parts: str) -> str:
        first, *others = parts.split()
        return PARTS[first][1] if self.lit & {first, *others} else GREY

    def fill(self, shape, parts: str, tint: float = 0.3, order: float = 2) -> None:
        """Add a patch with its part's colour as edge and a tint of that inside."""
        edge = self.colour(parts)
        face = [1 - tint * (1 - channel) for channel in to_rgb(edge)]
        shape.set(facecolor=face, edgecolor=edge, zorder=order)
        self.ax.add_patch(shape)

    def box(self, x, y, width, height, parts, text="", **options):
        corner, style = (x - width / 2, y - height / 2), "round,pad=0,rounding_size=.05"
        shape = FancyBboxPatch(corner, width, height, boxstyle=style, snap=True)
        self.fill(shape, parts, **options)
        self.write(x, y, text, parts)

    def write(self, x, y, text, parts, **options):
        ink = "#7D7D7D" if self.colour(parts) == GREY else "#111111"
        style = {"fontsize": 10, "ha": "center", "va": "center", "color": ink}
        self.ax.text(x, y, text, **{**style, **options})

    def line(self, parts, *points, ink=INK, head="-|>", style="-"):
        """A bent line through the points, ending in an arrow's head."""
        ink = GREY if self.colour(parts) == GREY else ink
        arrow = {"arrowstyle": head, "mutation_scale": 8, "linestyle": style}
        arrow |= {"color": ink, "fill": False, "zorder": 1.4 if ink == GREY else 1.5}
        self.ax.add_patch(FancyArrowPatch(path=Path(points), **arrow))

    def lesson(self, x, y, part, *wholes):
        """The number of the lesson that builds a part, where there are numbers."""
        if self.numbered:
            parts = " ".join([part, *wholes])
            tag = Rectangle((x - 0.12, y - 0.1), 0.24, 0.2, lw=0.8, snap=True)
            self.fill(tag, parts, tint=0.55)
            number = PARTS[part][0]
            self.write(x, y - 0.01, number, parts, fontsize=8, weight="bold")


def _margin(column: str) -> tuple[int, float]:
    """The direction from a column to the picture's edge, and where its tags begin."""
    outward = -1 if column == "encoder" else 1
    return outward, COLUMNS[column] + 1.26 * outward


def _draw_inputs(pen: _Pen, column: str, tokens: str) -> None:
    """The tokens below a column, their embeddings and positions."""
    x, margin = COLUMNS[column], _margin(column)[1]
    pen.write(x, 0.12, tokens, "data")
    pen.lesson(x - 1.15, 0.12, "data")
    pen.line("transformer", (x, 0.21), (x, 0.38))
    pen.line("transformer", (x, 0.5), (x, FLOOR), head="-")
    pen.box(x, 0.5, BOX, 0.24, "embeddings transformer", "embedding")
    pen.lesson(margin, 0.5, "embeddings")
    pen.box(x, 0.83, BOX, 0.24, "positions transformer", "+ positions")
    pen.lesson(margin, 0.83, "positions")


def _draw_stack(pen: _Pen, name: str, *attentions: str) -> None:
    """The encoder's or decoder's frame and, from the floor up, its sub-layers."""
    x, whole = COLUMNS[name], f"{name} transformer"
    outward, margin = _margin(name)
    top = FLOOR + PITCH * (len(attentions) + 1) + 0.06
    middle = x + 0.09 * outward, (FLOOR + top) / 2
    pen.box(*middle, 1.94, top - FLOOR, whole, tint=0.08, order=1)
    pen.write(x + 0.5 * outward, top + 0.2, f"{name}:\nN layers", whole)
    pen.lesson(margin, top + 0.2, name)
    for row, label in enumerate([*attentions, "feed-forward"]):
        y = FLOOR + PITCH * row
        if label == "feed-forward":
            pen.box(x, y + 0.37, BOX, 0.3, f"feed-forward {whole}", label)
            pen.lesson(margin, y + 0.37, "feed-forward")
        else:
            _draw_attention(pen, name, y + 0.35, label)
        _draw_residual(pen, name, y)


def _draw_residual(pen: _Pen, name: str, y: float) -> None:
    """The way through a sub-layer and the one around it; their sum, normalised."""
    x, whole = COLUMNS[name], f"{name} transformer"
    outward, margin = _margin(name)
    pen.line(whole, (x, y - 0.1), (x, y + 0.18))
    pen.line(whole, (x, y + 0.5), (x, y + 0.84))
    side, add = x + 0.94 * outward, y + 0.72
    around = [(x, y + 0.08), (side, y + 0.08), (side, add), (x + 0.08 * outward, add)]
    pen.line(f"residual {whole}", *around, ink=COLOURS[2])
    pen.fill(Circle((x, add), 0.075), f"residual {whole}")
    pen.write(x, add - 0.01, "+", f"residual {whole}")
    pen.box(x, y + 0.95, BOX, 0.21, f"norm {whole}", "layer norm")
    pen.lesson(margin, y + 0.86, "residual", "norm")


def _draw_attention(pen: _Pen, name: str, y: float, label: str) -> None:
    """A card for each head; the first one shows what the mask lets through."""
    x, whole = COLUMNS[name], f"{name} transformer"
    if label in PARTS:
        whole = f"{label} {whole}"
    for shift in (0.08, 0.04):
        pen.box(x + shift, y + shift, BOX, 0.36, f"multi-head {whole}")
    pen.box(x, y, BOX, 0.36, f"attention multi-head {whole}")
    lines = label.replace(" ", "\n")
    pen.write(x - 0.16, y, lines, f"attention multi-head {whole}", linespacing=0.9)
    # All but the padding at the end; in the decoder nothing that comes later either.
    seen = [(0, 0), (0, 4), (3, 4), (3, 0)]
    if label.startswith("masked"):
        seen = [(0, 0), (0, 4), (1, 4), (1, 3), (2, 3), (2, 2), (3, 2), (3, 1), (4, 1)]
        seen += [(4, 0)]
    left, low, cell = x + 0.4, y - 0.13, 0.065
    corners = [(left + cell * column, low + cell * row) for column, row in seen]
    square = Rectangle((left, low), 4 * cell, 4 * cell, snap=True)
    pen.fill(square, f"masks {whole}", tint=0, order=3)
    pen.fill(Polygon(corners, snap=True), f"masks {whole}", tint=1, order=3)
    outward, margin = _margin(name)
    for place, part in enumerate(("attention", "masks", "multi-head")[::outward]):
        pen.lesson(margin + 0.27 * outward * place, y, part)


def _draw_memory(pen: _Pen) -> None:
    """From the top of the encoder to the cross-attention of every decoder layer."""
    start, end = COLUMNS.values()
    parts, middle = "cross-attention decoder transformer", (start + end) / 2
    low, high = FLOOR + PITCH + 0.35, FLOOR + 2 * PITCH + 0.38
    bends = [(start, high), (middle, high), (middle, low)]
    ends = (start, high - 0.42), (end - BOX / 2, low)
    pen.line(parts, ends[0], *bends, ends[1], ink=COLOURS[1])
    pen.write((start + middle) / 2, high + 0.12, "memory", parts)
    pen.lesson(middle, (low + high) / 2, "cross-attention", "decoder")


def _draw_outputs(pen: _Pen, tokens: str) -> None:
    """The projection above the decoder, and what becomes of its output."""
    x, top = COLUMNS["decoder"], FLOOR + 3 * PITCH
    (left, right), low, high = EDGES[pen.numbered], 0.3, top + 0.8
    frame = (left + right) / 2, (low + high) / 2, right - left, high - low
    pen.box(*frame, "transformer", tint=0.04, order=0)
    pen.lesson(left + 0.2, high - 0.18, "transformer")
    name = left + (0.4 if pen.numbered else 0.1), high - 0.5
    pen.write(*name, "the Transformer", "transformer", ha="left")
    pen.line("transformer", (x, top - 0.03), (x, top + 0.44))
    pen.line("transformer", (x, top + 0.57), (x, top + 0.9))
    pen.box(x, top + 0.56, BOX, 0.24, "projection transformer", "projection, softmax")
    pen.lesson(_margin("decoder")[1], top + 0.56, "projection")
    y, edge = top + 1.01, right + 0.14
    pen.write(x, y, tokens, "data decoding")
    # A loss compares the probabilities with the true words, not with the chosen ones.
    loss = COLUMNS["encoder"] - 0.1
    probabilities = [(x - BOX / 2, top + 0.56), (loss, top + 0.56), (loss, y - 0.13)]
    pen.line("training", *probabilities)
    pen.write((loss + x - BOX / 2) / 2, top + 0.66, "probabilities", "training")
    pen.write(loss + 1.06, y, "true words", "data training")
    pen.line("training", (loss + 0.69, y), (loss + 0.56, y))
    pen.box(loss, y, 1.1, 0.26, "training", "training: loss")
    pen.lesson(_margin("encoder")[1], y, "training")
    around = [(x + 0.92, y), (edge, y), (edge, 0.12), (x + 0.9, 0.12)]
    pen.line("decoding", *around, ink=PARTS["decoding"][1], style="--")
    pen.lesson(edge, y - 0.5, "decoding")
    note = "decoding: the output becomes input"
    pen.write(edge + 0.14, 2.2, note, "decoding", rotation=270)
