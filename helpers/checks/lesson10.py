"""Checks for the exercises of lesson 10, the toy translator."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from helpers import BOS, EOS, PAD
from helpers.checks.core import (
    Finding,
    attempt,
    check,
    right,
    same,
    weights_beside,
    wrong,
)

TARGET = torch.tensor(
    [[BOS, 7, 8, 9, EOS], [BOS, 5, EOS, PAD, PAD], [BOS, 6, 4, EOS, PAD]]
)
SHIFT_MISTAKES = {
    "the two are swapped: the decoder reads what comes before what it says": (
        TARGET[:, 1:],
        TARGET[:, :-1],
    ),
    "nothing is shifted: the decoder would read the very token it must say": (
        TARGET,
        TARGET,
    ),
    "both are cut alike, so nothing is shifted between them": (
        TARGET[:, :-1],
        TARGET[:, :-1],
    ),
    "both lose their <bos>, so nothing is shifted between them": (
        TARGET[:, 1:],
        TARGET[:, 1:],
    ),
    "what the decoder reads still holds its last column": (TARGET, TARGET[:, 1:]),
    "what it must say still begins with <bos>": (TARGET[:, :-1], TARGET),
    "the first axis is the batch; cut the second, `target[:, …]`": (
        TARGET[:-1],
        TARGET[1:],
    ),
}


@check
def shifted(function: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Iterator[Finding]:
    """Exercise 10.1: decoder input and labels from padded target rows."""
    output = attempt(function, TARGET)
    if isinstance(output, list):
        output = tuple(output)
    if same(output, (TARGET[:, :-1], TARGET[:, 1:])):
        yield right("the decoder reads each row without its last column")
        yield right("and must say it without <bos>: the same row, one step later")
        return
    if not isinstance(output, tuple) or len(output) != 2:
        yield wrong(
            f"return two tensors, what is read and what is said, not {output!r}"
        )
        return
    for mistake, answer in SHIFT_MISTAKES.items():
        if same(output, answer):
            yield wrong(mistake)
            return
    shapes = [tuple(getattr(part, "shape", ())) for part in output]
    yield wrong(
        f"from {tuple(TARGET.shape)} come the shapes {shapes[0]} and {shapes[1]}; "
        f"expected {tuple(TARGET[:, 1:].shape)} twice: `target[:, :-1]` drops the last "
        "column, `target[:, 1:]` the first"
    )


def _probe() -> tuple[Tensor, Tensor]:
    """Logits and labels on which every way of counting gives another number."""
    labels = torch.tensor(
        [
            [4, 5, 6, 7, EOS, PAD, PAD],
            [5, EOS, PAD, PAD, PAD, PAD, PAD],
            [7, 6, 5, EOS, PAD, PAD, PAD],
        ]
    )
    said = torch.tensor(
        [
            [4, 5, 4, 7, EOS, PAD, 6],
            [4, 7, PAD, 5, 5, PAD, 5],
            [7, 6, 4, EOS, 5, 5, 4],
        ]
    )
    logits = torch.nn.functional.one_hot(said, 8).float() * 3 - 1
    return logits, labels


def _counts(logits: Tensor, labels: Tensor) -> dict[str, float]:
    hits, real = logits.argmax(-1) == labels, labels != PAD
    by_row = (hits & real).sum(1) / real.sum(1)
    return {
        "padding is counted as well: keep only positions with labels != PAD": (
            hits.float().mean().item()
        ),
        "padding is left out of the hits but not of the total: divide by the number "
        "of real tokens": (hits & real).float().mean().item(),
        "padding counts as a hit but not in the total": (
            hits.sum() / real.sum()
        ).item(),
        "this is the mean over sentences; sum over all tokens before dividing": (
            by_row.mean().item()
        ),
        "this is the share of whole sentences without an error": (
            (hits | ~real).all(1).float().mean().item()
        ),
        "this is the share of errors: 1 minus the accuracy": (
            1 - (hits & real).sum() / real.sum()
        ).item(),
        "this is the number of hits; divide by the number of real tokens": float(
            (hits & real).sum()
        ),
        "this is a percentage; give a share from 0 to 1": (
            100 * (hits & real).sum() / real.sum()
        ).item(),
    }


@check
def accuracy(function: Callable[[Tensor, Tensor], float]) -> Iterator[Finding]:
    """Exercise 10.2: the share of real tokens whose largest logit is right."""
    logits, labels = _probe()
    output = attempt(function, logits, labels)
    if isinstance(output, Tensor) and output.numel() != 1:
        yield wrong(
            f"return one number, not a tensor of shape {tuple(output.shape)}: sum the "
            "hits, then divide"
        )
        return
    if not isinstance(output, (int, float, Tensor)):
        yield wrong(f"return a number, not a {type(output).__name__}")
        return
    real = labels != PAD
    expected = ((logits.argmax(-1) == labels) & real).sum() / real.sum()
    if abs(float(output) - expected.item()) < 1e-5:
        yield right(f"{expected:.3f} of the probe's real tokens are right")
        yield right("padding does not count")
        return
    for mistake, value in _counts(logits, labels).items():
        if abs(float(output) - value) < 1e-5:
            yield wrong(mistake)
            return
    yield wrong(
        f"expected {expected:.3f} on the probe, yours is {float(output):.3f}: compare "
        "`logits.argmax(-1)` with the labels where they are not PAD"
    )


WEIGHTS = torch.tensor(
    [
        [0.15, 0.10, 0.70, 0.05],
        [0.60, 0.20, 0.05, 0.15],
        [0.45, 0.40, 0.10, 0.05],
    ]
)


def _read(weights: Tensor) -> list[tuple[int, int]]:
    return sorted((int(row.argmax()), j) for j, row in enumerate(weights))


@check
def alignment(function: Callable[[Tensor], list[tuple[int, int]]]) -> Iterator[Finding]:
    """Exercise 10.3: pairs (source index, target index) from a cross-attention map."""
    output = attempt(function, WEIGHTS)
    try:
        pairs = [(int(source), int(target)) for source, target in output]
    except (TypeError, ValueError):
        yield wrong("return a list of pairs (source_index, target_index)")
        return
    expected = _read(WEIGHTS)
    if pairs == expected:
        yield right("each French word is aligned with the English word of most weight")
        yield right("the pairs are (source, target) and sorted")
        return
    by_column = [(i, int(WEIGHTS[:, i].argmax())) for i in range(WEIGHTS.size(1))]
    mistakes = {
        "the largest weight of each column: rows are the queries, so take the largest "
        "of each row, `weights.argmax(-1)`": by_column,
        "the pairs are turned round: give (source_index, target_index), the column "
        "first": [(j, i) for i, j in expected],
        "these are all the cells above a threshold or all cells at all; keep one per "
        "row": [(i, j) for i in range(4) for j in range(3)],
    }
    for mistake, answer in mistakes.items():
        if sorted(pairs) == sorted(answer):
            yield wrong(mistake, lambda: _draw(pairs))
            return
    if sorted(pairs) == expected:
        yield wrong("the pairs are right but not sorted: return `sorted(…)` of them")
        return
    yield wrong(
        f"expected {expected}, yours is {pairs}: one pair for each row of the map",
        lambda: _draw(pairs),
    )


def _draw(pairs: list[tuple[int, int]]) -> None:
    """The learner's cells beside the expected ones."""
    cells = []
    for chosen in (pairs, _read(WEIGHTS)):
        cell = torch.zeros(WEIGHTS.shape)
        for source, target in chosen:
            if 0 <= target < cell.size(0) and 0 <= source < cell.size(1):
                cell[target, source] = 1
        cells.append(cell)
    weights_beside(*cells)
