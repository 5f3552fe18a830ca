"""Which positions serve a text that is longer than any in training?

Small causal models see texts of 16 letters only. One task asks for the letter three
places earlier, the other for the latest marked letter. "Longer" models have had five
times as many steps as the others; "none" has no positions at all.

The table holds shares of right answers: on texts of 16 letters ("trained"); on the same
texts moved to the positions from 48 on ("moved"); and on texts of 64 letters, at each
place ("at 3" to "at 63") and from place 48 on ("far"). There, too, where letters are
hidden: all but the nearest 16 ("near"), all but these and the one at distance 44 or 47
("near_and_44", "near_and_47"), or a few distances alone: ECHOES ("no_echoes"), or those
which are three places nearer ("no_others"). And, for rotary positions, where some
clocks stop at distance 15: all, the first, or all but the first ("all_stopped",
"first_stopped", "slow_stopped").
"""

import math
from collections.abc import Iterator

from lessons.lesson17.long_texts import (
    BACK,
    KINDS,
    TASKS,
    TextReader,
    clamped,
    right,
    train_reader,
)

SEEDS, TRAINED, LONG = range(5), 16, 64
STEPS, LONGER = 300, 1_500
FAR = range(TRAINED, LONG)
ECHOES = 41, 47, 53, 54, 60  # about whole turns of the first clock after BACK
HIDDEN = {
    "near": FAR,
    "near_and_44": [distance for distance in FAR if distance != 44],
    "near_and_47": [distance for distance in FAR if distance != 47],
    "no_echoes": ECHOES,
    "no_others": [distance - BACK for distance in ECHOES],
}
STOPPED = {"all_stopped": range(4), "first_stopped": [0], "slow_stopped": [1, 2, 3]}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each task, kind of positions and seed; `tiny`: one seed, 5 steps."""
    models = [(task, kind, STEPS) for task in TASKS for kind in KINDS]
    models += [(TASKS[0], kind, LONGER) for kind in ("rotary", "ALiBi")]
    for task, kind, steps in models:
        for seed in SEEDS[:1] if tiny else SEEDS:
            options = {"length": TRAINED, "steps": 5 if tiny else steps}
            reader = train_reader(kind, task, seed, **options)
            shares = {name: round(x, 4) for name, x in look(reader, task).items()}
            longer = " longer" * (steps == LONGER)
            yield {"task": task, "positions": kind + longer, "seed": seed} | shares


def look(reader: TextReader, task: str) -> dict[str, float]:
    """The shares of right answers that the table holds."""
    start, whole = LONG - TRAINED, right(reader, task, LONG)
    moved = right(reader, task, TRAINED, start=start)
    found = {
        "trained": right(reader, task, TRAINED)[BACK:].mean().item(),
        "moved": moved[BACK:].mean().item(),
        "far": whole[start:].mean().item(),
    }
    for name, hidden in HIDDEN.items():
        shares = right(reader, task, LONG, hidden=hidden)
        found[name] = shares[start:].mean().item()
    for name, clocks in STOPPED.items():
        found[name] = math.nan
        if reader.kind == "rotary":
            stopped = clamped(reader, TRAINED - 1, clocks)
            found[name] = right(stopped, task, LONG)[start:].mean().item()
    return found | {f"at {place}": whole[place].item() for place in range(BACK, LONG)}
