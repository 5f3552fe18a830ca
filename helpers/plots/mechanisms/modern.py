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
    ("grouped-query attention", "attention"),
    None,
    ("RMSNorm", "norm"),
    ("SwiGLU", "feed-forward"),
    None,
)


def draw_two_blocks() -> None:
    """A block of 2017 and one of today, each from below to above."""
    ax = drawing.canvas(6.2, 4.9, title="One block with self-attention, then and now")
    for x, name, parts, places, at in (
        (1.85, "2017, with biases", BLOCK_2017, "sinusoids\nadded to x", (0.45, 0.3)),
        (
            4.85,
            "today, without biases",
            BLOCK_TODAY,
            "queries, keys\nturned in here",
            (3.42, 1.53),
        ),
    ):
        drawing.write(ax, (x, 4.42), name, size=10.5)
        drawing.write(ax, (x, 0.25), "x", size=11)
        drawing.write(ax, at, places, size=8)
        _draw_column(ax, x, parts)


def _draw_column(ax: Axes, x: float, parts: Sequence) -> None:
    """The boxes and sums of a block, and the two ways around them."""
    below, branch = (x, 0.38), 0.0
    for i, part in enumerate(parts):
        y = 0.95 + 0.58 * i
        if i in (0, 3):  # a way around begins below the sublayer, or below its norm
            branch = y - 0.29
        if part is None:
            box, side = _plus(ax, (x, y)), x + 1.12
            look = {"color": ROLES["stream"], "lw": 2.5}
            ax.plot([x, side, side], [branch, branch, y], **look)
            drawing.arrow(ax, (side, y), box.right, width=2.5, colour=ROLES["stream"])
        else:
            box = drawing.operation(ax, (x, y), part[0], role=part[1], width=1.8)
        drawing.arrow(ax, below, box.bottom)
        below = box.top
    drawing.arrow(ax, below, (x, 4.3))


def _plus(ax: Axes, middle: tuple[float, float]) -> Block:
    """A sum: a circle with a plus in it."""
    look = {"markerfacecolor": "white", "markeredgecolor": drawing.INK, "zorder": 3}
    ax.plot(*middle, "o", ms=13, **look)
    drawing.write(ax, middle, "+", size=11)
    return Block(*middle, 0.2, 0.2)


def draw_norms(x: Tensor, layer: Tensor, root: Tensor) -> None:
    """Three features as they are, and after each of the two norms."""
    ax = drawing.canvas(5.6, 1.6, title="The same features after both norms")
    left = 1.1
    for numbers, role, name in (
        (x, "input", "x"),
        (layer, "norm", "LayerNorm: mean 0"),
        (root, "norm", "RMSNorm"),
    ):
        drawing.tensor(
            ax,
            (left, 0.65),
            [[f"{x:.2f}".replace("-", "−") for x in numbers.tolist()]],
            role,
            name=name,
            columns="features",
            cell=0.5,
        )
        left += 1.72


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
    """The network of 2017 and the gated one, with the sizes on their arrows."""
    ax = drawing.canvas(6.0, 3.4, title="Feed-forward: ReLU, and a gate")
    look = {"role": "feed-forward", "width": 0.9}
    x = 1.2
    one = drawing.operation(ax, (x, 0.95), "expand", **look)
    relu = drawing.operation(ax, (x, 1.75), "ReLU", width=0.9)
    two = drawing.operation(ax, (x, 2.45), "contract", **look)
    drawing.arrow(ax, (x, 0.35), one.bottom, text=str(d_model), offset=(0.22, 0))
    drawing.arrow(ax, one.top, relu.bottom, text=str(d_ff), offset=(0.25, 0))
    drawing.arrow(ax, relu.top, two.bottom, text=str(d_ff), offset=(0.25, 0))
    drawing.arrow(ax, two.top, (x, 3.0), text=str(d_model), offset=(0.22, 0))
    left, right, middle = 3.4, 4.9, 4.15
    gate = drawing.operation(ax, (left, 0.95), "gate", **look)
    expand = drawing.operation(ax, (right, 0.95), "expand", **look)
    silu = drawing.operation(ax, (left, 1.55), "SiLU", width=0.9)
    times = drawing.operation(ax, (middle, 1.95), "×", width=0.4)
    last = drawing.operation(ax, (middle, 2.55), "contract", **look)
    start = (middle, 0.3)
    for at in ((x, 0.2), (middle, 0.15)):
        drawing.write(ax, at, "x", size=11)
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
    note = "long: first clock; short: second clock; grey: what the short hand swept"
    drawing.write(ax, (0.1, 1.88), note, size=8, align="left")


def draw_lengths(
    table: pd.DataFrame, kinds: Mapping[str, str], *, trained: int, titles: Sequence
) -> None:
    """A panel for each task: the share of right answers at each place.

    `table` is the study longer_than_trained; `kinds` maps its kinds of positions to
    what the legend says. A line is the mean over the seeds, its band goes from the
    lowest run to the highest; the places of the training are shaded.
    """
    places = {x: int(x.removeprefix("at ")) for x in table if x.startswith("at ")}
    known = ["task", "positions", "seed"]
    shares = table[[*known, *places]].rename(columns=places)
    shares = shares.melt(known, var_name="place", value_name="share right")
    shares = shares[shares["positions"].isin([*kinds])]
    shares["positions"] = shares["positions"].map(kinds)
    shares["place"] = shares["place"].astype(int)
    tasks = shares.groupby("task", sort=False)
    figure, axes = plt.subplots(len(tasks), figsize=(6.2, 5.2), sharex=True)
    names = [*kinds.values()]
    for ax, (_, runs), title in zip(axes, tasks, titles, strict=True):
        look = {"hue_order": names, "style_order": names, "errorbar": ("pi", 100)}
        look["err_kws"] = {"alpha": 0.1}
        look |= {"palette": [*COLOURS[: len(names)]], "dashes": [*DASHES[: len(names)]]}
        options = {"x": "place", "y": "share right", "hue": "positions", "ax": ax}
        seaborn.lineplot(runs, **options, style="positions", **look)
        ax.axvspan(0, trained - 1, color="#EEEEEE", zorder=0)
        ax.axhline(1 / 8, color="grey", lw=0.8)  # a guess among 8 letters
        ax.set(title=title, ylim=(0, 1.05), xlim=(0, max(places.values())))
        ax.get_legend().remove()
    axes[0].text(0.5, 0.03, "trained on these", fontsize=8)
    axes[-1].set_xlabel("place of the letter")
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False)


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
    figure, (above, below) = plt.subplots(
        2, figsize=(6.2, 4.6), sharex=True, height_ratios=(1.6, 1)
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
    above.plot(wanted, level, "o", color=drawing.INK, ms=6)
    for distance, share in right.items():
        if share < 0.9:
            look = {"color": COLOURS[5], "ms": 6, "zorder": 4}
            above.plot(distance, total[distance].item(), "v", **look)
            below.plot(distance, share, "v", **look)
            side = -1 if distance + 1 in right and right[distance + 1] < 0.9 else 1
            at = (distance + 0.7 * side, share + 0.02)
            below.text(*at, distance, ha="left" if side > 0 else "right", fontsize=8)
    for ax in (above, below):
        ax.axvspan(0, trained - 1, color="#EEEEEE", zorder=0)
    below.plot([*right], [*right.values()], "o", color=drawing.INK, ms=4)
    below.axhline(1 / 8, color="grey", lw=0.8)
    above.set(ylabel="mean score", title=titles[0])
    below.set(title=titles[1], xlabel="distance", ylabel="share right")
    below.set(ylim=(0, 1.05), xlim=(-0.5, parts.size(1)))
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
