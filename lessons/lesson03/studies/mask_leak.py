"""Does training find what a mask lets through, in a real block, too?

Lesson 03's model guesses the next of random letters, new ones in each step. From the
past alone, a loss below ln 16 is impossible; any lower loss comes from a leak. One more
model that hides after the softmax has the residual and the layer norm of a real block.
And what is the loss where no later letter exists?
"""

from collections.abc import Iterator

import torch

from helpers.attention import attention
from helpers.masks import causal_mask
from lessons.lesson03.leak import (
    LENGTH,
    LETTERS,
    Guesser,
    RealBlock,
    after_the_softmax,
    losses_in_writing,
    renormalised,
    train,
)


def too_far(length: int) -> torch.Tensor:
    """A causal mask that also shows the next letter."""
    return torch.ones(1, 1, length, length, dtype=torch.bool).tril(1)


MODELS = {
    "right": (Guesser, attention, causal_mask),
    "one token too far": (Guesser, attention, too_far),
    "after the softmax": (Guesser, after_the_softmax, causal_mask),
    "after it, renormalised": (Guesser, renormalised, causal_mask),
    "after it, norm(x + context)": (RealBlock, after_the_softmax, causal_mask),
    "right, norm(x + context)": (RealBlock, attention, causal_mask),
}
RATES = (0.003, 0.01)
SEEDS = range(3)
STEPS, LONG = 1200, 4800


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each model, rate and seed, then for the mask after the softmax, long.

    `tiny` takes 60 steps at one rate, of one seed.
    """
    for name in MODELS:
        for rate in RATES[:1] if tiny else RATES:
            for seed in SEEDS[:1] if tiny else SEEDS:
                yield learn(name, rate, seed, 60 if tiny else STEPS)
    for seed in () if tiny else SEEDS:
        yield learn("after the softmax", 0.003, seed, LONG)


def learn(name: str, rate: float, seed: int, steps: int) -> dict:
    """Train a model; then its loss on 5,000 rows, cut after each of positions 1 to 7.

    `loss` is the mean training loss of the last fifty steps.
    """
    torch.manual_seed(seed)
    kind, attend, rule = MODELS[name]
    model = kind(attend, rule)
    losses = train(model, None, steps=steps, rate=rate)
    generator = torch.Generator().manual_seed(99)
    fresh = torch.randint(LETTERS, (5000, LENGTH + 1), generator=generator)
    found = {
        "loss": losses[-50:].mean(),
        "writing": losses_in_writing(model, fresh)[:, :-1].mean(),
    }
    where = {"model": name, "rate": rate, "seed": seed, "steps": steps}
    return where | {name: round(x.item(), 4) for name, x in found.items()}
