"""Which wiring learns at which depth, from which first weights?

Stacks of 2 and 12 blocks in five wirings learn to reverse a sequence, at two learning
rates with a warm-up of 100 steps. Their matrices start with Xavier's initialisation or
with the one that `nn.Linear` has in PyTorch.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import torch
from torch import nn

from lessons.lesson05.wiring import WIRINGS, Reverser, learnt, train_reverser

INITIALISATIONS = ("Xavier", "PyTorch")
DEPTHS = (2, 12)
RATES = (0.001, 0.003)
SEEDS = range(3)
STEPS = 1000


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each first weights, wiring, depth, rate and seed; `tiny`: a few."""
    depths, rates, seeds = DEPTHS, RATES, SEEDS
    if tiny:
        depths, rates, seeds = DEPTHS[:1], RATES[:1], SEEDS[:1]
    grid = [
        {"first": first, "wiring": wiring, "blocks": blocks, "rate": rate, "seed": seed}
        for seed in seeds
        for blocks in depths
        for rate in rates
        for first in INITIALISATIONS
        for wiring in WIRINGS
    ]
    if tiny:
        yield from (learn(where, steps=21) for where in grid)
        return
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(2, mp_context=context, **one_thread) as pool:
        yield from pool.map(learn, grid)


def learn(where: dict, steps: int = STEPS) -> dict:
    """Train one model: the steps it took, empty if never learnt, and its last losses.

    `before` says how much the positions differ at the top before the first step.
    """
    torch.manual_seed(where["seed"])
    model = Reverser(where["wiring"], where["blocks"])
    if where["first"] == "PyTorch":
        for part in model.stack.modules():
            if isinstance(part, nn.Linear):
                part.reset_parameters()
    options = {"steps": steps, "seed": where["seed"]}
    losses, differences = train_reverser(model, where["rate"], 100, **options)
    return where | {
        "steps": len(losses) if learnt(losses) else None,
        "loss": round(sum(losses[-20:]) / 20, 3),
        "before": round(differences[0], 4),
    }
