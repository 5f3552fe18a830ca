"""The one picture that a check draws. matplotlib is loaded here, and not before."""

from collections.abc import Sequence

from torch import Tensor

HIDDEN = {"facecolor": "#D4D4D4", "edgecolor": "#A8A8A8", "hatch": "////", "lw": 0}
MANY = 10  # labels of numbers along an axis; more are thinned out


def draw_heatmap(
    values: Tensor,
    rows: Sequence,
    columns: Sequence,
    *,
    title: str,
    xlabel: str,
    ylabel: str,
    label: str,
    highest: float = 1.0,
) -> None:
    """Show numbers as colours, from 0 to `highest`; NaN is grey and hatched.

    values (rows, columns); `rows` and `columns` name them, `label` says at the colour
    bar what is measured. ImportError without matplotlib, the extra `plots`.
    """
    from matplotlib import pyplot as plt

    size = 2.4 + 0.52 * len(columns), max(2.6, 1.4 + 0.27 * len(rows))
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    ax.patch.set(**HIDDEN)
    mesh = ax.pcolormesh(values.tolist(), cmap="viridis", vmin=0, vmax=highest)
    ax.invert_yaxis()
    for axis, names in ((ax.xaxis, columns), (ax.yaxis, rows)):
        step = -(-len(names) // MANY) if isinstance(names, range) else 1
        places = range(0, len(names), step)
        axis.set_ticks([i + 0.5 for i in places], [str(names[i]) for i in places])
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.spines[:].set_visible(False)
    figure.colorbar(mesh, label=label).outline.set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    plt.show()
