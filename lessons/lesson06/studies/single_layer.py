"""Does a single layer of eight heads learn to answer, if it is trained for longer?

The study circuits gives single layers four heads and 3,000 steps.
"""

from collections.abc import Iterator

import torch

from lessons.lesson06.stories import (
    StoryReader,
    accuracy,
    draw_stories,
    train_on_stories,
)

SEEDS, HEADS, STEPS = range(3), 8, 6000


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each seed; `tiny` takes two steps of one seed."""
    training = draw_stories(3000, 0, new_pair=False)
    tests = {
        "right": draw_stories(600, 1, new_pair=False, unlike=training),
        "new": draw_stories(600, 2, new_pair=True),
    }
    for seed in SEEDS[:1] if tiny else SEEDS:
        torch.manual_seed(seed)
        model = StoryReader(1, n_heads=HEADS)
        train_on_stories(model, training, steps=2 if tiny else STEPS, seed=seed)
        asked = {name: accuracy(model, data)["asked"] for name, data in tests.items()}
        where = {"heads": HEADS, "seed": seed, "steps": STEPS}
        yield where | {name: round(share, 4) for name, share in asked.items()}
