"""Which algorithm does a trained reader of stories follow? Twenty seeds.

Readers of two layers are trained from several initial weights. In each, the vectors
after layer 1 at the told names, at the drinks, or at the asked names are replaced by
those of a donor: a story in which the drinks have moved to the next fact, or the names.
`drinks_told` is the share of answers that follow the donor of moved drinks where the
vectors at told names are put in, and so on; `noise` is the largest such share with
random vectors of the same lengths. `new` counts the names asked about in stories with a
new pair, `new_pairs` those of the new pairs alone.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import torch

from lessons.lesson06.stories import (
    STEPS,
    StoryReader,
    draw_stories,
    follow,
    hand_on,
    is_new_pair,
    places,
    right_at_asked,
    train_reader,
)

SEEDS = range(20)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each reader; `tiny`: one, hardly trained."""
    if tiny:
        yield measure(0, steps=2, count=20)
        return
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(2, mp_context=context, **one_thread) as pool:
        yield from pool.map(measure, SEEDS)


def measure(seed: int, steps: int = STEPS, count: int = 600) -> dict:
    """Train a reader; how well it answers, and whose story its answers follow."""
    training = draw_stories(3000, 0, new_pair=False)
    usual = draw_stories(count, 1, new_pair=False, unlike=training)
    new = draw_stories(count, 2, new_pair=True)
    torch.manual_seed(seed)
    model = StoryReader(2)
    train_reader(model, training, seed=seed, steps=steps)
    found = {"seed": seed, "right": right_at_asked(model, usual)}
    found |= {"new": right_at_asked(model, new)}
    found |= {"new_pairs": right_at_asked(model, new, is_new_pair(new))}
    at, random = places(new), []
    for moved in ("drinks", "names"):
        donor = hand_on(new, moved)
        for name, where in at.items():
            found[f"{moved}_{name}"] = follow(model, new, donor, where)
            random.append(follow(model, new, donor, where, noise=True))
    found |= {"noise": max(random)}
    return {key: round(value, 4) for key, value in found.items()}
