"""Drawings of lesson 17: two blocks, two norms, rotation, the gate, shared heads."""

import math
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Wedge
from torch import Tensor

from helpers.plots import drawing
from helpers.plots.drawing import ROLES, Block
from helpers.plots.spread import over_seeds
from helpers.plots.style import COLOURS

DASHES = ("", (5, 2), (5, 2, 1, 2), (1, 1), (8, 2, 1, 1), (1, 3))  # seaborn's STYLES

# What each column holds from below, and the role of its colour; None is a sum.
BLOCK_2017 = (
    ("multi-head attention", "attention"),
    None,
    ("LayerNorm", "norm"),
    ("two matrices, ReLU", "feed-forward"),
    None,
    ("LayerNorm", "norm"),
)
BLOCK_TODAY = (
    ("RMSNorm", "norm"),
    ("grouped queries,\nrotated with the keys", "attention"),
    None,
    ("RMSNorm", "norm"),
    ("SwiGLU", "feed-forward"),
    None,
)


def draw_two_blocks() -> None:
    """A block of 2017 and one of today, each from below to above."""
    ax = drawing.canvas(5.2, 5.3, title="One block with self-attention, then and now")
    for x, name, parts, start in (
        (1.3, "2017", BLOCK_2017, "embedding + sinusoids"),
        (3.9, "today", BLOCK_TODAY, "embedding"),
    ):
        drawing.write(ax, (x, 4.8), name, size=11)
        drawing.write(ax, (x, 0.22), start, size=10)
        _draw_column(ax, x, parts)


def _draw_column(ax: Axes, x: float, parts: Sequence) -> None:
    """The boxes and sums of a block, and the two ways around them."""
    below, branch = (x, 0.38), 0.0
    for i, part in enumerate(parts):
        y = 0.98 + 0.65 * i
        if i in (0, 3):  # a way around begins below the sublayer, or below its norm
            branch = y - 0.33
        if part is None:
            box, side = _plus(ax, (x, y)), x + 1.14
            look = {"color": ROLES["stream"], "lw": 2.5}
            ax.plot([x, side, side], [branch, branch, y], **look)
            drawing.arrow(ax, (side, y), box.right, width=2.5, colour=ROLES["stream"])
        else:
            look = {"role": part[1], "width": 1.9, "height": 0.42}
            box = drawing.operation(ax, (x, y), "", **look)
            drawing.write(ax, (x, y), part[0], size=10)
        drawing.arrow(ax, below, box.bottom)
        below = box.top
    drawing.arrow(ax, below, (x, 4.66))


def _plus(ax: Axes, middle: tuple[float, float]) -> Block:
    """A sum: a circle with a plus in it."""
    look = {"markerfacecolor": "white", "markeredgecolor": drawing.INK, "zorder": 3}
    ax.plot(*middle, "o", ms=13, **look)
    drawing.write(ax, middle, "+", size=11)
    return Block(*middle, 0.2, 0.2)


def draw_rotation(
    pairs: Sequence[tuple[int, int]], queries: Tensor, keys: Tensor
) -> None:
    """Clock faces: a query and a key of two features, turned to their positions.

    `pairs` are (position of the query, position of the key); queries and keys
    (positions, 2) are those after the rotation.
    """
    title = "Turned by the position: same offset, same angle between query and key"
    ax = drawing.canvas(6.2, 2.5, title=title)
    for i, (m, n) in enumerate(pairs):
        x, y, radius = 1.15 + 1.95 * i, 1.1, 0.62
        ax.add_patch(Circle((x, y), radius, fill=False, ec="#BBBBBB", lw=1))
        for place, vectors, role, name in (
            (m, queries, "query", "q"),
            (n, keys, "key", "k"),
        ):
            vector = vectors[place] / vectors[place].norm()
            tip = x + radius * vector[0].item(), y + radius * vector[1].item()
            drawing.arrow(ax, (x, y), tip, width=2.2, colour=ROLES[role])
            label = (
                x + 1.28 * radius * vector[0].item(),
                y + 1.28 * radius * vector[1].item(),
            )
            drawing.write(ax, label, name, size=10)
        score = (queries[m] @ keys[n]).item()
        text = f"q at {m}, k at {n}: score {score:.2f}".replace("-", "−")
        drawing.write(ax, (x, 0.15), text, size=8.5)


def draw_gate(d_model: int, d_ff: int, gated: int) -> None:
    """The network of 2017 and the gated one, with sizes and the number of weights."""
    ax = drawing.canvas(6.0, 3.4, title="Feed-forward: ReLU, and a gate")
    look = {"role": "feed-forward", "width": 0.9}
    x = 1.2
    one = drawing.operation(ax, (x, 0.95), "expand", **look)
    relu = drawing.operation(ax, (x, 1.75), "ReLU", width=0.9)
    two = drawing.operation(ax, (x, 2.55), "contract", **look)
    drawing.arrow(ax, (x, 0.3), one.bottom, text=str(d_model), offset=(0.22, 0))
    drawing.arrow(ax, one.top, relu.bottom, text=str(d_ff), offset=(0.25, 0))
    drawing.arrow(ax, relu.top, two.bottom, text=str(d_ff), offset=(0.25, 0))
    drawing.arrow(ax, two.top, (x, 3.05), text=str(d_model), offset=(0.22, 0))
    left, right, middle = 3.4, 4.9, 4.15
    gate = drawing.operation(ax, (left, 0.95), "gate", **look)
    expand = drawing.operation(ax, (right, 0.95), "expand", **look)
    silu = drawing.operation(ax, (left, 1.55), "SiLU", width=0.9)
    times = drawing.operation(ax, (middle, 1.95), "×", width=0.4)
    last = drawing.operation(ax, (middle, 2.55), "contract", **look)
    start = (middle, 0.3)
    for at, weights in ((x, 2 * d_model * d_ff), (middle, 3 * d_model * gated)):
        drawing.write(ax, (at, 0.15), "x", size=11)
        total = f"in all {weights:,} weights"
        drawing.write(ax, (at + 0.25, 0.15), total, size=9, align="left")
    drawing.arrow(ax, start, gate.bottom, text=str(d_model), offset=(-0.25, 0))
    drawing.arrow(ax, start, expand.bottom, text=str(d_model), offset=(0.25, 0))
    drawing.arrow(ax, gate.top, silu.bottom, text=str(gated), offset=(0.25, 0))
    drawing.arrow(ax, silu.top, times.left, text=str(gated), offset=(-0.3, 0.08))
    drawing.arrow(ax, expand.top, times.right, text=str(gated), offset=(0.3, 0.05))
    drawing.arrow(ax, times.top, last.bottom, text=str(gated), offset=(0.25, 0))
    drawing.arrow(ax, last.top, (middle, 3.05), text=str(d_model), offset=(0.25, 0))


def draw_shared_heads(n_heads: int, shared: Sequence[tuple[str, int]]) -> None:
    """Which query heads read which heads of keys and values; one panel for each."""
    ax = drawing.canvas(6.2, 2.2, title="Query heads share heads of keys and values")
    cell = 0.34
    for i, (name, count) in enumerate(shared):
        left = 0.82 + 1.86 * i
        width = cell * (n_heads - 1)
        drawing.write(ax, (left + width / 2, 0.2), f"{name}: {count}", size=9)
        owners = []
        for k in range(count):
            group = n_heads // count
            x = left + cell * (k * group + (group - 1) / 2)
            owners.append(_head(ax, (x, 0.65), "key"))
        for h in range(n_heads):
            head = _head(ax, (left + cell * h, 1.45), "query")
            owner = owners[h * count // n_heads]
            drawing.arrow(ax, owner.top, head.bottom, width=0.9)
    drawing.write(ax, (0.3, 1.45), "queries", size=8)
    drawing.write(ax, (0.3, 0.65), "k, v", size=8)


def _head(ax: Axes, middle: tuple[float, float], role: str) -> Block:
    """One head: a small box in the colour of its role."""
    return drawing.operation(ax, middle, "", role=role, width=0.26, height=0.3)


def draw_clocks(
    faces: Mapping[str, tuple[float, float]], *, swept: float, title: str
) -> None:
    """A clock face for each distance: how far two clocks of a head have turned.

    `faces` maps what stands below to the angles of the first clock, the long hand, and
    of the second one, the short hand. Hands start upright and turn to the right. Grey
    is what the short hand has `swept` in the training.
    """
    ax = drawing.canvas(6.2, 2.3, title=title)
    for i, (name, angles) in enumerate(faces.items()):
        x, y, radius = 0.85 + 1.5 * i, 1.12, 0.58
        quarter = 90 - math.degrees(swept), 90
        ax.add_patch(Wedge((x, y), radius, *quarter, fc="#E4E4E4"))
        ax.add_patch(Circle((x, y), radius, fill=False, ec="#BBBBBB", lw=1))
        for angle, role, length in zip(
            angles, ("key", "query"), (0.95, 0.58), strict=True
        ):
            reach = length * radius
            tip = x + reach * math.sin(angle), y + reach * math.cos(angle)
            look = {"width": 2.4, "colour": ROLES[role]}
            drawing.arrow(ax, (x, y), tip, **look)
        drawing.write(ax, (x, 0.28), name, size=9)
    note = "long: first clock; short: second; grey: the short hand's angles in training"
    drawing.write(ax, (0.1, 1.88), note, size=8, align="left")


def draw_lengths(table: pd.DataFrame, *, trained: int, title: str) -> None:
    """The share of right answers at each place, by the kind of positions.

    `table` holds the rows of one task of the study longer_than_trained. A line is the
    mean over the seeds, its band goes from the lowest run to the highest; the places of
    the training are shaded.
    """
    places = {x: int(x.removeprefix("at ")) for x in table if x.startswith("at ")}
    shares = table[["positions", "seed", *places]].rename(columns=places)
    shares = shares.melt(
        ["positions", "seed"], var_name="place", value_name="share right"
    ).astype({"place": int})
    names = [*table["positions"].unique()]
    figure, ax = plt.subplots(figsize=(6.2, 3.2))
    look = {"hue_order": names, "style_order": names, "errorbar": ("pi", 100)}
    look |= {"palette": [*COLOURS[: len(names)]], "dashes": [*DASHES[: len(names)]]}
    options = {"x": "place", "y": "share right", "hue": "positions", "ax": ax}
    seaborn.lineplot(
        shares, **options, style="positions", **look, err_kws={"alpha": 0.1}
    )
    ax.axvspan(0, trained - 1, color="#EEEEEE", zorder=0)
    ax.text(0.5, 0.72, "trained\non these", fontsize=9)
    _draw_guess(ax)
    ax.set(title=title, ylim=(0, 1.05), xlim=(0, max(places.values())))
    ax.set_xlabel("position of the letter")
    ax.get_legend().remove()
    handles = ax.get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=4, frameon=False)


def _draw_guess(ax: Axes) -> None:
    """The share that a guess among eight letters gets right, and its name."""
    ax.axhline(1 / 8, color="grey", lw=0.8)
    ax.text(0.4, 1 / 8 - 0.02, "a guess", fontsize=9, color="#555555", va="top")


def draw_echoes(
    parts: Tensor,
    right: Mapping[int, float],
    *,
    wanted: int,
    trained: int,
    titles: Sequence[str],
) -> None:
    """The score at each distance, and what one letter at this distance does.

    parts (clocks, distances) are the clocks' parts of the score, as clock_scores gives
    them; `right` maps distances to the share of right answers with a letter there. The
    distance that the task asks for is `wanted`; those of few right answers are named.
    """
    _, (above, below) = plt.subplots(
        2, figsize=(6.2, 4.8), sharex=True, height_ratios=(1.6, 1)
    )
    total = parts.sum(dim=0)
    for line, name, look in (
        (parts[0], "first clock", {"color": ROLES["key"], "ls": "--", "lw": 1.2}),
        (parts[1], "second clock", {"color": ROLES["query"], "ls": "-."}),
        (parts[2:].sum(dim=0), "3rd and 4th", {"color": "grey", "ls": ":"}),
        (total, "their sum", {"color": drawing.INK, "lw": 1.8}),
    ):
        above.plot(line.numpy(), label=name, **look)
    level = total[wanted].item()
    above.axhline(level, color="grey", lw=0.8)
    text = f"score of distance {wanted}"
    above.text(17, level + 1, text, fontsize=9, color="#555555", va="bottom")
    above.plot(wanted, level, "o", color=drawing.INK, ms=6)
    for distance, share in right.items():
        look = {"color": drawing.INK, "marker": "o", "ms": 4}
        if share < 0.9:
            look = {"color": COLOURS[5], "marker": "v", "ms": 6, "zorder": 4}
            above.plot(distance, total[distance].item(), **look)
            side = -1 if distance + 1 in right and right[distance + 1] < 0.9 else 1
            at = (distance + 0.7 * side, share + 0.02)
            below.text(*at, distance, ha="left" if side > 0 else "right", fontsize=9)
        below.plot(distance, share, **look)
    for ax in (above, below):
        ax.axvspan(0, trained - 1, color="#EEEEEE", zorder=0)
    below.text(0.4, 0.7, "distances\nof the training", fontsize=9)
    _draw_guess(below)
    above.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=4, frameon=False)
    above.set(ylabel="mean score", title=titles[0], ylim=(None, level + 8))
    below.set(title=titles[1], xlabel="distance", ylabel="share right")
    below.set(ylim=(-0.12, 1.08), xlim=(-0.5, parts.size(1)))


def draw_stops(table: pd.DataFrame, high: Mapping[str, float], *, title: str) -> None:
    """A panel for each clock: the share right, by the distance at which it stops.

    `table` is the study which_clock. Shaded are the distances at which the clock's part
    of the score is above that of `high`, in all runs.
    """
    _, axes = plt.subplots(1, 2, figsize=(6.2, 2.7), sharey=True)
    for ax, clock, role in zip(axes, high, ("key", "query"), strict=True):
        runs = table[table["treatment"] == f"{clock} clock stops"]
        look = {"hue": "treatment", "colours": [ROLES[role]]}
        over_seeds(runs, x="stops_at", y="right", title="", ax=ax, **look)
        ax.get_legend().remove()
        least = runs.groupby("stops_at")["part"].min()
        half = (least.index[1] - least.index[0]) / 2
        for distance in least[least > high[clock]].index:
            ax.axvspan(distance - half, distance + half, color="#E4E4E4", zorder=0)
        ax.set(xlabel=f"the {clock} clock stops at", ylabel="share right")
        ax.axhline(1 / 8, color="grey", lw=0.8)
        ax.set(ylim=(0, 1.08))
    axes[0].text(11, 1 / 8 - 0.02, "a guess", fontsize=9, color="#555555", va="top")
    axes[0].set_xticks(range(12, 23, 2))
    inside = {"transform": axes[1].transAxes, "fontsize": 9, "va": "top"}
    axes[1].text(0.62, 0.93, "shaded: its part\nis high", **inside)
    axes[0].set_title(title)


def draw_steps(
    table: pd.DataFrame,
    chance: tuple[float, float],
    *,
    title: str,
    hue: str | None = None,
) -> None:
    """How many steps each kind of model takes to 90 %, next to what chance does.

    `table` has the columns "model", "steps_to_90" and `hue`; `chance` is the range of
    the runs in which nothing was changed.
    """
    height = 0.9 + 0.27 * table["model"].nunique()
    _, ax = plt.subplots(figsize=(6.2, height))
    look = {"hue": hue, "colours": (COLOURS[0], COLOURS[1], COLOURS[2])}
    over_seeds(table, x="steps_to_90", y="model", title=title, ax=ax, **look)
    ax.axvspan(*chance, color="#E8E8E8", zorder=0)
    at = sum(chance) / 2, 0.99
    options = {"transform": ax.get_xaxis_transform(), "ha": "center", "va": "bottom"}
    ax.text(*at, "chance", fontsize=9, color="#555555", **options)
    ax.set_title(title, pad=18)
    ax.set(xlabel="steps until 90 % of the words are right", ylabel="")
    if hue:
        ax.set_ylabel("told to cross- · self-attention")
        ax.get_legend().remove()
