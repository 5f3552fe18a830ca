"""The measurement that lesson 03 asks for, and the model that finds a leak."""

import pytest
import torch

from helpers.attention import attention
from helpers.masks import causal_mask
from helpers.probes import future_change
from lessons.lesson03 import exercises
from lessons.lesson03.leak import (
    LENGTH,
    LETTERS,
    Guesser,
    RealBlock,
    after_the_softmax,
    losses_in_writing,
    losses_of,
    renormalised,
)


@pytest.mark.parametrize("length", [1, 2, 6])
def test_the_future_changes_what_sees_it_and_nothing_else(length):
    x = torch.randn(2, length, 3)
    assert future_change(lambda x: x.cumsum(dim=1), x) == 0
    found = future_change(lambda x: x.flip(1).cumsum(dim=1).flip(1), x)
    due = [x[:, k:].sum(dim=1).abs().max().item() for k in range(1, length)]
    assert found == pytest.approx(max(due, default=0), abs=1e-5)


def test_a_change_that_is_no_number_is_seen():
    assert future_change(lambda x: x / (x.size(1) - 2), torch.zeros(1, 4, 1)) != 0


def some_cuts(choose, part=(...,)):
    def answer(layer, x):
        whole, ks = layer(x), choose(x.size(1))
        changes = [(layer(x[:, :k]) - whole[:, :k])[part].abs().max() for k in ks]
        return torch.stack(changes).max()

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        some_cuts(lambda length: (1, length - 1)),
        some_cuts(lambda length: range(1, length, 2)),
        some_cuts(lambda length: range(2, length)),
        some_cuts(lambda length: range(1, length), (..., 0)),
    ],
)
def test_no_other_mistake_is_said_of_what_looks_at_a_part(answer):
    text = exercises.future_change.findings(answer)[0][-1]
    assert text.startswith("✗ the result is ") and " at " not in text, text


@pytest.mark.parametrize(
    ("kind", "attend", "leaks"),
    [
        (Guesser, attention, False),
        (Guesser, renormalised, False),
        (Guesser, after_the_softmax, True),
        (RealBlock, after_the_softmax, True),
    ],
)
def test_only_what_hides_after_the_softmax_leaks(kind, attend, leaks):
    torch.manual_seed(0)
    model = kind(attend, causal_mask)
    sequences = torch.randint(LETTERS, (4, LENGTH + 1))
    assert (future_change(model, sequences[:, :-1]) > 3e-3) == leaks
    change = (losses_in_writing(model, sequences) - losses_of(model, sequences)).abs()
    assert (change[:, :-1].max() > 1e-3) == leaks and change[:, -1].max() < 1e-5
