"""Figures that more than one lesson draws.

Importing this package sets the course's figure style. A function draws into `ax` (a
new figure without one) and returns it, so that a lesson can add to the picture.
"""

from helpers.plots.architecture import PARTS, architecture_map
from helpers.plots.curves import learning_curves
from helpers.plots.heatmaps import alignment_overlay, heatmap
from helpers.plots.spread import distribution, over_seeds
from helpers.plots.style import COLOURS

__all__ = [
    "COLOURS",
    "PARTS",
    "alignment_overlay",
    "architecture_map",
    "distribution",
    "heatmap",
    "learning_curves",
    "over_seeds",
]
