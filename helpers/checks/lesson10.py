"""Checks for the exercises of lesson 10, the toy translator."""

from collections.abc import Callable, Iterator

import torch
from matplotlib import pyplot as plt
from torch import Tensor

from helpers import EOS, PAD
from helpers.checks.core import (
    Finding,
    Stop,
    attempt,
    check,
    right,
    weights_beside,
    wrong,
)
from helpers.plots import COLOURS

# What the planted translator's sentences show, and how many are right and wrong. Its
# fault is the pronoun; contractions stand only where a pronoun does.
PLANTED = (
    ({"pronoun"}, 1, 1),
    ({"pronoun", "possessive"}, 0, 6),
    ({"pronoun", "possessive", "contraction"}, 0, 2),
    ({"possessive"}, 8, 3),
    ({"negation"}, 3, 1),
    ({"question"}, 6, 0),
)
RENAMED = {
    "pronoun": "negation",
    "possessive": "question",
    "contraction": "elision",
    "negation": "pronoun",
    "question": "possessive",
}


def _planted(renamed: dict[str, str], everywhere: set[str]) -> tuple[list, list, list]:
    """Hypotheses, references and groups; `everywhere` is shown by every sentence."""
    hypotheses, references, groups = [], [], []
    for names, right_ones, wrong_ones in PLANTED:
        shown = {renamed.get(name, name) for name in names} | everywhere
        for is_right in [True] * right_ones + [False] * wrong_ones:
            reference = f"phrase {len(references)}."
            references.append(reference)
            hypotheses.append(reference if is_right else "faux.")
            groups.append(set(shown))
    return hypotheses, references, groups


def _shares(hypotheses: list, references: list, groups: list) -> dict[str, tuple]:
    """{name: (exact match with it, without it, wrong sentences)}; None for no share."""
    hits = [h == r for h, r in zip(hypotheses, references, strict=True)]
    shares = {}
    for name in sorted(set().union(*groups)):
        having = [hit for hit, names in zip(hits, groups, strict=True) if name in names]
        lacking = [
            hit for hit, names in zip(hits, groups, strict=True) if name not in names
        ]
        without = sum(lacking) / len(lacking) if lacking else None
        shares[name] = sum(having) / len(having), without, having.count(False)
    return shares


def _misreadings(shares: dict[str, tuple]) -> dict[str, str]:
    """{a wrong answer: what was compared to get it}."""
    compared = {n: row for n, row in shares.items() if row[1] is not None}
    return {
        min(compared, key=lambda n: compared[n][1] - compared[n][0]): (
            "its sentences do better than the others: it is the other way round, the "
            "share without it minus the share with it, and the largest of these"
        ),
        max(shares, key=lambda n: shares[n][2]): (
            "it stands in the largest number of wrong sentences, because it stands in "
            "so many: compare shares, not numbers"
        ),
        max(compared, key=lambda n: compared[n][2]): (
            "it stands in the largest number of wrong sentences, because it stands in "
            "so many: compare shares, not numbers"
        ),
        min(shares, key=lambda n: shares[n][0]): (
            "it has the lowest exact match, but it only ever stands beside another "
            "one: compare it with the sentences *without* it, not with a fixed number "
            "or with all sentences"
        ),
    }


def _draw_shares(shares: dict[str, tuple]) -> None:
    """Exact match with and without each phenomenon, side by side."""
    _, ax = plt.subplots(figsize=(7, 2.8))
    for shift, column, label in ((-0.2, 0, "with it"), (0.2, 1, "without it")):
        heights = [100 * (row[column] or 0) for row in shares.values()]
        places = [i + shift for i in range(len(shares))]
        ax.bar(places, heights, 0.38, color=COLOURS[column], label=label)
    ax.set_xticks(range(len(shares)), shares)
    ax.set(ylabel="exact match (%)", title="The planted outputs, by phenomenon")
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    plt.show()


@check
def broken_phenomenon(function: Callable[..., str]) -> Iterator[Finding]:
    """Exercise 10.2: the phenomenon whose sentences do worse than those without it."""
    first = _planted({}, set())
    try:
        answer = attempt(function, *first)
    except Stop as stop:
        if "ZeroDivisionError" not in stop.finding.text:
            raise
        raise Stop(
            wrong(
                "a phenomenon that no sentence shows, or every one, has one share and "
                f"not two: leave it out ({stop.finding.text})"
            )
        ) from None
    _demand(answer, "pronoun", _shares(*first))
    yield right("the fault is found, and not what merely stands beside it")
    # The same once more, under other names and with one that all sentences show.
    second = _planted(RENAMED, {"agreement"})
    try:
        answer = attempt(function, *second)
    except Stop as stop:
        raise Stop(
            wrong(
                "where every sentence shows a phenomenon there is none without it, and "
                f"no share: leave such a phenomenon out ({stop.finding.text})"
            )
        ) from None
    _demand(answer, "negation", _shares(*second))
    yield right("what every sentence shows is left out")


def _demand(answer, expected: str, shares: dict[str, tuple]) -> None:
    """Nothing if the answer is right; else Stop with what was likely compared."""
    if answer == expected:
        return
    if not isinstance(answer, str):
        raise Stop(
            wrong(f"return the name of one phenomenon, not a {type(answer).__name__}")
        )
    if answer not in shares:
        raise Stop(
            wrong(f"{answer!r} is none of the phenomena shown: {', '.join(shares)}")
        )
    text = _misreadings(shares).get(answer, "another one explains the errors better")
    raise Stop(wrong(f"not {answer!r}: {text}", lambda: _draw_shares(shares)))


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
    """Exercise 10.1: the share of real tokens whose largest logit is right."""
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
    above = [  # below zero: all cells
        [(i, j) for j, i in WEIGHTS.gt(threshold).nonzero().tolist()]
        for threshold in (-1.0, 0.1, 0.2, 0.3)
    ]
    mistakes = {
        "the largest weight of each column: rows are the queries, so take the largest "
        "of each row, `weights.argmax(-1)`": [by_column],
        "the pairs are turned round: give (source_index, target_index), the column "
        "first": [[(j, i) for i, j in expected]],
        "these are all the cells above a threshold or all cells at all; keep one per "
        "row": above,
    }
    for mistake, answers in mistakes.items():
        if sorted(pairs) in map(sorted, answers):
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
