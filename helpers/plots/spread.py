"""How numbers spread: from seed to seed, and within a group."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import seaborn
import torch
from matplotlib.axes import Axes
from torch import Tensor

from helpers.plots.style import COLOURS, MARKERS, STYLES


def over_seeds(
    table: pd.DataFrame | Mapping[str, Sequence] | Sequence[Mapping[str, Any]],
    *,
    x: str,
    y: str,
    title: str,
    hue: str | None = None,
    colours: Sequence[str] = COLOURS,
    ax: Axes | None = None,
) -> Axes:
    """What was measured with several seeds: every run, their mean and their spread.

    table has a row for each run, such as a study's; x, y and hue name its columns.
    Black dots are runs, a large mark is their mean, and a bar goes from the lowest run
    to the highest, which hides nothing where seeds are few. Means are joined where x
    and y are numbers. `colours` are those of hue's values, at most six. ValueError for
    a column that the table does not have, and for a table without rows.
    """
    table = pd.DataFrame(table)
    if missing := [name for name in (x, y, hue) if name and name not in table]:
        raise ValueError(f"no column {missing[0]!r} in a table of {list(table)}")
    if table.empty:
        raise ValueError(f"no runs in a table of {list(table)}")
    if ax is None:
        _, ax = plt.subplots(figsize=(5.4, 3.2))
    options = {"data": table, "x": x, "y": y, "ax": ax, "native_scale": True}
    dots = {"color": "black", "size": 3, "jitter": False, "zorder": 3}
    seaborn.stripplot(**options, **dots)
    looks = {"markers": MARKERS[0], "linestyles": STYLES[0]}
    if hue:
        kinds = table[hue].nunique()
        options |= {"hue": hue, "palette": [*colours[:kinds]]}
        looks = {"markers": [*MARKERS[:kinds]], "linestyles": [*STYLES[:kinds]]}
    if not all(pd.api.types.is_numeric_dtype(table[name]) for name in (x, y)):
        looks["linestyles"] = "none"
    looks |= {"markersize": 8, "linewidth": 1.5, "err_kws": {"linewidth": 1.5}}
    seaborn.pointplot(**options, **looks, errorbar=("pi", 100))
    ax.set_title(title)
    return ax


def distribution(
    groups: Mapping[str, Sequence[float] | Tensor],
    *,
    title: str,
    xlabel: str,
    ylabel: str = "share",
    ax: Axes | None = None,
    **options: Any,
) -> Axes:
    """How the numbers of each group spread: a histogram each, over the same bins.

    Heights are shares of the group, which add up to 1. `options` are
    seaborn.histplot's: bins, binrange, discrete, stat. ValueError for a group without
    numbers.
    """
    arrays = {
        name: torch.as_tensor(numbers).detach().float().flatten().cpu().numpy()
        for name, numbers in groups.items()
    }
    for name, numbers in arrays.items():
        if not numbers.size:
            raise ValueError(f"group {name!r} holds no numbers")
    if ax is None:
        _, ax = plt.subplots(figsize=(5.4, 3.2))
    everything = [bound for a in arrays.values() for bound in (a.min(), a.max())]
    look = {"stat": "proportion", "element": "step", "alpha": 0.5}
    look |= {"binrange": (min(everything), max(everything))} | options
    for (name, numbers), colour in zip(arrays.items(), COLOURS, strict=False):
        seaborn.histplot(x=numbers, color=colour, label=name, ax=ax, **look)
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    ax.legend(frameon=False)
    return ax
