"""Which positions serve a text that is longer than any in training?

Small causal models say the latest marked letter. They have seen texts of 16 letters
only; "none" has no positions. The table holds shares of right answers: on texts of 16
letters ("trained"); on the same texts moved to the positions from 48 on ("moved"); and
on texts of 64 letters, from place 48 on ("far"). There, too, where all but the nearest
16 letters are hidden ("near"), all but the nearest 40 ("within_40"), or the 24 between
("no_middle"); and where all rotary angles but the first pair's are smaller, by another
base ("slower").
"""

import math
from collections.abc import Iterator

from lessons.lesson17.long_texts import KINDS, TextReader, right, train_reader

SEEDS, TRAINED, LONG, STEPS = range(5), 16, 64, 300
BACK = 40  # places


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each kind of positions and seed; `tiny`: one seed, 5 steps."""
    for kind in KINDS:
        for seed in SEEDS[:1] if tiny else SEEDS:
            options = {"length": TRAINED, "steps": 5 if tiny else STEPS}
            reader = train_reader(kind, seed, **options)
            shares = {name: round(x, 4) for name, x in look(reader).items()}
            yield {"positions": kind, "seed": seed} | shares


def look(reader: TextReader) -> dict[str, float]:
    """The shares of right answers that the table holds."""
    start = LONG - TRAINED

    def far(**options) -> float:
        return right(reader, LONG, **options)[start:].mean().item()

    return {
        "trained": right(reader, TRAINED).mean().item(),
        "moved": right(reader, TRAINED, start=start).mean().item(),
        "far": far(),
        "near": far(hidden=range(TRAINED, LONG)),
        "within_40": far(hidden=range(BACK, LONG)),
        "no_middle": far(hidden=range(TRAINED, BACK)),
        "slower": far(base=500_000.0) if reader.kind == "rotary" else math.nan,
    }
