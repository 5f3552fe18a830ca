"""Does training find what a mask lets through, with every seed and at every rate?

Lesson 03's model guesses the next of random letters. Nobody who reads only the past
does better than chance, a loss of ln 16; any lower loss comes from a leak. And what
becomes of it when the model writes, with no later letter to read?
"""

from collections.abc import Iterator

import torch

from helpers.attention import attention
from helpers.masks import causal_mask
from lessons.lesson03.leak import (
    LENGTH,
    LETTERS,
    after_the_softmax,
    losses_in_writing,
    losses_of,
    renormalised,
    train_guesser,
)

PAST = causal_mask(LENGTH)[0, 0]
AHEAD = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(1)
MASKS = {
    "right": (attention, PAST),
    "one token too far": (attention, AHEAD),
    "after the softmax": (after_the_softmax, PAST),
    "after it, renormalised": (renormalised, PAST),
}
RATES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
SEEDS = range(5)
STEPS = 1200


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each mask, rate and seed; `tiny` takes 12 steps at one rate."""
    for mask in MASKS:
        for rate in RATES[:1] if tiny else RATES:
            for seed in SEEDS[:1] if tiny else SEEDS:
                where = {"mask": mask, "rate": rate, "seed": seed}
                yield where | learn(**where, steps=12 if tiny else STEPS)


@torch.no_grad()
def learn(mask: str, rate: float, seed: int, steps: int) -> dict:
    """Train a model, then test it on 5,000 new sequences.

    `at_600` is the mean training loss of the ten steps before step 600, `loss` of the
    last ten; `seen` is the loss on new sequences at the places whose next letter is in
    the input, `last` at the one place where it is not; `guessed` is the share of right
    guesses at the former. `writing` is the mean loss at the same places as `seen`, if
    the input ends there, and `least` the lowest of these places' means.
    """
    with torch.enable_grad():
        model, losses = train_guesser(*MASKS[mask], steps=steps, rate=rate, seed=seed)
    generator = torch.Generator().manual_seed(99)
    fresh = torch.randint(LETTERS, (5000, LENGTH + 1), generator=generator)
    at = losses_of(model, fresh).mean(dim=0)
    cut = losses_in_writing(model, fresh).mean(dim=0)[:-1]
    right = model(fresh[:, :-1]).argmax(dim=-1) == fresh[:, 1:]
    found = {
        "at_600": losses[590:600].mean(),
        "loss": losses[-10:].mean(),
        "seen": at[:-1].mean(),
        "last": at[-1],
        "guessed": right[:, :-1].float().mean(),
        "writing": cut.mean(),
        "least": cut.min(),
    }
    return {name: round(number.item(), 4) for name, number in found.items()}
