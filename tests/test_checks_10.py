"""Lesson 10's checks: right answers pass, and every mistake is called by its name."""

from collections import Counter

import matplotlib.pyplot as plt
import pytest
import torch

from helpers import PAD
from helpers.checks import lesson10
from helpers.evaluation import exact_match


def verdict(check, answer):
    """All marks and all texts of a check's findings."""
    findings = check.findings(answer)
    return "".join(f.mark for f in findings), " ".join(f.text for f in findings)


def shares(hypotheses, references, groups):
    """{name: (exact match with it, without it)}, where there are both."""
    hits = [h == r for h, r in zip(hypotheses, references, strict=True)]
    found = {}
    for name in set().union(*groups):
        having = [hit for hit, row in zip(hits, groups, strict=True) if name in row]
        lacking = [
            hit for hit, row in zip(hits, groups, strict=True) if name not in row
        ]
        if lacking:
            found[name] = sum(having) / len(having), sum(lacking) / len(lacking)
    return found


def largest(hypotheses, references, groups, key):
    """The name with the largest key(with it, without it)."""
    found = shares(hypotheses, references, groups)
    return max(found, key=lambda name: key(*found[name]))


def with_exact_match(hypotheses, references, groups, *, careful=True):
    """The same by the course's own exact_match, which refuses empty lists."""
    gaps = {}
    for name in sorted(set().union(*groups)):
        inside = [i for i, row in enumerate(groups) if name in row]
        outside = [i for i, row in enumerate(groups) if name not in row]
        if careful and not outside:
            continue
        with_it, without = (
            exact_match([hypotheses[i] for i in part], [references[i] for i in part])
            for part in (inside, outside)
        )
        gaps[name] = without - with_it
    return max(gaps, key=gaps.get)


def most_wrong(hypotheses, references, groups):
    """The name in the largest number of wrong sentences."""
    pairs = zip(hypotheses, references, groups, strict=True)
    return Counter(n for h, r, row in pairs if h != r for n in sorted(row)).most_common(
        1
    )[0][0]


SOUND = {
    lesson10.broken_phenomenon: [
        lambda h, r, g: largest(h, r, g, lambda with_it, without: without - with_it),
        with_exact_match,
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
    (
        lesson10.broken_phenomenon,
        lambda h, r, g: largest(h, r, g, lambda with_it, _: -with_it),
        "not 'contraction': it has the lowest exact match",
    ),
    (
        lesson10.broken_phenomenon,
        lambda h, r, g: largest(h, r, g, lambda with_it, without: with_it - without),
        "not 'question': its sentences do better",
    ),
    (
        lesson10.broken_phenomenon,
        lambda h, r, g: largest(h, r, g, lambda with_it, _: with_it),
        "do better than the others",
    ),
    (
        lesson10.broken_phenomenon,
        lambda h, r, g: largest(h, r, g, lambda _, without: without),
        "not 'possessive'",
    ),
    (lesson10.broken_phenomenon, most_wrong, "the largest number of wrong sentences"),
    (lesson10.broken_phenomenon, lambda h, r, g: "antecedent", "none of the phenomena"),
    (
        lesson10.broken_phenomenon,
        lambda h, r, g: max(shares(h, r, g).values()),
        "one phenomenon, not a tuple",
    ),
    (lesson10.broken_phenomenon, shares, "one phenomenon, not a dict"),
    (
        lesson10.broken_phenomenon,
        lambda h, r, g: 1 / sum("antecedent" in row for row in g),
        "leave it out (your code stopped with ZeroDivisionError",
    ),
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
        lambda w: [(i, j) for j, i in (w > 0.3).nonzero().tolist()],
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


SECOND_MISTAKES = [  # right at first, wrong where every sentence shows something
    (
        lambda h, r, g: with_exact_match(h, r, g, careful=False),
        "leave such a phenomenon out (your code stopped with ValueError",
    ),
    (lambda *_: "pronoun", "not 'pronoun'"),
    (
        lambda h, r, g: (
            most_wrong(h, r, g) if any("agreement" in row for row in g) else "pronoun"
        ),
        "not 'agreement': it stands in the largest number",
    ),
]


@pytest.mark.parametrize("answer, name", SECOND_MISTAKES)
def test_a_fault_that_only_the_second_case_shows_is_named(answer, name):
    marks, text = verdict(lesson10.broken_phenomenon, answer)
    assert marks == "✓✗" and name in text, text


def test_the_picture_of_the_planted_outputs_is_drawn(monkeypatch):
    labels = []
    monkeypatch.setattr(
        plt,
        "show",
        lambda: labels.extend(x.get_text() for x in plt.gca().get_xticklabels()),
    )
    (finding,) = lesson10.broken_phenomenon.findings(lambda *_: "contraction")
    finding.draw()
    assert labels == sorted({*lesson10.RENAMED})
    plt.close("all")


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
