"""Do the wirings that had not learnt after 1,000 steps learn later?

The study wirings once more, for the two wirings with a residual connection that fail at
twelve blocks with Xavier's first weights: at its lower rate, for 4,000 steps.
"""

from collections.abc import Iterator

from lessons.lesson05.studies.wirings import RATES, SEEDS, learn

WIRED, BLOCKS, STEPS = ("residual only", "norm last"), 12, 4000


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each wiring and seed; `tiny`: 21 steps of one seed."""
    fixed = {"first": "Xavier", "blocks": 2 if tiny else BLOCKS, "rate": RATES[0]}
    for seed in SEEDS[:1] if tiny else SEEDS:
        for wiring in WIRED:
            where = fixed | {"wiring": wiring, "seed": seed}
            yield learn(where, steps=21 if tiny else STEPS)
