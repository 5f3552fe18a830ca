"""Lesson 05's checks: every mistake is caught by name, nothing sound is blamed."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from findings import assert_all_right, assert_answers, assert_wrong
from torch import nn
from torch.nn import functional as F

from helpers.checks import lesson05


def mutant(source, name, *changes):
    """The function `name` of the source, with pieces of its text replaced."""
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    space = {"torch": torch, "F": F, "np": np, "nn": nn}
    exec(source, space)
    return space[name]


# ------------------------------------------------------------------ 05.1, layer norm


def by_hand(x, gain, bias):
    mean = x.mean(dim=-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    return gain * (x - mean) / torch.sqrt(variance + 1e-5) + bias


def with_pytorchs_own(x, gain, bias):
    return F.layer_norm(x, gain.shape, gain, bias, 1e-5)


def with_var(x, gain, bias):
    variance = x.var(-1, unbiased=False, keepdim=True)
    return (x - x.mean(-1, keepdim=True)) * torch.rsqrt(variance + 1e-5) * gain + bias


def with_unsqueeze(x, gain, bias):
    mean, variance = x.mean(-1)[..., None], x.var(-1, correction=0).unsqueeze(-1)
    return (x - mean) / (variance + 1e-5) ** 0.5 * gain + bias


def with_second_moment(x, gain, bias):
    x = x.double()
    mean = x.mean(-1, keepdim=True)
    variance = (x * x).mean(-1, keepdim=True) - mean**2
    return gain * (x - mean) / (variance.clamp(min=0) + 1e-5).sqrt() + bias


def position_by_position(x, gain, bias):
    rows = [[with_pytorchs_own(row, gain, bias) for row in rows] for rows in x]
    return torch.stack([torch.stack(row) for row in rows])


SOUND = [
    by_hand,
    with_pytorchs_own,
    with_var,
    with_unsqueeze,
    with_second_moment,
    position_by_position,
]


@pytest.mark.parametrize("sound", SOUND)
def test_nothing_sound_is_blamed(sound, seed):
    assert_all_right(lesson05.layer_norm.findings(sound, seed=seed), 4)


# As learners write it, apart from the wrong versions that the check compares with.
NORM = """
def norm(x, gain, bias):
    mean = x.mean(dim=-1, keepdim=True)
    centred = x - mean
    variance = centred.pow(2).mean(dim=-1, keepdim=True)
    normal = centred / (variance + 1e-5).sqrt()
    return gain * normal + bias
"""
VARIANCE = "centred.pow(2).mean(dim=-1, keepdim=True)"
ROOT = "(variance + 1e-5).sqrt()"
RETURN = "return gain * normal + bias"


def over(axes):
    return [
        ("x.mean(dim=-1,", f"x.mean(dim={axes},"),
        ("pow(2).mean(dim=-1,", f"pow(2).mean(dim={axes},"),
    ]


NORM_MUTANTS = {
    "mean and variance are taken over the positions:": over(1),
    "taken over the sentences:": over(0),
    "the positions and features together": over((1, 2)),
    "as in batch normalisation": over((0, 1)),
    "the whole batch": over((0, 1, 2)),
    "the mean is not subtracted": [
        (VARIANCE, "x.var(-1, correction=0, keepdim=True)"),
        ("centred = x - mean", "centred = x"),
    ],
    "the variance is the unbiased one": [(VARIANCE, "x.var(-1, keepdim=True)")],
    "the squares are those of x": [(VARIANCE, "x.pow(2).mean(-1, keepdim=True)")],
    "divides by the variance instead of its root": [(ROOT, "(variance + 1e-5)")],
    "nothing divides by the standard deviation": [(f" / {ROOT}", "")],
    "divides by the length of the vector": [
        (VARIANCE, "centred.pow(2).sum(dim=-1, keepdim=True)")
    ],
    "the mean of the absolute deviations": [
        (ROOT, "centred.abs().mean(-1, keepdim=True)")
    ],
    "gain and bias are forgotten": [(RETURN, "return normal")],
    "the bias is forgotten": [(RETURN, "return gain * normal")],
    "the gain is forgotten": [(RETURN, "return normal + bias")],
    "gain and bias are swapped": [(RETURN, "return bias * normal + gain")],
    "the bias is added before the gain": [(RETURN, "return gain * (normal + bias)")],
}
EPS_MUTANTS = {
    "eps stands outside the root": [(ROOT, "(variance.sqrt() + 1e-5)")],
    "eps is missing": [(ROOT, "variance.sqrt()")],
    "eps is 1e-06, not 1e-5": [("1e-5", "1e-6")],
    "eps is 0.001, not 1e-5": [("1e-5", "1e-3")],
}


@pytest.mark.parametrize("name", NORM_MUTANTS)
def test_mistakes_in_the_norm_are_named(name, seed):
    wrong = mutant(NORM, "norm", *NORM_MUTANTS[name])
    found = lesson05.layer_norm.findings(wrong, seed=seed)
    assert_wrong(found, name)
    assert len(found) == 1


@pytest.mark.parametrize("name", EPS_MUTANTS)
def test_mistakes_with_eps_are_named(name, seed):
    wrong = mutant(NORM, "norm", *EPS_MUTANTS[name])
    assert_wrong(lesson05.layer_norm.findings(wrong, seed=seed), name)


def test_the_annotated_transformers_version_is_known():
    both = [(VARIANCE, "x.std(-1, keepdim=True)"), (ROOT, "(variance + 1e-6)")]
    found = lesson05.layer_norm.findings(mutant(NORM, "norm", *both))
    assert_wrong(found, "the variance is the unbiased one")
    repaired = [(VARIANCE, "x.std(-1, correction=0, keepdim=True)"), both[1]]
    found = lesson05.layer_norm.findings(mutant(NORM, "norm", *repaired))
    assert_wrong(found, "nearly agree", "outside the root")


def test_two_mistakes_at_once():
    two = [(VARIANCE, "x.var(-1, keepdim=True)"), (RETURN, "return gain * normal")]
    found = lesson05.layer_norm.findings(mutant(NORM, "norm", *two))
    assert_wrong(found, "the unbiased one", "the bias is forgotten")


def test_without_any_mean_two_mistakes_are_named():
    raw = [("centred = x - mean", "centred = x")]  # the squares are then x's, too
    found = lesson05.layer_norm.findings(mutant(NORM, "norm", *raw))
    assert_wrong(found, "the mean is not subtracted", "the squares are those of x")


@pytest.mark.parametrize("lost", ["x.mean(dim=-1, keepdim=True)", VARIANCE])
def test_a_lost_axis_is_named_with_the_error(lost):
    changes = [(lost, lost.replace(", keepdim=True", ""))]
    found = lesson05.layer_norm.findings(mutant(NORM, "norm", *changes))
    assert_wrong(found, "keepdim=True", "RuntimeError", "(line ")


def test_a_nan_gradient_is_named():
    # Right numbers everywhere, and yet no gradient where all features agree.
    root = "torch.where(variance > 0, (variance + 1e-5).sqrt(), variance.sqrt() + 1)"
    found = lesson05.layer_norm.findings(mutant(NORM, "norm", (ROOT, root)))
    assert_wrong(found, "the gradient is NaN")
    assert len(found) == 4


def test_a_lost_gradient_is_named():
    wrong = mutant(NORM, "norm", ("x - mean", "x.detach() - mean.detach()"))
    assert_wrong(lesson05.layer_norm.findings(wrong), "no gradient reaches x")


def test_what_is_wrong_without_a_name_is_described():
    def of(*change):
        return lesson05.layer_norm.findings(mutant(NORM, "norm", change))

    assert_wrong(of(RETURN, "return gain * (normal + 2) + bias"), "mean 2.00")
    assert_wrong(of(RETURN, "return gain * 3 * normal + bias"), "variance 9.00")
    assert_wrong(of("1e-5", "1e-10"), "nearly agree", "variance 1.00; expected is mean")
    twice = f"({ROOT} + 1e-5)"
    assert_wrong(of(ROOT, twice), "nearly agree", "not those of `F.layer_norm`")
    assert_wrong(of(RETURN, "return normal / 0"), "NaN or infinity")
    assert_wrong(of(RETURN, "return normal.mT"), "the shape is (2, 5, 3)")
    assert_wrong(of(RETURN, "return (normal, gain)"), "not a tuple")
    assert_wrong(of("x - mean", "x.sub_(mean)"), "in place")
    fives = (
        "(dim=-1, keepdim=True)\n    c",
        "(dim=-1, keepdim=True)\n    5 / 0\n    c",
    )
    assert_wrong(of(*fives), "ZeroDivisionError")


def test_numpy_is_named_where_the_gradient_is_asked_for():
    wrong = mutant(NORM, "norm", ("x.mean(", "torch.tensor(x.numpy()).mean("))
    assert_wrong(lesson05.layer_norm.findings(wrong), "Can't call numpy()", "(line ")


# ------------------------------------------------------ 05.2, residual connections


def sound_last(x, sublayer, norm, dropout):
    return norm(x + dropout(sublayer(x)))


def sound_first(x, sublayer, norm, dropout):
    return x + dropout(sublayer(norm(x)))


def test_sound_residuals_are_not_blamed(seed):
    assert_all_right(lesson05.residuals.findings(sound_last, sound_first, seed=seed), 4)


LAST_MUTANTS = {
    "the skip is missing": "norm(dropout(sublayer(x)))",
    "the sublayer's output is added to itself": (
        "norm(sublayer(x) + dropout(sublayer(x)))"
    ),
    "dropout is forgotten": "norm(x + sublayer(x))",
    "nothing is normalised after the sum": "x + dropout(sublayer(x))",
    "the sublayer reads the normalised input": "norm(x + dropout(sublayer(norm(x))))",
    "the skip carries the normalised input": "norm(norm(x) + dropout(sublayer(x)))",
    "dropout is applied to the sum": "norm(dropout(x + sublayer(x)))",
    "dropout comes after the norm": "dropout(norm(x + sublayer(x)))",
    "dropout is applied to the sublayer's input": "norm(x + sublayer(dropout(x)))",
    "the sublayer is missing": "norm(x)",
    "x is returned unchanged": "x",
    "the two are multiplied": "x * dropout(sublayer(x))",
    "output alone: what is normalised": "x + norm(dropout(sublayer(x)))",
    "the norm is applied to the sublayer's output": "x + dropout(norm(sublayer(x)))",
    "is not `norm(x + dropout(sublayer(x)))`": "norm(x - dropout(sublayer(x)))",
}
FIRST_MUTANTS = {
    "the skip is missing": "dropout(sublayer(norm(x)))",
    "the sublayer's output is added to itself": (
        "sublayer(norm(x)) + dropout(sublayer(norm(x)))"
    ),
    "dropout is forgotten": "x + sublayer(norm(x))",
    "the skip carries the normalised input": "norm(x) + dropout(sublayer(norm(x)))",
    "the sublayer reads x without the norm": "x + dropout(sublayer(x))",
    "the sum is normalised": "norm(x + dropout(sublayer(norm(x))))",
    "dropout is applied to the sum": "dropout(x + sublayer(norm(x)))",
    "dropout is applied to the sublayer's input": "x + sublayer(dropout(norm(x)))",
    "the norm is applied to the sublayer's output": (
        "x + norm(dropout(sublayer(norm(x))))"
    ),
    "is not `x + dropout(sublayer(norm(x)))`": "x - dropout(sublayer(norm(x)))",
}


def residual_mutant(expression):
    source = f"def f(x, sublayer, norm, dropout):\n    return {expression}\n"
    return mutant(source, "f")


@pytest.mark.parametrize("name", LAST_MUTANTS)
def test_mistakes_in_norm_last_are_named(name, seed):
    wrong = residual_mutant(LAST_MUTANTS[name])
    found = lesson05.residuals.findings(wrong, sound_first, seed=seed)
    assert [finding.mark for finding in found] == ["✗", "✓", "✓"], found
    assert found[0].text.startswith("norm last: ") and name in found[0].text


@pytest.mark.parametrize("name", FIRST_MUTANTS)
def test_mistakes_in_norm_first_are_named(name, seed):
    wrong = residual_mutant(FIRST_MUTANTS[name])
    found = lesson05.residuals.findings(sound_last, wrong, seed=seed)
    assert [finding.mark for finding in found] == ["✓", "✓", "✗"], found
    assert found[2].text.startswith("norm first: ") and name in found[2].text


def test_norm_first_for_norm_last_and_the_reverse():
    found = lesson05.residuals.findings(sound_first, sound_last)
    assert "nothing is normalised after the sum" in found[0].text
    assert "the sublayer reads the normalised input" in found[0].text
    assert "the sum is normalised" in found[1].text
    assert "the sublayer reads x without the norm" in found[1].text


def test_one_residual_may_be_left_for_later():
    found = lesson05.residuals.findings(sound_last, lambda *x: None)
    assert [finding.mark for finding in found] == ["✓", "✓", "○"]
    assert found[2].text == "norm first: not attempted yet: the function returns None"


# ------------------------------------------------------------------- 05.3, three stacks

RIGHT = {"a": "vanishes", "b": "stays", "c": "explodes"}


def test_the_right_fates_are_those_measured(seed):
    for name, (wiring, due, _) in lesson05.WIRINGS.items():
        norms = lesson05.gradient_norms(wiring, seed=seed)
        ratio = norms[0] / norms[-1]
        fate = "stays" if 1 / 30 < ratio < 30 else "vanishes"
        assert due == ("explodes" if ratio > 30 else fate), (name, ratio)


def test_right_predictions_are_right_and_drawn(monkeypatch):
    lines = []
    monkeypatch.setattr(plt, "show", lambda: lines.extend(plt.gca().lines))
    found = lesson05.stacks.findings(**RIGHT)
    assert_all_right(found, 3)
    found[-1].draw()
    plt.close("all")
    assert len(lines) == 3


def test_case_and_spaces_do_not_matter():
    found = lesson05.stacks.findings(a=" Vanishes ", b="STAYS", c="explodes")
    assert_all_right(found, 3)


@pytest.mark.parametrize(
    ("name", "answer", "part"),
    [
        ("a", "stays", "what is left of it?"),
        ("a", "explodes", "what is left of it?"),
        ("b", "vanishes", "Compare norm last"),
        ("b", "explodes", "Compare norm last"),
        ("c", "stays", "what does it become?"),
        ("c", "vanishes", "what does it become?"),
        ("b", "trains", "answer with one of vanishes, stays, explodes"),
        ("c", 3, "answer with one of"),
        ("a", ["vanishes"], "answer with one of"),
        ("a", torch.ones(2), "answer with one of"),
    ],
)
def test_wrong_predictions_get_a_hint_and_not_the_answer(name, answer, part):
    found = lesson05.stacks.findings(**{name: answer})
    (wrong,) = [finding for finding in found if finding.mark == "✗"]
    assert part in wrong.text and wrong.draw is None
    assert [finding.mark for finding in found].count("○") == 2


def test_nothing_is_measured_before_an_answer():
    found = lesson05.stacks.findings(a=None, b=..., c=None)
    assert [finding.mark for finding in found] == ["○"] * 3


def test_measuring_leaves_the_callers_random_numbers_alone():
    before = torch.get_rng_state()
    lesson05.gradient_norms(lesson05.WIRINGS["b"][0], n_layers=2)
    assert torch.equal(torch.get_rng_state(), before)


# ----------------------------------------------------------------- whatever comes in

STRANGE = {
    "nothing": lambda *x: None,
    "an ellipsis": lambda *x: ...,
    "a number": lambda *x: 3,
    "a string": lambda *x: "x",
    "a list": lambda *x: [1, 2],
    "a module": lambda *x: nn.Linear(2, 2),
    "too few arguments": lambda x: x,
    "an exit": lambda *x: exit(),
    "not a function": 5,
    "no function": None,
    "NaN": lambda x, *rest: x * float("nan"),
    "another shape": lambda x, *rest: x[0],
    "no axes": lambda x, *rest: x.sum(),
    "numpy": lambda x, *rest: x.numpy(),
    "unchanged": lambda x, *rest: x,
}


@pytest.mark.parametrize("name", STRANGE)
def test_whatever_comes_in_the_checks_never_raise(name, capsys):
    for check, count in ((lesson05.layer_norm, 1), (lesson05.residuals, 2)):
        found = check.findings(*[STRANGE[name]] * count)
        assert "✓" not in {finding.mark for finding in found}
        assert "cannot read your answer" not in str(found)
        assert check(*[STRANGE[name]] * count) is None
        assert_answers(capsys)
