"""Does norm first learn without a warm-up at a rate beyond the study warm_up?

It is twice the highest rate of that study; all else is the same.
"""

from collections.abc import Iterator

from lessons.lesson05.studies.warm_up import SEEDS, WIRED, learn

RATE = 0.032


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each warm-up and seed; `tiny`: 21 steps of a few."""
    for seed in SEEDS[:1] if tiny else SEEDS:
        for way in WIRED["norm first"]:
            where = {"wiring": "norm first", "rate": RATE, "way": way, "seed": seed}
            yield learn(where, steps=21 if tiny else 1000)
