"""Which way of joining sublayers to a deep stack learns?

Stacks of 12 blocks, joined in five ways, learn to read six tokens backwards, from
PyTorch's initial weights; the plain one at a lower learning rate, too.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import torch

from lessons.lesson05.stacks import SIZES, WAYS, Reverser, Stack, draw_weights, reversal

BLOCKS = 12
RATE, FOR_PLAIN = 0.003, 0.001
SEEDS = range(3)
STEPS = 120


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each seed, way and rate; `tiny`: a few."""
    runs = [*((way, RATE) for way in WAYS), ("plain", FOR_PLAIN)]
    grid = [
        {"way": way, "rate": rate, "seed": seed} for seed in SEEDS for way, rate in runs
    ]
    if tiny:
        yield from (learn(where, steps=2) for where in grid[:5])
        return
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(2, mp_context=context, **one_thread) as pool:
        yield from pool.map(learn, grid)


def learn(where: dict, steps: int = STEPS) -> dict:
    """Train one model: the mean loss of its last 20 steps."""
    stack = draw_weights(Stack(BLOCKS, SIZES, where["way"]), where["seed"])
    model = Reverser(stack, where["seed"])
    make_batch, loss = reversal(where["seed"])
    # as in helpers.training.fit, with the fused Adam
    optimizer = torch.optim.Adam(model.parameters(), lr=where["rate"], fused=True)
    losses = []
    for _ in range(steps):
        tokens, wanted = make_batch()
        error = loss(model(tokens), wanted)
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        losses.append(error.item())
    return where | {"loss": round(sum(losses[-20:]) / len(losses[-20:]), 3)}
