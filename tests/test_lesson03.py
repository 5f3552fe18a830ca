"""What lesson 03 says of its black boxes, and of the model that finds a leak."""

import pytest
import torch

from helpers.attention import attention
from helpers.masks import causal_mask
from helpers.probes import influence
from lessons.lesson03 import exercises
from lessons.lesson03.leak import (
    LENGTH,
    LETTERS,
    Guesser,
    after_the_softmax,
    losses_in_writing,
    losses_of,
    renormalised,
)

REAL, PAST = torch.arange(5) < 3, causal_mask(5)[0, 0]
REACHES = {
    "A": REAL | PAST,
    "B": REAL & PAST,
    "C": torch.ones(5, 5).bool(),
    "D": ~(REAL & PAST),
}


@pytest.mark.parametrize("letter", REACHES)
def test_a_suspect_does_what_the_answer_says_of_it(letter):
    itself = torch.eye(5).bool()
    found = influence(exercises.SUSPECTS[letter], torch.randn(1, 5, 8)) > 0
    assert torch.equal((found | itself)[:3], (REACHES[letter] | itself)[:3])


@pytest.mark.parametrize(
    ("attend", "leaks"),
    [(attention, False), (renormalised, False), (after_the_softmax, True)],
)
def test_only_the_mask_after_the_softmax_changes_what_is_guessed(attend, leaks):
    torch.manual_seed(0)
    model = Guesser(attend, causal_mask(LENGTH)[0, 0])
    letters = torch.randint(LETTERS, (4, LENGTH))
    before = model(letters)[:, 0]
    letters[:, 1:] = (letters[:, 1:] + 1) % LETTERS
    changed = (model(letters)[:, 0] - before).abs().max()
    assert (changed > 1e-3) == leaks and (changed < 1e-5) != leaks


@pytest.mark.parametrize(
    ("attend", "leaks"), [(attention, False), (after_the_softmax, True)]
)
def test_in_writing_only_a_leak_changes_the_losses_before_the_last(attend, leaks):
    torch.manual_seed(0)
    model = Guesser(attend, causal_mask(LENGTH)[0, 0])
    sequences = torch.randint(LETTERS, (4, LENGTH + 1))
    change = (losses_in_writing(model, sequences) - losses_of(model, sequences)).abs()
    assert (change[:, :-1].max() > 1e-3) == leaks and change[:, -1].max() < 1e-5
