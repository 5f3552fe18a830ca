"""How far does the leak after the softmax get, if training goes on?

The study mask_leak once more, for that mask alone: at the lesson's rate, but four times
as long.
"""

from collections.abc import Iterator

from lessons.lesson03.leak import train_guesser
from lessons.lesson03.studies.mask_leak import MASKS, SEEDS

NAME, RATE, STEPS = "after the softmax", 0.003, 4800


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each seed; `tiny` takes 200 steps of one seed.

    `lowest` is the lowest mean training loss of any hundred steps, counted from the
    first step on, and `last` that of the last hundred.
    """
    for seed in SEEDS[:1] if tiny else SEEDS:
        steps = 200 if tiny else STEPS
        _, losses = train_guesser(*MASKS[NAME], steps=steps, rate=RATE, seed=seed)
        hundreds = losses.view(-1, 100).mean(dim=1)
        found = {"lowest": hundreds.min().item(), "last": hundreds[-1].item()}
        where = {"mask": NAME, "rate": RATE, "seed": seed}
        yield where | {name: round(loss, 4) for name, loss in found.items()}
