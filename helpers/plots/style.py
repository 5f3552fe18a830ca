"""The look of all figures: importing this module sets it."""

import sys

import matplotlib.pyplot as plt
from matplotlib import cycler

# Okabe and Ito's palette, told apart by colour-blind readers too.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
# Colour is not the only thing that tells lines apart: one style for each colour.
STYLES = ("-", "--", "-.", ":", (0, (6, 2, 1, 2, 1, 2)), (0, (1, 3)))
MARKERS = ("o", "s", "D", "^", "v", "P")

plt.rcParams.update(
    {
        "figure.dpi": 90,
        "figure.constrained_layout.use": True,
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.prop_cycle": cycler(color=COLOURS),
        "image.cmap": "viridis",
    }
)


def _sharpen_notebooks() -> None:
    """Let a notebook's figures have twice the pixels of the size they are shown at.

    Whoever has chosen a format of their own keeps it.
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or not plt.get_backend().endswith("inline"):
        return
    from matplotlib_inline.config import InlineBackend

    inline = InlineBackend.instance(parent=shell)
    if inline.figure_formats == {"png"}:
        inline.figure_formats = {"retina"}


_sharpen_notebooks()
