"""Lesson 13's checks: every mistake is caught by name, nothing sound is blamed."""

import math
from collections import Counter
from itertools import pairwise

import pytest
import sacrebleu
import torch
from findings import assert_all_right, assert_answers, assert_wrong

from helpers.checks import lesson13


def mutant(source, name, *changes):
    """The function `name` of the source, with pieces of its text replaced."""
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    space = {"torch": torch, "math": math, "Counter": Counter, "pairwise": pairwise}
    exec(source, space)
    return space[name]


# -------------------------------------------------------------------- 13.1, the merges

CUT = """
def cut(word, merges):
    pieces = list(word)
    for left, right in merges:
        i = 0
        while i < len(pieces) - 1:
            if pieces[i] == left and pieces[i + 1] == right:
                pieces[i : i + 2] = [left + right]
            i += 1
    return pieces
"""


def by_rank(word, merges):
    """Another way: always the pair that was learnt first, as libraries do it."""
    pieces, rank = list(word), {pair: i for i, pair in enumerate(merges)}
    while found := [pair for pair in pairwise(pieces) if pair in rank]:
        pieces = lesson13.join(pieces, min(found, key=rank.get))
    return pieces


def with_join(word, merges):
    pieces = tuple(word)
    for pair in merges:
        pieces = tuple(lesson13.join(list(pieces), pair))
    return pieces


@pytest.mark.parametrize("sound", [mutant(CUT, "cut"), by_rank, with_join])
def test_a_word_cut_well(sound):
    assert_all_right(lesson13.cut_by_merges.findings(sound), 2)


def longest(word, merges):
    known, pieces = {a + b for a, b in merges}, []
    while word:
        size = max([n for n in range(1, len(word) + 1) if word[:n] in known], default=1)
        pieces.append(word[:size])
        word = word[size:]
    return pieces


def replaced(word, merges):
    text = " ".join(word)
    for pair in merges:
        text = text.replace(" ".join(pair), "".join(pair))
    return text.split()


CUT_MUTANTS = {
    "in reverse order": [("in merges", "in merges[::-1]")],
    "only the first merge is applied": [("    return pieces", "        return pieces")],
    "in one place only": [("[left + right]", "[left + right]\n                break")],
    "if *together* they make": [
        (
            "pieces[i] == left and pieces[i + 1] == right",
            "pieces[i] + pieces[i + 1] == left + right",
        )
    ],
    "the merges are returned, joined": [
        ("return pieces", "return [a + b for a, b in merges]")
    ],
    "still in single letters": [("return pieces", "return list(word)")],
}


@pytest.mark.parametrize("part", CUT_MUTANTS)
def test_mistakes_in_cutting_are_named(part):
    wrong = mutant(CUT, "cut", *CUT_MUTANTS[part])
    assert_wrong(lesson13.cut_by_merges.findings(wrong), part)


def test_other_orders_are_named():
    assert_wrong(lesson13.cut_by_merges.findings(longest), "the longest known piece")
    assert_wrong(lesson13.cut_by_merges.findings(replaced), "`replace` also finds")

    def leftmost(word, merges):
        pieces = list(word)
        while found := [i for i, p in enumerate(pairwise(pieces)) if p in merges]:
            pieces[found[0] : found[0] + 2] = ["".join(pieces[found[0] :][:2])]
        return pieces

    assert_wrong(lesson13.cut_by_merges.findings(leftmost), "the leftmost pair")

    def turned(word, merges):
        pieces = list(word)
        for pair in merges:
            for i in reversed(range(len(pieces) - 1)):
                if tuple(pieces[i : i + 2]) == pair:
                    pieces[i : i + 2] = ["".join(pair)]
        return pieces

    assert_wrong(lesson13.cut_by_merges.findings(turned), "joined from the right")


def test_cutting_that_has_no_name_is_described():
    lost = mutant(CUT, "cut", ("list(word)", "list(word.strip('▁'))"))
    assert_wrong(lesson13.cut_by_merges.findings(lost), "“▁Hunde” becomes", "lost")
    text = mutant(CUT, "cut", ("return pieces", "return ' '.join(pieces)"))
    assert_wrong(lesson13.cut_by_merges.findings(text), "in a list", "str")
    long = mutant(CUT, "cut", ("len(pieces) - 1", "len(pieces)"))
    assert_wrong(lesson13.cut_by_merges.findings(long), "IndexError", "(line ")


# -------------------------------------------------------------- 13.2, the scaled step

STEP = """
def step(gradients, scale, streak, patience):
    if not all(g.isfinite().all() for g in gradients):
        return None, scale / 2, 0
    true = [g / scale for g in gradients]
    streak += 1
    if streak == patience:
        scale, streak = 2 * scale, 0
    return true, scale, streak
"""
FINITE = "not all(g.isfinite().all() for g in gradients)"
TRUE = "[g / scale for g in gradients]"
SKIP = "return None, scale / 2, 0"
GROW = "scale, streak = 2 * scale, 0"


def in_place(gradients, scale, streak, patience):
    """As PyTorch's scaler does it: what came in is divided."""
    if sum(int((~g.isfinite()).sum()) for g in gradients):
        return [None, scale * 0.5, 0]
    for g in gradients:
        g.div_(scale)
    grown = streak + 1 >= patience
    return [gradients, scale * 2.0 if grown else scale, 0 if grown else streak + 1]


@pytest.mark.parametrize("sound", [mutant(STEP, "step"), in_place])
def test_a_sound_step(sound):
    assert_all_right(lesson13.loss_scale.findings(sound), 3)


STEP_MUTANTS = {
    "NaN passes": [(FINITE, "any(g.isinf().any() for g in gradients)")],
    "∞ passes": [(FINITE, "any(g.isnan().any() for g in gradients)")],
    "only the first gradient": [(FINITE, "not gradients[0].isfinite().all()")],
    "only the last gradient": [(FINITE, "not gradients[-1].isfinite().all()")],
    "only if *all* numbers": [
        (FINITE, "not any(g.isfinite().any() for g in gradients)")
    ],
    "an overflow goes unnoticed": [(FINITE, "False")],
    "the scale stays": [(SKIP, "return None, scale, 0")],
    "the scale is doubled: it was": [(SKIP, "return None, scale * 2, 0")],
    "the streak goes on: it counts": [(SKIP, "return None, scale / 2, streak")],
    "counts as a good step": [(SKIP, "return None, scale / 2, streak + 1")],
    "the gradients are zeros": [
        (SKIP, "return [g * 0 for g in map(torch.ones_like, gradients)], scale / 2, 0")
    ],
    "bad numbers are replaced": [
        (
            SKIP,
            "return [g.nan_to_num(0, 0, 0) / scale for g in gradients], scale / 2, 0",
        )
    ],
    "still scaled": [(TRUE, "gradients")],
    "scaled up once more": [(TRUE, "[g * scale for g in gradients]")],
    "by the doubled scale": [
        (
            "    return true",
            "    true = [g / scale for g in gradients]\n    return true",
        )
    ],
    "the scale does not grow": [(GROW, "pass")],
    "after every good step": [("if streak == patience", "if True")],
    "the scale would double at every": [(GROW, "scale = 2 * scale")],
    "count this step first": [("streak == patience", "streak > patience")],
    "after good steps the scale is halved": [(GROW, "scale, streak = scale / 2, 0")],
    "a good step is not counted": [
        (
            "streak += 1\n    if streak == patience",
            "if streak + 1 == patience",
        )
    ],
}


@pytest.mark.parametrize("part", STEP_MUTANTS)
def test_mistakes_in_the_step_are_named(part):
    wrong = mutant(STEP, "step", *STEP_MUTANTS[part])
    assert_wrong(lesson13.loss_scale.findings(wrong), part)


def test_two_mistakes_in_the_step():
    wrong = mutant(STEP, "step", (TRUE, "gradients"), (GROW, "pass"))
    found = lesson13.loss_scale.findings(wrong)
    assert_wrong(found, "still scaled", "the scale does not grow")


def test_a_step_that_has_no_name_is_described():
    odd = mutant(STEP, "step", (GROW, "scale, streak = 3 * scale, 0"))
    assert_wrong(lesson13.loss_scale.findings(odd), "the third good step", "3072")
    pair = mutant(STEP, "step", ("return true, scale, streak", "return true, scale"))
    assert_wrong(lesson13.loss_scale.findings(pair), "return three things")


# ---------------------------------------------------------------------- 13.3, chrF

CHRF = """
def chrf(hypothesis, reference):
    said_text, true_text = ("".join(x.split()) for x in (hypothesis, reference))
    precisions, recalls = [], []
    for n in range(1, 7):
        said = Counter(said_text[i : i + n] for i in range(len(said_text) - n + 1))
        true = Counter(true_text[i : i + n] for i in range(len(true_text) - n + 1))
        if not said or not true:
            continue
        found = sum((said & true).values())
        precisions.append(found / sum(said.values()))
        recalls.append(found / sum(true.values()))
    if not sum(precisions):
        return 0.0
    p = sum(precisions) / len(precisions)
    r = sum(recalls) / len(recalls)
    return 100 * (1 + 4) * p * r / (4 * p + r)
"""
LETTERS = '"".join(x.split()) for'
FOUND = "sum((said & true).values())"
ZEROS = "precisions.append(0); recalls.append(0)"
OWN_ZEROS = "precisions.extend([0] * bool(said)); recalls.extend([0] * bool(true))"
SCORE = "100 * (1 + 4) * p * r / (4 * p + r)"


def library(hypothesis, reference):
    return sacrebleu.sentence_chrf(hypothesis, [reference]).score


@pytest.mark.parametrize("sound", [mutant(CHRF, "chrf"), library])
def test_a_sound_chrf(sound):
    assert_all_right(lesson13.letters_score.findings(sound), 2)


@pytest.mark.parametrize("pair", lesson13.SENTENCES)
def test_the_check_s_own_chrf_is_sacrebleu_s(pair):
    assert lesson13.chrf(*pair) == pytest.approx(library(*pair), abs=1e-6)


CHRF_MUTANTS = {
    "spaces are counted": [(LETTERS, "x for")],
    "lower-cased": [(LETTERS, '"".join(x.lower().split()) for')],
    "runs of words": [
        (LETTERS, "x.split() for"),
        ("Counter(said_text[i : i + n] for", "Counter(tuple(said_text[i : i + n]) for"),
        ("Counter(true_text[i : i + n] for", "Counter(tuple(true_text[i : i + n]) for"),
    ],
    "runs of six letters are left out": [("range(1, 7)", "range(1, 6)")],
    "not to 4 as in BLEU": [("range(1, 7)", "range(1, 5)")],
    "only runs of six letters count": [("range(1, 7)", "[6]")],
    "only single letters count": [("range(1, 7)", "[1]")],
    "a run counts as often as it is said": [
        (FOUND, "sum(times for run, times in said.items() if run in true)")
    ],
    "each kind of run counts once": [(FOUND, "len(set(said) & set(true))")],
    "the last run is left out": [
        ("range(len(said_text) - n + 1)", "range(len(said_text) - n)"),
        ("range(len(true_text) - n + 1)", "range(len(true_text) - n)"),
    ],
    "counted once: use a Counter": [
        ("Counter(said_text[i", "Counter(set(said_text[i"),
        ("range(len(said_text) - n + 1))", "range(len(said_text) - n + 1)))"),
        ("Counter(true_text[i", "Counter(set(true_text[i"),
        ("range(len(true_text) - n + 1))", "range(len(true_text) - n + 1)))"),
    ],
    "too long for one of the texts counts as 0": [
        ("            continue", f"            {ZEROS}; continue")
    ],
    "left out for that text only": [
        ("            continue", f"            {OWN_ZEROS}; continue"),
        ("if not sum(precisions)", "if not sum(precisions) or not recalls"),
    ],
    "precision counts double": [(SCORE, "100 * 5 * p * r / (p + 4 * r)")],
    "weigh the same": [(SCORE, "100 * 2 * p * r / (p + r)")],
    "β is not squared": [(SCORE, "100 * 3 * p * r / (2 * p + r)")],
    "the precision alone": [(SCORE, "100 * p")],
    "the recall alone": [(SCORE, "100 * r")],
    "the plain mean": [(SCORE, "50 * (p + r)")],
    "from 0 to 1": [(SCORE, "5 * p * r / (4 * p + r)")],
}


@pytest.mark.parametrize("part", CHRF_MUTANTS)
def test_mistakes_in_chrf_are_named(part):
    wrong = mutant(CHRF, "chrf", *CHRF_MUTANTS[part])
    assert_wrong(lesson13.letters_score.findings(wrong), part)


def test_an_f_score_for_each_length_is_named():
    scores = "scores.append(5 * p * r / (4 * p + r) if p else 0)"
    wrong = mutant(
        CHRF,
        "chrf",
        ("precisions, recalls = [], []", "scores, precisions = [], []"),
        ("precisions.append(found / sum(said.values()))", "p = found / said.total()"),
        (
            "recalls.append(found / sum(true.values()))",
            f"r = found / true.total()\n        precisions.append(p)\n        {scores}",
        ),
        ("p = sum(precisions) / len(precisions)", "pass"),
        ("r = sum(recalls) / len(recalls)", "pass"),
        (SCORE, "100 * sum(scores) / len(scores)"),
    )
    assert_wrong(
        lesson13.letters_score.findings(wrong), "for each n, and then the mean"
    )


def test_two_mistakes_in_chrf():
    wrong = mutant(
        CHRF, "chrf", (LETTERS, "x for"), (SCORE, "100 * 2 * p * r / (p + r)")
    )
    found = lesson13.letters_score.findings(wrong)
    assert_wrong(found, "spaces are counted", "weigh the same")


def test_a_chrf_that_has_no_name_is_described():
    short = mutant(CHRF, "chrf", ("if not said or not true", "if False"))
    assert_wrong(lesson13.letters_score.findings(short), "ZeroDivisionError", "(line ")
    odd = mutant(CHRF, "chrf", (SCORE, "77.0"))
    assert_wrong(lesson13.letters_score.findings(odd), "A dog runs", "77.00, expected")
    both = mutant(CHRF, "chrf", (SCORE, "(p, r)"))
    assert_wrong(lesson13.letters_score.findings(both), "return one number")


# ------------------------------------------------------------------- none too strange

STRANGE = {
    "nothing": lambda *x: None,
    "a string": lambda *x: "text",
    "a number": 3,
    "zero": lambda *x: 0,
    "True": lambda *x: True,
    "nan": lambda *x: math.nan,
    "what came in": lambda *x: x[0],
    "everything that came in": lambda *x: x,
    "an empty tuple": lambda *x: (),
    "three of nothing": lambda *x: (None, None, None),
    "three texts": lambda *x: ("a", "b", "c"),
    "gradients of another shape": lambda *x: ([torch.ones(3)], 1.0, 0),
    "gradients in a tensor": lambda *x: (torch.ones(3, 2), 1.0, 0),
    "tensors": lambda *x: torch.ones(3),
    "numbers for pieces": lambda *x: [1, 2],
    "no argument": lambda: 1,
    "division": lambda *x: 1 / 0,
    "a class": dict,
    "not written": lambda *x: (_ for _ in ()).throw(NotImplementedError),
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize(
    "check",
    [lesson13.cut_by_merges, lesson13.loss_scale, lesson13.letters_score],
    ids=lambda check: check.__name__,
)
def test_no_answer_is_too_strange(check, name, capsys):
    assert check(STRANGE[name]) is None
    assert_answers(capsys)


@pytest.mark.parametrize(
    "check", [lesson13.cut_by_merges, lesson13.loss_scale, lesson13.letters_score]
)
def test_not_attempted(check):
    assert [finding.mark for finding in check.findings(lambda *x: None)] == ["○"]
