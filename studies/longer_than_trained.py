"""Which positions serve a text that is longer than any in training?

Small causal models see texts of 16 letters only. One task asks for the letter three
places earlier, the other for the latest marked letter. The table holds shares of right
answers: on texts of 16 letters; on the same texts moved to the positions from 48 on; at
positions 16 to 31 and 48 to 63 of texts of 64 letters; and at positions 48 to 63 where
each letter sees the 16 latest ones alone. "none" has no positions at all.
"""

from collections.abc import Iterator

from helpers.experiments.long_texts import BACK, KINDS, TASKS, right, train_reader

SEEDS, TRAINED, LONG = range(5), 16, 64


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each task, kind of positions and seed; `tiny`: one seed, 5 steps."""
    steps = 5 if tiny else 300
    for task in TASKS:
        for kind in KINDS:
            for seed in SEEDS[:1] if tiny else SEEDS:
                reader = train_reader(kind, task, seed, length=TRAINED, steps=steps)
                far = slice(LONG - TRAINED, LONG)
                whole = right(reader, task, LONG)
                shares = {
                    "trained": right(reader, task, TRAINED)[BACK:],
                    "moved": right(reader, task, TRAINED, start=far.start)[BACK:],
                    "next": whole[TRAINED : 2 * TRAINED],
                    "far": whole[far],
                    "far_window": right(reader, task, LONG, window=TRAINED)[far],
                }
                means = {name: round(x.mean().item(), 4) for name, x in shares.items()}
                yield {"task": task, "positions": kind, "seed": seed} | means
