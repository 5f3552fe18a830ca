"""What does a layer of attention lose without the scale, at which size and rate?

Dividing scores by √d_k is the same as dividing the weights W_Q and W_K by the fourth
root of d_k each, and Adam's rate for them, too: training then starts from a softer
softmax, and takes smaller steps. Lesson 02's layer learns its game with the scale, and
without it with both changes, one, or neither. All start from the same random numbers.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from helpers.attention import attention
from helpers.look_up import D_MODEL, SECRET, SelfAttention, train_look_up

SIZES = (8, 64, 512)
RATES = (0.01, 0.03, 0.1, 0.3)
SEEDS = range(5)
BLOCKS = 12  # of 25 steps each
# Each way: whether it has the scale, a soft start and small steps made without it.
WAYS = {
    "the scale": (True, False, False),
    "both, without the scale": (False, True, True),
    "soft start only": (False, True, False),
    "small steps only": (False, False, True),
    "neither": (False, False, False),
}


class WithoutScale(SelfAttention):
    """Self-attention without the division by √d_k: a larger query undoes it."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Context and weights of the tokens x."""
        query = self.query(x) * math.sqrt(self.query.out_features)
        return attention(query, self.key(x), self.value(x), mask)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each size, rate, way and seed; `tiny` takes 25 steps of few."""
    for d_k in SIZES[:1] if tiny else SIZES:
        for rate in RATES[:1] if tiny else RATES:
            for way in WAYS:
                for seed in SEEDS[:1] if tiny else SEEDS:
                    where = {"d_k": d_k, "rate": rate, "way": way, "seed": seed}
                    yield where | {
                        "steps": learn(**where, blocks=1 if tiny else BLOCKS)
                    }


def make(
    d_k: int, rate: float, way: str, seed: int
) -> tuple[SelfAttention, torch.optim.Adam]:
    """A new layer and its Adam; the rate is the same for all its weights, or smaller.

    Features of queries and keys have variance 1.
    """
    torch.manual_seed(seed)
    scaled, soft, small = WAYS[way]
    layer = (SelfAttention if scaled else WithoutScale)(D_MODEL, d_k, SECRET)
    compared = [layer.query.weight, layer.key.weight]
    for weight in compared:
        # A card has two ones and four numbers of variance 1.
        nn.init.normal_(weight, std=6**-0.5)
        if soft:
            weight.data /= d_k**0.25
    groups = [
        {"params": compared, "lr": rate / d_k**0.25 if small else rate},
        {"params": [layer.value.weight], "lr": rate},
    ]
    return layer, torch.optim.Adam(groups)


def learn(d_k: int, rate: float, way: str, seed: int, blocks: int) -> int | None:
    """Train a layer; the number of steps until it has learnt, None if it does not.

    Then, for the first time, the mean loss of the last ten steps is below 0.1.
    """
    layer, adam = make(d_k, rate, way, seed)
    losses = torch.empty(0)
    for block in range(blocks):
        options = {"optimizer": adam, "steps": 25, "seed": 100 * seed + block}
        losses = torch.cat([losses, train_look_up(layer, **options)])
        learnt = (losses.unfold(0, 10, 1).mean(dim=1) < 0.1).nonzero().flatten()
        if len(learnt):
            return learnt[0].item() + 10
    return None
