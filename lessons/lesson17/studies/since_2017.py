"""What is each change since 2017 worth to a toy translator, early in its training?

The baseline is the model of 2017, with one layer on each side. A row changes one thing,
"all together" all, "all but ..." all but one. "Nothing changed" draws other first
weights and another order of the sentences. Two rows have half the rate, and 100 steps
more. "Cross sinusoids" are added in the cross-attention, to its queries and keys alone.
All have about as many parameters. The loss
and the share of words that are right are those of 200 validation sentences, by teacher
forcing: after 100 steps; after as many steps as take the time of 100 of the baseline;
and the steps until 90 % are right. Seconds are the processor's, the quickest of several
steps.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from lessons.lesson17.changes import CHANGES, RATE, Look, seconds_a_step, train, variant

SEEDS, STEPS, EARLY = range(5), 300, 100


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each change and seed; `tiny`: one seed, few steps and sentences."""
    steps, few = (40, 300) if tiny else (STEPS, None)
    for seed in SEEDS[:1] if tiny else SEEDS:
        draws = {name: seed + 100 * (name == "nothing changed") for name in CHANGES}
        models = {name: variant(CHANGES[name], draw) for name, draw in draws.items()}
        looks = {}
        for name, model in models.items():
            rate = CHANGES[name].rate
            more = 100 * (rate < RATE and not tiny)
            options = {"steps": steps + more, "rate": rate, "few": few}
            looks[name] = train(model, draws[name], **options)
        seconds = seconds_a_step(models, rounds=2 if tiny else 20)
        for name, model in models.items():
            as_long = EARLY * seconds["2017"] / seconds[name]
            yield {
                "change": name,
                "seed": seed,
                "parameters": sum(p.numel() for p in model.parameters()),
                "milliseconds": round(1000 * seconds[name], 2),
                "loss_early": round(loss_at(looks[name], EARLY), 3),
                "loss_equal_time": round(loss_at(looks[name], as_long), 3),
                "steps_to_90": steps_to(looks[name], 0.9),
                "loss_end": round(loss_at(looks[name], steps), 3),
            }


def loss_at(looks: Sequence[Look], step: float) -> float:
    """The loss at a step, its logarithm on a straight line between two looks."""
    steps, logs = [x.step for x in looks], [math.log(x.loss) for x in looks]
    return math.exp(np.interp(step, steps, logs))


def steps_to(looks: Sequence[Look], share: float) -> float:
    """The step at which so many words are right, on a line between looks, or NaN."""
    for one, other in pairwise(looks):
        if one.right < share <= other.right:
            part = (share - one.right) / (other.right - one.right)
            return round(one.step + part * (other.step - one.step), 1)
    return math.nan
