"""Which algorithm does a trained reader of stories follow? Twenty seeds.

Readers of two layers are trained from several initial weights. In each, the vectors
after layer 1 at the told names, at the drinks, or at the asked names are replaced by
those of a story in which the names are handed on. `told`, `drink` and `asked` are the
shares of answers that then follow the other story; `noise` is the largest of the three
with random vectors of the same lengths. `name_…` and `place_…` say what a linear probe
reads at the asked names after layer 1, and what comes of swapping it there
(lessons/lesson06/probing.py).
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import torch

from lessons.lesson06.probing import swap_at_asked
from lessons.lesson06.stories import (
    STEPS,
    StoryReader,
    draw_stories,
    follow,
    hand_on,
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
    fitting = draw_stories(count, 3, new_pair=False)
    torch.manual_seed(seed)
    model = StoryReader(2)
    train_reader(model, training, seed=seed, steps=steps)
    found = {"seed": seed, "right": right_at_asked(model, usual)}
    found |= {"new": right_at_asked(model, new)}
    donor, at = hand_on(new), places(new)
    found |= {name: follow(model, new, donor, where) for name, where in at.items()}
    random = [follow(model, new, donor, where, noise=True) for where in at.values()]
    found |= {"noise": max(random)}
    for what in ("name", "place"):
        swapped = swap_at_asked(model, fitting, usual, what)
        found |= {f"{what}_{key}": value for key, value in swapped.items()}
    return {key: round(value, 4) for key, value in found.items()}
