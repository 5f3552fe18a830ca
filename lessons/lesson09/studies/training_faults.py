"""What do the losses of a faulty training show, and what do two other checks?

The trainings of exercise 09.2, without a fault and with each of six, from three seeds:
a small model learns to write sequences of letters backwards. The rate that is too high
is tried with clipped gradients, too.
"""

from collections.abc import Iterator

import torch

from lessons.lesson09.exercises import SIGNS
from lessons.lesson09.faulty import run_with

SEEDS = range(3)
CLIPPED = ", clipped"


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each fault and seed; `tiny`: one."""
    torch.set_num_threads(1)
    faults = "healthy", *SIGNS, "rate too high" + CLIPPED
    for fault in faults[:1] if tiny else faults:
        for seed in SEEDS[:1] if tiny else SEEDS:
            clip = fault.endswith(CLIPPED)
            run = run_with(fault.removesuffix(CLIPPED), seed, clip=clip)
            found = {
                "training": run.train_loss[-1],
                "validation": run.validation_loss[-1],
                "exchanged": run.exchanged_loss,
                "exact": run.exact,
            }
            numbers = {name: round(value, 3) for name, value in found.items()}
            yield {"fault": fault, "seed": seed} | numbers
