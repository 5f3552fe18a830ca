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
    """Which positions go through the decoder at each step, without a cache and with.

    Left the target, whose tokens are read one more a step; right the source, whose keys
    and values the cross-attention needs.
    """
    steps = len(written)
    high = (steps + 0.5) * HEIGHT
    title = "Without a cache each step computes again what the last ones have computed"
    ax = drawing.canvas(6.5, 2 * high + 1.9, title=title)
    lower = 0.75
    for cached, bottom in ((False, lower + high + 0.5), (True, lower)):
        name = "with a cache" if cached else "without"
        drawing.write(ax, (0.1, bottom + high - 0.05), name, size=10, align="left")
        top = bottom + high - 0.2
        for step in range(steps):
            y = top - step * HEIGHT
            drawing.write(ax, (0.87, y - HEIGHT / 2), f"step {step + 1}", align="right")
            for place in range(step + 1):
                look = "new" if place == step else "kept" if cached else "again"
                _cell(ax, (0.95 + place * WIDTH, y), look)
            for place in range(len(source)):
                look = "new" if step == 0 else "kept" if cached else "again"
                x = 0.95 + (steps + 0.5 + place) * WIDTH
                if not cached or step == 0:
                    _cell(ax, (x, y), look)
        if cached:
            x = 0.95 + (steps + 0.5 + len(source) / 2) * WIDTH
            text = "keys and values of the source:\none fixed strip"
            drawing.write(ax, (x, top - 0.5 * steps * HEIGHT - 0.1), text)
    for words, start in ((written, 0), (source, steps + 0.5)):
        for i, word in enumerate(words):
            place = 0.95 + (start + i + 0.5) * WIDTH, lower + high + 0.25
            drawing.write(ax, place, word, size=7.5)
    for i, (look, text) in enumerate(
        (("new", "computed for the first time"), ("again", "again"), ("kept", "kept"))
    ):
        x = 0.95 + (0, 2.3, 3.3)[i]
        _cell(ax, (x, 0.42), look)
        drawing.write(ax, (x + WIDTH + 0.08, 0.31), text, align="left")


def _cell(ax: Axes, corner: tuple[float, float], look: str) -> None:
    """A cell by its upper left corner."""
    fill, edge = LOOKS[look]
    place = corner[0], corner[1] - HEIGHT
    style = {"facecolor": fill, "edgecolor": edge, "lw": 1, "zorder": 2}
    ax.add_patch(Rectangle(place, WIDTH * 0.94, HEIGHT * 0.9, **style))


def draw_shares(
    panels: Mapping[str, Tensor], words: Sequence[str], *, title: str
) -> None:
    """The shares of the likeliest words, a panel for each way to draw; 0 where cut."""
    rows = (len(panels) + 1) // 2
    figure, axes = plt.subplots(
        rows, 2, figsize=(6.5, 1.9 * rows + 0.5), sharex=True, sharey=True
    )
    for ax, (name, shares) in zip(axes.flat, panels.items(), strict=True):
        first = [*shares[: len(words)].tolist(), *[0.0] * len(words)][: len(words)]
        bars = ax.bar([*words], first, color=COLOURS[3])
        ax.bar_label(bars, [f"{x:.2f}" if x else "0" for x in first], size=8)
        rest = shares[len(words) :].sum()
        ax.set_title(f"{name}; all others {rest:.2f}")
        ax.set_ylim(0, 1.0)
        ax.tick_params(axis="x", rotation=45)
    figure.supylabel("share", fontsize=10)
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
    name: Callable[..., str] = str,
    shown: int = 5,
) -> None:
    """Candidates by step, the best on top; those that are dropped in grey.

    steps: for each step all candidates (tokens, log-probability), the best first. Under
    a token stands its own log-probability. Dotted: a hypothesis that has ended.
    """
    node = {"ha": "center", "va": "center", "size": 8.5, "linespacing": 1.2}
    _, ax = plt.subplots(figsize=(6.5, 0.72 * shown + 0.5))
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
            said = name(tokens[-1]) + ("" if ended else f"\n{total - start:.2f}")
            ax.text(
                step, -rank, said, color=ink, bbox={"fc": "white", "ec": ec}, **node
            )
    ax.set(xlim=(-0.3, len(steps) + 0.4), ylim=(0.5 - shown, 0.6), yticks=[])
    ax.set(xticks=range(len(steps) + 1), xlabel="step", ylabel="best on top")
    ax.set_title(title)
    plt.show()
