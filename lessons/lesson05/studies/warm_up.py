"""How many steps does a stack of six blocks need, at which rate and with which warm-up?

Norm first and norm last learn to reverse a sequence. For norm last, a warm-up is also
taken apart: only Adam's averages warm up (the rate is 0 for 100 steps), or only the
weights do (after 100 steps of warm-up, Adam starts anew).
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import torch

from lessons.lesson05.wiring import Reverser, learnt, train_reverser

RATES = (0.002, 0.004, 0.008, 0.016)
SEEDS = range(5)
WAYS = {
    "none": {"warm_up": 1},
    "10 steps": {"warm_up": 10},
    "100 steps": {"warm_up": 100},
    "averages only": {"warm_up": 100, "gentle": False},
    "weights only": {"warm_up": 100, "fresh": True},
}
WIRED = {"norm first": [*WAYS][:3], "norm last": [*WAYS]}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each wiring, rate, warm-up and seed; `tiny`: 21 steps of a few."""
    rates, seeds = (RATES[:1], SEEDS[:1]) if tiny else (RATES, SEEDS)
    grid = [
        {"wiring": wiring, "rate": rate, "way": way, "seed": seed}
        for seed in seeds
        for rate in rates
        for wiring, ways in WIRED.items()
        for way in ways
    ]
    if tiny:
        yield from (learn(where, steps=21) for where in grid)
        return
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(2, mp_context=context, **one_thread) as pool:
        yield from pool.map(learn, grid)


def learn(where: dict, steps: int = 1000) -> dict:
    """Train one model: the steps it took, empty if never learnt, and its last losses.

    `before` and `lowest` say how much the positions differ at the top, before the first
    step and at the lowest within ten.
    """
    torch.manual_seed(where["seed"])
    model = Reverser(where["wiring"], n_blocks=6)
    options = {"steps": steps, "seed": where["seed"]} | WAYS[where["way"]]
    losses, differences = train_reverser(model, where["rate"], **options)
    return where | {
        "steps": len(losses) if learnt(losses) else None,
        "loss": round(sum(losses[-20:]) / 20, 3),
        "before": round(differences[0], 4),
        "lowest": round(min(differences), 4),
    }
