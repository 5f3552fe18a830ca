"""Do norm last and norm first need a warm-up with PyTorch's first weights, too?

Six blocks as in the study warm_up, with the initialisation that `nn.Linear` has in
PyTorch instead of Xavier's.
"""

from collections.abc import Iterator
from itertools import product

import torch
from torch import nn

from lessons.lesson05.studies.warm_up import SEEDS, WAYS
from lessons.lesson05.wiring import Reverser, learnt, train_reverser

WIRED = ("norm last", "norm first")
RATES = (0.008, 0.016, 0.032)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each wiring, rate, warm-up and seed; `tiny`: 21 steps of a few."""
    seeds, rates = (SEEDS[:1], RATES[:1]) if tiny else (SEEDS, RATES)
    ways = ("none", "100 steps")
    for seed, wiring, rate, way in product(seeds, WIRED, rates, ways):
        where = {"wiring": wiring, "rate": rate, "way": way, "seed": seed}
        yield learn(where, steps=21 if tiny else 1000)


def learn(where: dict, steps: int) -> dict:
    """Train one model: the steps it took, empty if never learnt, and last losses."""
    torch.manual_seed(where["seed"])
    model = Reverser(where["wiring"], n_blocks=6)
    for part in model.stack.modules():
        if isinstance(part, nn.Linear):
            part.reset_parameters()
    options = {"steps": steps, "seed": where["seed"]} | WAYS[where["way"]]
    losses, _ = train_reverser(model, where["rate"], **options)
    return where | {
        "steps": len(losses) if learnt(losses) else None,
        "loss": round(sum(losses[-20:]) / 20, 3),
    }
