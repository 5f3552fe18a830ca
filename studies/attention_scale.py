"""What does a layer of attention lose without the scale, at which size and rate?

Dividing scores by √d_k does two things: training starts from a softer softmax, and a
step of Adam changes the scores √d_k times less. Lesson 02's layer learns its game with
both, with one of the two, and with neither. All start from the same random numbers.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from helpers.attention import attention
from helpers.look_up import D_MODEL, SECRET, SelfAttention, deal, train_look_up

SIZES = (8, 64, 512)
RATES = (0.003, 0.01, 0.03, 0.1, 0.3)
SEEDS = range(5)
STEPS = 300
# Each way: whether the first scores are those of the scaled layer, and its steps.
WAYS = {
    "with the scale": ("soft", "small"),
    "small steps only": ("hard", "small"),
    "soft start only": ("soft", "large"),
    "without the scale": ("hard", "large"),
}


class WithoutScale(SelfAttention):
    """Self-attention without the division by √d_k: a larger query undoes it."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Context and weights of the tokens x."""
        query = self.query(x) * math.sqrt(self.query.out_features)
        return attention(query, self.key(x), self.value(x), mask)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each size, rate, way and seed; `tiny` takes 12 steps at one size."""
    for d_k in SIZES[:1] if tiny else SIZES:
        for rate in RATES[:1] if tiny else RATES:
            for way in WAYS:
                for seed in SEEDS[:1] if tiny else SEEDS:
                    where = {"d_k": d_k, "rate": rate, "way": way, "seed": seed}
                    yield where | learn(**where, steps=12 if tiny else STEPS)


def make(
    d_k: int, rate: float, way: str, seed: int
) -> tuple[SelfAttention, torch.optim.Adam]:
    """A new layer whose queries and keys have features of variance 1, and its Adam."""
    torch.manual_seed(seed)
    start, steps = WAYS[way]
    scaled = way == "with the scale"
    layer = (SelfAttention if scaled else WithoutScale)(D_MODEL, d_k, SECRET)
    for projection in (layer.query, layer.key):
        # A card has two ones and four numbers of variance 1.
        nn.init.normal_(projection.weight, std=6**-0.5)
    if start == "soft" and not scaled:  # as T5 starts
        layer.query.weight.data /= math.sqrt(d_k)
    # The scale itself makes the steps small in the scaled layer.
    smaller = math.sqrt(d_k) if steps == "small" and not scaled else 1
    compared = [layer.query.weight, layer.key.weight]
    groups = [
        {"params": compared, "lr": rate / smaller},
        {"params": [layer.value.weight], "lr": rate},
    ]
    return layer, torch.optim.Adam(groups)


def learn(d_k: int, rate: float, way: str, seed: int, steps: int) -> dict:
    """Train a layer: its scores at the start, their first change, and when it learns.

    scores and first_step are standard deviations of what the softmax gets, over the
    cards of 64 rounds; `steps` is the first at which the mean loss of ten is below 0.1,
    empty for a layer that does not get there; `loss` is the mean of the last ten.
    """
    cards = deal(64, torch.Generator().manual_seed(99)).cards
    layer, adam = make(d_k, rate, way, seed)
    before = scores(layer, cards)
    train_look_up(layer, optimizer=adam, steps=1, seed=seed)
    change = scores(layer, cards) - before
    layer, adam = make(d_k, rate, way, seed)
    losses = train_look_up(layer, optimizer=adam, steps=steps, seed=seed)
    means = losses.unfold(0, 10, 1).mean(dim=1)
    learnt = (means < 0.1).nonzero().flatten().tolist()
    return {
        "scores": round(before.std().item(), 3),
        "first_step": round(change.std().item(), 4),
        "steps": learnt[0] if learnt else None,
        "loss": round(means[-1].item(), 4),
    }


@torch.no_grad()
def scores(layer: SelfAttention, cards: Tensor) -> Tensor:
    """What the softmax of a layer gets (rounds, 6, 6)."""
    unscaled = isinstance(layer, WithoutScale)
    scale = 1 if unscaled else math.sqrt(layer.query.out_features)
    return layer.query(cards) @ layer.key(cards).mT / scale
