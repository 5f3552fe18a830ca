"""What does a layer of attention lose without the scale, at which size and rate?

Lesson 02's layer learns its game in four ways: with the scale; without it; without it
but from a soft start, the query's weights √d_k times smaller, as T5 does; and so with
√d_k times smaller steps of these weights, too, which must equal the first way. All
have the same first weights but for the soft start.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from helpers.look_up import (
    D_MODEL,
    SECRET,
    SelfAttention,
    WithoutScale,
    deal,
    train_look_up,
)

SIZES = (8, 64, 512)
RATES = (0.003, 0.01, 0.03, 0.1)
SEEDS = range(5)
STEPS = 300
WAYS = ("with the scale", "without", "soft start", "soft start, small steps")


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each size, rate, way and seed; `tiny` takes 12 steps at one size."""
    for d_k in SIZES[:1] if tiny else SIZES:
        for rate in RATES[:1] if tiny else RATES:
            for way in WAYS:
                for seed in SEEDS[:1] if tiny else SEEDS:
                    where = {"d_k": d_k, "rate": rate, "way": way, "seed": seed}
                    yield where | learn(**where, steps=12 if tiny else STEPS)


def make(d_k: int, way: str, seed: int) -> SelfAttention:
    """A new layer whose queries and keys have features of variance 1."""
    torch.manual_seed(seed)
    kind = SelfAttention if way == WAYS[0] else WithoutScale
    layer = kind(D_MODEL, d_k, SECRET)
    for projection in (layer.query, layer.key):
        # A card has two ones and four numbers of variance 1.
        nn.init.normal_(projection.weight, std=6**-0.5)
    if way in WAYS[2:]:
        layer.query.weight.data /= math.sqrt(d_k)
    return layer


def learn(d_k: int, rate: float, way: str, seed: int, steps: int) -> dict:
    """Train a layer: its size of scores at the start, of their first change, and when.

    scores and first_step are standard deviations of what the softmax gets, over the
    cards of 64 rounds; `steps` is the first at which the mean loss of ten is below 0.1,
    empty for a layer that never gets there; `loss` is the mean of the last ten.
    """
    cards = deal(64, torch.Generator().manual_seed(99)).cards
    layer = make(d_k, way, seed)
    before = scores(layer, cards)
    train_look_up(layer, optimizer=adam(layer, way, rate), steps=1, seed=seed)
    change = scores(layer, cards) - before
    layer = make(d_k, way, seed)
    optimizer = adam(layer, way, rate)
    losses = train_look_up(layer, optimizer=optimizer, steps=steps, seed=seed)
    means = losses.unfold(0, 10, 1).mean(dim=1)
    solved = (means < 0.1).nonzero().flatten().tolist()
    return {
        "scores": round(before.std().item(), 3),
        "first_step": round(change.std().item(), 4),
        "steps": solved[0] if solved else None,
        "loss": round(means[-1].item(), 4),
    }


def adam(layer: SelfAttention, way: str, rate: float) -> torch.optim.Optimizer:
    """Adam, with a smaller rate for the query's weights where their steps are small."""
    small = 1 / math.sqrt(layer.query.out_features) if way == WAYS[3] else 1
    groups = [
        {"params": layer.query.parameters(), "lr": rate * small},
        {"params": [layer.key.weight, layer.value.weight], "lr": rate},
    ]
    return torch.optim.Adam(groups)


@torch.no_grad()
def scores(layer: SelfAttention, cards: Tensor) -> Tensor:
    """What the softmax of a layer gets (rounds, 6, 6)."""
    scale = (
        1 if isinstance(layer, WithoutScale) else math.sqrt(layer.query.out_features)
    )
    return layer.query(cards) @ layer.key(cards).mT / scale
