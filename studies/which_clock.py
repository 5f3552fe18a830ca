"""Which clock of a rotary reader makes far letters mislead it?

The readers are those of longer_than_trained: two blocks, four clocks a head, trained on
16 letters. The table holds shares of right answers from place 48 on in texts of 64
letters: as trained; where some clocks stop at a distance; and where some are slower, or
all but the first by a larger base. Nothing is trained further.
"""

from collections.abc import Iterator

from helpers.experiments.long_texts import TASKS, clamped, right, train_reader
from helpers.experiments.other_clocks import right_at_the_end, slowed
from helpers.modern.rotary import rotary_angles

SEEDS, TRAINED, LONG, STEPS, D_HEAD = range(5), 16, 64, 300, 8
STOPPED = {
    "first clock stops at 15": ([0], 15),
    "second clock stops at 15": ([1], 15),
    "third and fourth stop at 15": ([2, 3], 15),
    "second clock stops at 30": ([1], 30),
}
SLOWED = {
    "second clock at 1/4": [1],
    "third and fourth at 1/4": [2, 3],
    "first and second at 1/4": [0, 1],
}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each task, seed and treatment; `tiny`: one seed, 5 steps."""
    for task in TASKS:
        for seed in SEEDS[:1] if tiny else SEEDS:
            options = {"length": TRAINED, "steps": 5 if tiny else STEPS}
            reader = train_reader("rotary", task, seed, **options)
            found = {"as trained": right(reader, task, LONG)}
            for name, (clocks, farthest) in STOPPED.items():
                found[name] = right(clamped(reader, farthest, clocks), task, LONG)
            shares = {
                name: share[-TRAINED:].mean().item() for name, share in found.items()
            }
            ways = {name: slowed(LONG, clocks) for name, clocks in SLOWED.items()}
            ways["base 500,000"] = rotary_angles(LONG, D_HEAD, base=500_000.0)
            for name, angles in ways.items():
                shares[name] = right_at_the_end(reader, angles, task)
            for name, share in shares.items():
                yield {
                    "task": task,
                    "seed": seed,
                    "treatment": name,
                    "right": round(share, 4),
                }
