"""*Fewer bits*: the formats of numbers, drawn (the last block of lesson 14)."""

from matplotlib.patches import Rectangle

from helpers.plots import drawing
from helpers.plots.drawing import ROLES

FORMATS = {"fp32": (8, 23), "bf16": (8, 7), "fp16": (5, 10)}  # bits


def draw_formats() -> None:
    """The bits of the three formats: sign, exponent, fraction."""
    ax = drawing.canvas(5.4, 2.6, title="bf16 cuts the fraction, fp16 cuts both")
    cell, left = 0.145, 0.65
    for line, (name, (exponent, fraction)) in enumerate(FORMATS.items()):
        y = 1.88 - 0.72 * line
        drawing.write(ax, (left - 0.12, y), name, size=11, align="right")
        parts = ((1, "input", ""), (exponent, "key", "exponent"))
        place = 0
        for bits, role, word in (*parts, (fraction, "query", "fraction")):
            for bit in range(place, place + bits):
                corner = left + bit * cell, y - 0.15
                look = {"fc": drawing.tint(role), "ec": ROLES[role], "lw": 0.8}
                ax.add_patch(Rectangle(corner, cell, 0.3, zorder=2, **look))
            middle = left + (place + bits / 2) * cell, y - 0.3
            text = f"{bits} {word if bits > 7 else ''}".strip() if word else ""
            drawing.write(ax, middle, text, size=10)
            place += bits
    drawing.write(ax, (left + cell / 2, 2.16), "sign", size=10)
