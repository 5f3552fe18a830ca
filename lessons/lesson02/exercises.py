"""The exercises of lesson 02: attention, and a look-up of the place before."""

import math
from functools import partial

import torch
from matplotlib import pyplot as plt
from torch import Tensor

from helpers import attention as course
from helpers.exercise import Exercise, Probe
from helpers.plots import heatmap


def _probe(
    *sizes: int, mask: Tensor | None = None, loud: float = 1.0, **said: str
) -> Probe:
    """Random inputs of these axes, query_length, key_length, d_head and d_value.

    `loud` multiplies the scores.
    """
    *axes, queries, keys, d_head, d_value = sizes
    chance = torch.Generator().manual_seed(sum(sizes))
    each = (queries, d_head), (keys, d_head), (keys, d_value)
    q, k, v = (torch.randn(*axes, *x, generator=chance) for x in each)
    return Probe(loud * q, k, v, *([] if mask is None else [mask]), **said)


def _some(queries: int, keys: int) -> Tensor:
    """A mask that hides a third of the keys."""
    return (2 * torch.arange(queries)[:, None] + torch.arange(keys)) % 3 != 0


def _weights_beside(yours: tuple, due: tuple) -> None:
    """Draw the weights of the first look-up, the learner's beside those expected."""
    _, axes = plt.subplots(1, 2, figsize=(7, 2.6))
    for ax, (_, weights), title in zip(
        axes, (yours, due), ("yours", "expected"), strict=True
    ):
        first = weights.flatten(0, -3)[0]
        rows, columns = (range(1, size + 1) for size in first.shape)
        look = {"title": title, "numbers": True, "colour_bar": False}
        heatmap(first, rows, columns, ax=ax, **look)
    plt.show()


def _variant(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scaled: bool = True,
    axis: int = -1,
    score: float | None = -math.inf,
    weight: float | None = 0.0,
) -> tuple[Tensor, Tensor]:
    """Attention, and with other options what is wrong with it.

    What the mask hides gets this score and then this weight, or with None stays.
    """
    scores = query @ key.mT / (math.sqrt(query.size(-1)) if scaled else 1)
    if mask is not None and score is not None:
        scores = scores.masked_fill(~mask, score)
    weights = scores.softmax(dim=axis)
    if mask is not None and weight is not None:
        weights = weights.masked_fill(~mask, weight)
    return weights @ value, weights


def _inverted(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None):
    """The mask read the other way round."""
    return course.attention(query, key, value, None if mask is None else ~mask)


PADDED = torch.arange(5) < torch.tensor([5, 3])[:, None, None, None]
NOTHING = _some(3, 5) & (torch.arange(3) > 0)[:, None]  # for the first query
OVER_KEYS = "each query shares out a weight of 1 among the keys: `softmax(dim=-1)`"
attention = Exercise(
    course.attention,
    [
        _probe(2, 3, 4, 5, 6, 7, praise="weights and context are right"),
        _probe(3, 2, 2, 9, 5, when="with axes (3,) in front: "),
        _probe(4, 4, 4, 4, 4, 4, alike=True),
        _probe(2, 3, 4, 5, 6, 7, mask=_some(4, 5), when="with a mask (4, 5): "),
        _probe(4, 4, 4, 4, 4, 4, mask=_some(4, 4), alike=True),
        _probe(2, 3, 2, 5, 4, 3, mask=PADDED, when="with a mask (2, 1, 1, 5): "),
        _probe(1, 5, 4, 3, mask=_some(1, 5), praise="hidden keys get a weight of 0"),
        _probe(2, 1, 3, 4, 8, 2, loud=300.0, praise="large scores do no harm"),
        _probe(
            *(1, 2, 3, 5, 4, 3),
            mask=NOTHING,
            praise="a query that may attend to nothing gets weights and context of 0",
            when="for a query that may attend to nothing, all is to be 0: ",
        ),
    ],
    {
        "the scale is forgotten: divide the scores by the square root of d_head, "
        "`query.size(-1)`": partial(_variant, scaled=False),
        f"the softmax runs over the queries: {OVER_KEYS}": partial(_variant, axis=-2),
        "the mask is inverted: True = may attend, so hide where it is False: "
        "`masked_fill(~mask, …)`": _inverted,
        "the mask comes after the softmax, so rows no longer sum to 1: hide the scores "
        "before it": partial(_variant, score=None),
        "hidden scores are set to 0: exp(0) is 1, so they still count; fill with "
        "`-math.inf`": partial(_variant, score=0.0, weight=None),
        "a query that may attend to nothing gets NaN (a row of -∞ goes into the "
        "softmax): set hidden weights to 0 after the softmax, too": partial(
            _variant, weight=None
        ),
    },
    results=("context", "weights"),
    picture=_weights_beside,
    lesson="02",
)


# ------------------------------------------------------------ 02.2, going deeper


def _found(pair: tuple[Tensor, Tensor], length: int) -> Tensor:
    """The place to which each query gives at least 0.9 of its weight, or -1."""
    query, key = (torch.as_tensor(part).detach().double() for part in pair)
    weights = course.attention(query, key, key)[1]
    return weights.argmax(dim=-1).where(weights.amax(dim=-1) >= 0.9, -1)


def _one_place_back(length: int, *, loud: float = 1.0) -> tuple[Tensor, Tensor]:
    """A key for each place that no other fits, and for each query the key it wants."""
    key = torch.eye(length)
    before = (torch.arange(length) - 1).clamp(min=0)
    return loud * math.sqrt(length) * math.log(20 * length) * key[before], key


one_place_back = Exercise(
    _one_place_back,
    [
        Probe(
            n,
            praise=f"length {n}: each looks one place back",
            when=f"length {n}, the places that get 0.9 of the weight (-1: none): ",
        )
        for n in (5, 2, 12, 300)
    ],
    {
        "no key gets 0.9 of the weight: larger scores make the look-up harder, and "
        "√d_head makes yours smaller": partial(_one_place_back, loud=0.01),
        "every token looks ahead: query and key are swapped, or the shift is": (
            lambda length: _one_place_back(length)[::-1]
        ),
    },
    results=("query", "key"),
    read=_found,
)
