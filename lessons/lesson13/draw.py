"""Drawings of lesson 13: merges, and scores of resamples."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
from torch import Tensor

from helpers.plots import drawing
from helpers.plots.spread import distribution

LETTER = 0.3  # the width of a letter, in inches


def draw_merges(words: Sequence[str], merges: Sequence[tuple[str, str]]) -> None:
    """The words in single letters, and below them in pieces after each merge.

    A piece that is new is coloured more strongly than the others.
    """
    rows = [("letters", [[*word] for word in words], "")]
    for left, right in merges:
        before = rows[-1][1]
        joined = [_join(pieces, left, right) for pieces in before]
        rows.append((f"{left} + {right}", joined, left + right))
    start = 1.15
    width = start + LETTER * (sum(map(len, words)) + len(words) - 1) + 0.1
    ax = drawing.canvas(width, 0.38 * len(rows) + 0.5, title="Each merge adds a piece")
    for number, (name, split, new) in enumerate(rows):
        y = 0.38 * (len(rows) - number) - 0.12
        drawing.write(ax, (start - 0.15, y), name, size=10, align="right")
        x = start
        for pieces in split:
            for piece in pieces:
                wide = LETTER * len(piece)
                role = "attention" if piece == new else "input"
                options = {"role": role, "width": wide - 0.05, "height": 0.28}
                drawing.tokens(ax, [piece], (x + wide / 2, y), **options)
                x += wide
            x += LETTER


def _join(pieces: Sequence[str], left: str, right: str) -> list[str]:
    joined: list[str] = []
    for piece in pieces:
        if joined and (joined[-1], piece) == (left, right):
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


def resampled(scores: Mapping[str, Tensor], differences: Mapping[str, Tensor]) -> None:
    """How the scores of the resamples spread, and next to them their differences.

    Both map at most two names to numbers, one for each resample.
    """
    _, axes = plt.subplots(1, 2, figsize=(6.4, 2.9))
    look = {"bins": 40, "stat": "percent"}
    title = "Scores of resamples overlap"
    labels = {"xlabel": "BLEU", "ylabel": "% of the resamples"}
    distribution(scores, title=title, ax=axes[0], **labels, **look)
    title = "Paired: nearly all above 0"
    labels = {"xlabel": "difference in BLEU", "ylabel": ""}
    distribution(differences, title=title, ax=axes[1], **labels, **look)
    axes[1].axvline(0, color="black", lw=1)
    for ax in axes:
        ax.set_ylim(0, 1.35 * ax.get_ylim()[1])  # room for the legend
        ax.title.set_fontsize(10)
    plt.show()
