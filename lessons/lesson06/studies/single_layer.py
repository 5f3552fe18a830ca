"""Does a single layer learn to answer in as many steps as two, if it is larger?

It has four heads, as two layers of two have; and d_model 64, or 96, with which it has
more parameters than two layers of d_model 64.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import torch

from lessons.lesson06.stories import (
    STEPS,
    StoryReader,
    draw_stories,
    right_at_asked,
    train_reader,
)

SEEDS = range(3)
SIZES = 64, 96  # d_model


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each size and seed; `tiny`: two, hardly trained."""
    if tiny:
        yield from (measure(d_model, 0, steps=2) for d_model in SIZES)
        return
    grid = [(d_model, seed) for d_model in SIZES for seed in SEEDS]
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(2, mp_context=context, **one_thread) as pool:
        yield from pool.map(measure, *zip(*grid, strict=True))


def measure(d_model: int, seed: int, steps: int = STEPS) -> dict:
    """Train a reader of one layer; how well it answers at asked names."""
    training = draw_stories(3000, 0, new_pair=False)
    torch.manual_seed(seed)
    model = StoryReader(1, n_heads=4, d_model=d_model)
    train_reader(model, training, seed=seed, steps=steps)
    usual = draw_stories(600, 1, new_pair=False, unlike=training)
    new = draw_stories(600, 2, new_pair=True)
    found = {"heads": 4, "d_model": d_model, "steps": steps, "seed": seed}
    found |= {"parameters": sum(p.numel() for p in model.parameters())}
    found |= {"right": round(right_at_asked(model, usual), 4)}
    return found | {"new": round(right_at_asked(model, new), 4)}
