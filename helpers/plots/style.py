"""The look of all figures: importing this module sets it."""

import matplotlib.pyplot as plt

plt.rcParams.update(
    {
        "figure.dpi": 90,
        "figure.constrained_layout.use": True,
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "image.cmap": "viridis",
    }
)

# Okabe and Ito's palette, told apart by colour-blind readers too.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
