"""Lesson 10's checks: right answers pass, and every mistake is called by its name."""

import itertools

import matplotlib.pyplot as plt
import pytest
import torch

from helpers import PAD
from helpers.checks import lesson10


def verdict(check, answer):
    """All marks and all texts of a check's findings."""
    findings = check.findings(answer)
    return "".join(f.mark for f in findings), " ".join(f.text for f in findings)


SOUND = {
    lesson10.shifted: [
        lambda target: (target[:, :-1], target[:, 1:]),
        lambda target: [target[:, :-1].clone(), target[:, 1:].clone()],
        lambda target: (target.narrow(1, 0, 4), target.narrow(1, 1, 4)),
    ],
    lesson10.accuracy: [
        lambda x, y: (x.argmax(-1) == y)[y != PAD].float().mean().item(),
        lambda x, y: ((x.argmax(-1) == y) & (y != PAD)).sum() / (y != PAD).sum(),
        lambda x, y: (
            (x.softmax(-1).argmax(-1)[y != PAD] == y[y != PAD]).double().mean()
        ),
    ],
    lesson10.alignment: [
        lambda w: sorted((int(row.argmax()), j) for j, row in enumerate(w)),
        lambda w: sorted(zip(w.argmax(1), torch.arange(len(w)), strict=True)),
    ],
}


@pytest.mark.parametrize(
    "check, answer", [(c, a) for c, answers in SOUND.items() for a in answers]
)
def test_sound_answers_pass(check, answer):
    marks, text = verdict(check, answer)
    assert set(marks) == {"✓"}, text


def hits(x, y):
    return x.argmax(-1) == y


MUTANTS = [
    (lesson10.shifted, lambda t: (t[:, 1:], t[:, :-1]), "the two are swapped"),
    (lesson10.shifted, lambda t: (t, t), "nothing is shifted"),
    (lesson10.shifted, lambda t: (t[:, :-1], t[:, :-1]), "both are cut alike"),
    (lesson10.shifted, lambda t: (t[:, 1:], t[:, 1:]), "both lose their <bos>"),
    (lesson10.shifted, lambda t: (t, t[:, 1:]), "still holds its last column"),
    (lesson10.shifted, lambda t: (t[:, :-1], t), "still begins with <bos>"),
    (lesson10.shifted, lambda t: (t[:-1], t[1:]), "the first axis is the batch"),
    (lesson10.shifted, lambda t: t[:, 1:], "return two tensors"),
    (lesson10.shifted, lambda t: (t[:, :-2], t[:, 2:]), "come the shapes (3, 3)"),
    (lesson10.accuracy, lambda x, y: hits(x, y).float().mean(), "counted as well"),
    (
        lesson10.accuracy,
        lambda x, y: (hits(x, y) & (y != PAD)).float().mean(),
        "not of the total",
    ),
    (
        lesson10.accuracy,
        lambda x, y: hits(x, y).sum() / (y != PAD).sum(),
        "a hit but not in the total",
    ),
    (
        lesson10.accuracy,
        lambda x, y: ((hits(x, y) & (y != PAD)).sum(1) / (y != PAD).sum(1)).mean(),
        "the mean over sentences",
    ),
    (
        lesson10.accuracy,
        lambda x, y: (hits(x, y) | (y == PAD)).all(1).float().mean(),
        "whole sentences",
    ),
    (
        lesson10.accuracy,
        lambda x, y: 1 - hits(x, y)[y != PAD].float().mean(),
        "the share of errors",
    ),
    (lesson10.accuracy, lambda x, y: hits(x, y)[y != PAD].sum(), "number of hits"),
    (
        lesson10.accuracy,
        lambda x, y: 100 * hits(x, y)[y != PAD].float().mean(),
        "a percentage",
    ),
    (lesson10.accuracy, lambda x, y: hits(x, y), "return one number"),
    (lesson10.accuracy, lambda x, y: "all", "return a number, not a str"),
    (lesson10.accuracy, lambda x, y: 0.123, "yours is 0.123"),
    (
        lesson10.alignment,
        lambda w: [(i, int(w[:, i].argmax())) for i in range(w.size(1))],
        "the largest weight of each column",
    ),
    (
        lesson10.alignment,
        lambda w: [(j, int(row.argmax())) for j, row in enumerate(w)],
        "turned round",
    ),
    (
        lesson10.alignment,
        lambda w: [(i, j) for i in range(4) for j in range(3)],
        "keep one per row",
    ),
    (
        lesson10.alignment,
        lambda w: [(int(row.argmax()), j) for j, row in enumerate(w)],
        "not sorted",
    ),
    (lesson10.alignment, lambda w: w.argmax(-1), "return a list of pairs"),
    (lesson10.alignment, lambda w: 3, "return a list of pairs"),
    (lesson10.alignment, lambda w: [(0, 0), (9, 9)], "one pair for each row"),
]


@pytest.mark.parametrize("check, answer, name", MUTANTS)
def test_every_mistake_is_named(check, answer, name):
    marks, text = verdict(check, answer)
    assert marks == "✗" and name in text, text


@pytest.mark.parametrize("check", SOUND)
def test_an_empty_stub_is_not_a_mistake(check):
    assert verdict(check, lambda *_: None)[0] == "○"


@pytest.mark.parametrize("check", SOUND)
def test_a_check_never_raises(check, capsys):
    def broken(*_):
        raise RuntimeError("on purpose")

    oddities = (object(), [1], torch.tensor(float("nan")), "text", {}, [(None, 1)])
    for answer in (broken, 3, *(lambda *_, odd=odd: odd for odd in oddities)):
        assert check(answer) is None
        plt.close("all")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8 and all(line.startswith("✗") for line in lines)


def test_the_probes_tell_all_mistakes_apart():
    values = list(lesson10._counts(*lesson10._probe()).values())
    for one, other in itertools.combinations(values, 2):
        assert abs(one - other) > 0.01
