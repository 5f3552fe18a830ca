"""The one picture that a check draws. matplotlib is loaded here, and not before."""

from collections.abc import Sequence

from torch import Tensor

HIDDEN = {"facecolor": "#D4D4D4", "edgecolor": "#A8A8A8", "hatch": "////", "lw": 0}
LEAST = 1e-4  # where the colours end if nothing moves further


def draw_changes(
    changes: Tensor,
    rows: Sequence[str],
    title: str,
    ylabel: str,
    xlabel: str = "position of the logits (0 reads <bos>)",
) -> None:
    """Show as colours how far logits move, in their spread.

    changes (rows, positions); NaN stands where there is nothing to compare, and is grey
    and hatched. Infinity has the colour of the largest change that is finite.
    ImportError without matplotlib, the extra `plots`.
    """
    from matplotlib import pyplot as plt

    highest = max([LEAST, *changes[changes.isfinite()].tolist()])
    columns = range(changes.size(1))
    size = 2.4 + 0.52 * len(columns), max(2.6, 1.4 + 0.27 * len(rows))
    figure, ax = plt.subplots(figsize=size, layout="constrained")
    ax.patch.set(**HIDDEN)
    mesh = ax.pcolormesh(changes.clamp(max=highest).tolist(), vmin=0, vmax=highest)
    ax.invert_yaxis()
    ax.set_xticks([i + 0.5 for i in columns], [str(i) for i in columns])
    ax.set_yticks([i + 0.5 for i in range(len(rows))], rows)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.spines[:].set_visible(False)
    figure.colorbar(mesh, label="change, in spreads").outline.set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    plt.show()
