"""When does a clock of a rotary reader make far letters mislead it?

The readers are those of longer_than_trained that look three places back: two blocks,
four clocks a head, trained on 16 letters. One clock stops at a distance: to it, letters
that are farther away stand there. The table holds shares of right answers from place 48
on in texts of 64 letters ("right"), and the clock's part of the mean score where it
stops ("part"). "base 500,000" slows all clocks but the first, by another base. Nothing
is trained further.
"""

import math
from collections.abc import Iterator

from helpers.modern.rotary import rotary_angles
from lessons.lesson17.long_texts import clamped, clock_scores, right, train_reader
from lessons.lesson17.position_schemes import right_at_the_end

SEEDS, TRAINED, LONG, STEPS, D_HEAD = range(5), 16, 64, 300, 8
STOPS = [("first", d) for d in range(11, 23)]
STOPS += [("second", d) for d in range(15, 61, 5)]


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each seed and treatment; `tiny`: one seed, 5 steps, few stops."""
    for seed in SEEDS[:1] if tiny else SEEDS:
        options = {"length": TRAINED, "steps": 5 if tiny else STEPS}
        reader = train_reader("rotary", "look back", seed, **options)
        parts = clock_scores(reader, LONG)
        share = right(reader, "look back", LONG)[-TRAINED:].mean().item()
        yield _row(seed, "as trained", math.nan, math.nan, share)
        angles = rotary_angles(LONG, D_HEAD, base=500_000.0)
        share = right_at_the_end(reader, angles)
        yield _row(seed, "base 500,000", math.nan, math.nan, share)
        for name, distance in STOPS[::8] if tiny else STOPS:
            clock = ("first", "second").index(name)
            stopped = clamped(reader, distance, [clock])
            share = right(stopped, "look back", LONG)[-TRAINED:].mean().item()
            part = parts[clock, distance].item()
            yield _row(seed, f"{name} clock stops", distance, part, share)


def _row(seed: int, treatment: str, at: float, part: float, share: float) -> dict:
    numbers = {"stops_at": at, "part": round(part, 2), "right": round(share, 4)}
    return {"seed": seed, "treatment": treatment} | numbers
