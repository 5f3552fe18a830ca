"""What the engine promises: any style is read, nothing raises, nothing else changes."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from torch import nn

from helpers.attention import attention
from lessons.checking import pictures
from lessons.checking.comparing import plain, same
from lessons.checking.engine import Exercise, Part, patched
from lessons.checking.findings import print_findings, wrong
from lessons.checking.running import NOTHING, run, stopped

# ------------------------------------------------------------------ comparing

TWO = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    "style",
    [
        [[1, 2], [3, 4]],
        ((1.0, 2), range(3, 5)),
        [np.array([1, 2]), np.array([3.0, 4.0])],
        [[torch.tensor(1.0), 2.0], [3, torch.tensor(4)]],
        [*TWO.half()],
        TWO.numpy().astype("float16"),
        TWO.to_sparse(),
        TWO.clone().requires_grad_(),
        TWO + 1e-7,
    ],
)
def test_numbers_in_any_style_are_the_same(style):
    assert same(plain(style), plain(TWO))


@pytest.mark.parametrize(
    ("yours", "due"),
    [
        (TWO + 0.01, TWO),
        (TWO[:1], TWO),
        (TWO > 0, torch.ones(2, 2)),
        ([1, 0], [True, False]),
        (1_050_623, 1_050_624),
        ([[1, 2], [3]], TWO),
        ("1", 1),
        (None, 0),
        ({"a": 1}, {"a": 2}),
        (1j, 1.0),
    ],
)
def test_what_differs_is_not_the_same(yours, due):
    assert not same(plain(yours), plain(due))


def test_other_kinds_of_answers_are_compared_as_they_are():
    assert same(plain({"a": [1, 2]}), plain({"a": (1.0, 2.0)}))
    assert same(plain(["un", "##der"]), plain(("un", "##der")))
    assert not same(plain("Under"), plain("under"))
    assert same(plain(float("nan")), plain(np.float32("nan")))
    assert same(plain([]), plain(())) and same(plain(10**400), plain(float("inf")))


# ------------------------------------------------------------------ running


def test_what_stops_the_code_is_told_with_the_learners_own_line():
    def broken():
        return attention(*[torch.ones(2, 3)] * 3, torch.ones(2, 2))

    def mute():
        raise type("Mute", (Exception,), {"__str__": lambda self: 1 / 0})

    def recursion():
        return recursion()

    assert "`return attention(*[torch.ones(2, 3)] * 3" in stopped(run(broken, ()).error)
    assert "Mute" in stopped(run(mute, ()).error)
    for leave in (lambda: exit(), recursion, lambda x: x):
        assert stopped(run(leave, ()).error).startswith("your code stopped with")


def test_interrupting_is_left_to_the_learner():
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(interrupted, ())


def test_what_was_not_attempted_and_what_returns_nothing():
    def later():
        raise NotImplementedError

    def forgets():
        torch.ones(1) + 1

    def not_on_floats():
        return torch.tensor(True) & torch.tensor(1.0)

    assert run(later, ()).finding.mark == run(lambda: None, ()).finding.mark == "○"
    assert run(forgets, ()).finding == wrong(NOTHING)
    assert run(torch.ones(2), ()).finding.text.endswith("what it gives (a Tensor)")
    assert "not implemented for 'Float'" in stopped(run(not_on_floats, ()).error)


@pytest.mark.parametrize(
    "change",
    [
        lambda x, module, rows: x.mul_(2),
        lambda x, module, rows: x.resize_(1),
        lambda x, module, rows: module.eval(),
        lambda x, module, rows: nn.init.zeros_(module.weight),
        lambda x, module, rows: rows.append(1) or rows,
    ],
)
def test_changing_an_input_is_found_and_harmless(change):
    x, module, rows = torch.ones(3), nn.Linear(2, 2), [1]
    before = plain(module.state_dict())
    assert "changes its inputs" in run(change, (x, module, rows)).finding.text
    assert x.tolist() == [1, 1, 1] and rows == [1] and module.training
    assert same(plain(module.state_dict()), before)


def test_what_is_no_tensor_may_be_an_input():
    config = SimpleNamespace(sizes=[1, 2])
    assert run(lambda given: len(given.sizes), (config,)).output == 2
    assert run(lambda given: given.sizes.pop(), (config,)).finding.mark == "✗"
    assert run(lambda function: function(3), (abs,)).output == 3


# ------------------------------------------------------------------ the engine


def test_patches_are_made_at_once_or_exclude_each_other():
    assert patched("a b c", [{"a": "b", "b": "c"}, {"c": ""}]) == "b c "
    assert patched("a b c", [{"a b": "x"}, {"b c": "y"}]) is None
    with pytest.raises(ValueError, match="'b' stands 2 times"):
        patched("b b", [{"b": "x"}])


def test_a_table_that_breaks_does_not_break_the_lesson(capsys):
    part = Part("f", {}, lambda seed: [(1,), (2,)], measure=lambda *x: 1 / 0)
    exercise = Exercise("def f(x):\n    return x\n", part)
    exercise(lambda x: x + 1)
    exercise()
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("✗ this check cannot read your answer: ZeroDivisionError")
    assert second == "✗ hand over `f`"


def test_a_picture_is_drawn_below_its_finding(capsys):
    print_findings([wrong("text", lambda: print("picture"))])
    assert capsys.readouterr().out == "✗ text\npicture\n"


def test_weights_beside_draws_both_to_one_scale(monkeypatch):
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
    yours, due = torch.rand(3, 4), torch.eye(3, 4)
    pictures.weights_beside(yours, due)
    left, right = shown[0].axes
    assert (left.get_title("left"), right.get_title("left")) == ("yours", "expected")
    assert torch.equal(torch.tensor(left.collections[0].get_array().data), yours)
    assert torch.equal(torch.tensor(right.collections[0].get_array().data), due)
    assert left.collections[0].get_clim() == right.collections[0].get_clim() == (0, 1)
    plt.close(shown[0])
