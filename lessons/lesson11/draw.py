"""Drawings of lesson 11: what a cache saves, cuts of a distribution, a beam's tree."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from helpers import EOS
from helpers.plots import drawing
from helpers.plots.drawing import HIDDEN, INK, ROLES
from helpers.plots.style import COLOURS

WIDTH, HEIGHT = 0.43, 0.21  # of a cell: a position at a step
NEW = COLOURS[4]
LOOKS = {"new": (NEW, "white"), "again": (HIDDEN, "white"), "kept": ("white", INK)}


def draw_cache(written: Sequence[str], source: Sequence[str]) -> None:
    """Whose keys and values each step computes, without a cache and with one.

    Left the target, whose tokens are read one more a step; right the source, which the
    cross-attention reads.
    """
    steps, second = len(written), len(written) + 0.5  # where the source begins
    high = steps * HEIGHT
    title = "With a cache no key and no value is computed twice"
    ax = drawing.canvas(6.5, 2 * high + 2.2, title=title)
    lower = 0.62
    upper = lower + high + 0.85
    for name, top in (("no cache", upper + high), ("cache", lower + high)):
        cached = name == "cache"
        for step in range(steps):
            y = top - step * HEIGHT
            drawing.write(ax, (0.87, y - HEIGHT / 2), f"step {step + 1}", align="right")
            old = "kept" if cached else "again"
            for place in range(step + 1):
                look = "new" if place == step else old
                _cell(ax, (0.95 + place * WIDTH, y), look)
            for place in range(len(source)):
                look = "new" if step == 0 else old
                _cell(ax, (0.95 + (second + place) * WIDTH, y), look)
        says = ("of the target", "of the source")
        if cached:
            says = ("a strip that grows", "a strip that stays")
        drawing.write(ax, (0.87, top + 0.15), name, size=10, align="right")
        for text, start in zip(says, (0, second), strict=True):
            place = 0.95 + start * WIDTH, top + 0.15
            drawing.write(ax, place, text, size=10, align="left")
    for words, start in ((written, 0), (source, second)):
        for i, word in enumerate(words):
            place = 0.95 + (start + i + 0.47) * WIDTH, upper - 0.14
            drawing.write(ax, place, word, size=8)
    for look, text, x in (
        ("new", "computed for the first time", 0.95),
        ("again", "computed again", 3.4),
        ("kept", "kept", 5.1),
    ):
        _cell(ax, (x, 0.36), look)
        drawing.write(ax, (x + WIDTH + 0.08, 0.25), text, align="left")


def _cell(ax: Axes, corner: tuple[float, float], look: str) -> None:
    """A cell by its upper left corner."""
    fill, edge = LOOKS[look]
    place = corner[0], corner[1] - HEIGHT
    style = {"facecolor": fill, "edgecolor": edge, "lw": 1, "zorder": 2}
    ax.add_patch(Rectangle(place, WIDTH * 0.94, HEIGHT * 0.9, **style))


def draw_shares(
    panels: Mapping[str, Sequence[Tensor]],
    words: Sequence[Sequence[str]],
    sources: Sequence[str],
    *,
    title: str,
) -> None:
    """The probabilities of the likeliest words and of all others together.

    A row for each way to draw; a column for each distribution, with its own words and
    the source that it is for. A word that is cut off has no bar.
    """
    size = {"figsize": (6.5, 1.05 * len(panels) + 1.2)}
    figure, axes = plt.subplots(
        len(panels), len(words), sharex="col", sharey=True, squeeze=False, **size
    )
    for row, (name, columns) in zip(axes, panels.items(), strict=True):
        for ax, shares, likeliest in zip(row, columns, words, strict=True):
            first = [*shares[: len(likeliest)].tolist()]
            first += [0.0] * (len(likeliest) - len(first))
            heights = [*first, shares[len(likeliest) :].sum().item()]
            colours = [COLOURS[3]] * len(first) + [HIDDEN]
            bars = ax.bar([*likeliest, "others"], heights, color=colours)
            text = [f"{x:.2f}" if x else "" for x in heights]
            ax.bar_label(bars, text, size=9)
            ax.set(ylim=(0, 1.35), yticks=(0, 1))
            ax.tick_params(axis="x", rotation=45)
        row[0].set_ylabel(name)
    for ax, source in zip(axes[0], sources, strict=True):
        ax.set_title(source, size=9, style="italic")
    figure.supylabel("probability", size=10)
    figure.suptitle(title, x=0.02, ha="left", fontsize=11)
    plt.show()


def scores_from(table: Mapping[tuple, Mapping[Any, float]]) -> Callable:
    """next_scores for `search`, from {tokens so far: {token: its share}}."""

    def next_scores(tokens: tuple) -> dict:
        shares = table.get(tokens, {"<eos>": 1.0})
        return {token: math.log(share) for token, share in shares.items()}

    return next_scores


def search(
    next_scores: Callable[[tuple], Mapping[Any, float]],
    beam_size: int,
    steps: int,
    *,
    end: Any = EOS,
) -> list[list[tuple[tuple, float]]]:
    """A beam search that tells all: each step's candidates, the best first.

    next_scores maps the tokens so far to {token: log-probability}; a candidate is
    (tokens, log-probability).
    """
    beam, seen = [((), 0.0)], []
    for _ in range(steps):
        candidates = [entry for entry in beam if entry[0][-1:] == (end,)]
        for tokens, total in beam:
            if tokens[-1:] != (end,):
                for token, score in next_scores(tokens).items():
                    candidates.append(((*tokens, token), total + score))
        candidates.sort(key=lambda candidate: candidate[1], reverse=True)
        beam = candidates[:beam_size]
        seen.append(candidates)
    return seen


def draw_tree(
    steps: Sequence[Sequence[tuple[tuple, float]]],
    beam_size: int,
    *,
    title: str,
    shown: int = 5,
) -> None:
    """Candidates by step, the best on top; those that are dropped in grey.

    steps: for each step all candidates (tokens, log-probability), the best first. Under
    a token stand its own log-probability and the sum. Dotted: it has ended.
    """
    node = {"ha": "center", "va": "center", "size": 8.5, "linespacing": 1.2}
    _, ax = plt.subplots(figsize=(6.5, 0.8 * shown + 0.5))
    ax.text(0, 0, "<bos>", bbox={"fc": "white", "ec": COLOURS[0]}, **node)
    kept = {(): (0, 0, 0.0)}  # tokens -> step, height, log-probability
    for step, candidates in enumerate(steps, start=1):
        before, kept = kept, {}
        for rank, (tokens, total) in enumerate(candidates[:shown]):
            ended = tokens in before
            x, y, start = before[tokens if ended else tokens[:-1]]
            ec, ink, width = "0.75", "0.5", 1
            if rank < beam_size:
                kept[tokens] = (step, -rank, total)
                ec, ink, width = ROLES["query"], INK, 2
            style = {"lw": width, "ls": ":" if ended else "-", "zorder": 1}
            ax.plot([x, step], [y, -rank], color=ec, **style)
            own = "" if ended else f"\n{total - start:.2f}"
            said = f"{tokens[-1]}{own}\nsum {total:.2f}".replace("-", "−")
            ax.text(
                step, -rank, said, color=ink, bbox={"fc": "white", "ec": ec}, **node
            )
    ax.set(xlim=(-0.3, len(steps) + 0.4), ylim=(0.5 - shown, 0.6), yticks=[])
    ax.set(xticks=range(len(steps) + 1), xlabel="step", ylabel="best on top")
    ax.set_title(title)
    plt.show()
