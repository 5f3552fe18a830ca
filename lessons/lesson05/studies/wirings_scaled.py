"""Does it count at twelve blocks how much a sublayer adds, or how it was initialised?

The study wirings with the last matrix of each sublayer made smaller after Xavier's
initialisation, and larger after PyTorch's; three wirings with residual connections.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import torch
from torch import nn

from helpers.attention import MultiHeadAttention
from helpers.layers import FeedForward
from lessons.lesson05.studies.wirings import RATES, SEEDS, STEPS
from lessons.lesson05.wiring import Reverser, learnt, train_reverser

FACTORS = {"Xavier": 0.25, "PyTorch": 3.0}
WIRED = ("residual only", "norm last", "norm first")


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each first weights, wiring, rate and seed; `tiny`: 21 steps each."""
    rates, seeds = (RATES[:1], SEEDS[:1]) if tiny else (RATES, SEEDS)
    grid = [
        {"first": first, "factor": factor, "wiring": wiring, "rate": rate, "seed": seed}
        for seed in seeds
        for rate in rates
        for first, factor in FACTORS.items()
        for wiring in WIRED
    ]
    if tiny:
        yield from (learn(where, 2, steps=21) for where in grid)
        return
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(2, mp_context=context, **one_thread) as pool:
        yield from pool.map(learn, grid)


def learn(where: dict, blocks: int = 12, steps: int = STEPS) -> dict:
    """Train one model: the steps it took, empty if never learnt, and last losses."""
    torch.manual_seed(where["seed"])
    model = Reverser(where["wiring"], blocks)
    if where["first"] == "PyTorch":
        for part in model.stack.modules():
            if isinstance(part, nn.Linear):
                part.reset_parameters()
    for part in model.stack.modules():
        if isinstance(part, MultiHeadAttention):
            part.output_projection.weight.data.mul_(where["factor"])
        if isinstance(part, FeedForward):
            part.contract.weight.data.mul_(where["factor"])
    options = {"steps": steps, "seed": where["seed"]}
    losses, _ = train_reverser(model, where["rate"], 100, **options)
    return where | {
        "steps": len(losses) if learnt(losses) else None,
        "loss": round(sum(losses[-20:]) / 20, 3),
    }
