"""The exercises of lesson 02: attention, and a look-up of the place before."""

import math
from functools import partial

import torch
from matplotlib import pyplot as plt
from torch import Tensor

from helpers import attention as course
from helpers.exercise import Exercise, Probe
from helpers.plots import heatmap


def _probe(*sizes: int, hidden: str = "some", loud: float = 1.0, **said: str) -> Probe:
    """Random inputs of these axes, query_length, key_length, d_head and d_value.

    A mask (query_length, key_length) hides a third of the keys; `hidden` is "none" of
    them, "some", "padding" in a mask (batch, 1, 1, key_length), or for the first query
    "all". `loud` multiplies the scores.
    """
    *axes, queries, keys, d_head, d_value = sizes
    chance = torch.Generator().manual_seed(sum(sizes))
    each = (queries, d_head), (keys, d_head), (keys, d_value)
    q, k, v = (torch.randn(*axes, *x, generator=chance) for x in each)
    mask = (2 * torch.arange(queries)[:, None] + torch.arange(keys)) % 3 != 0
    if hidden == "all":
        mask[0] = False
    if hidden == "padding":
        mask = torch.arange(keys) < torch.tensor([keys, keys - 2])[:, None, None, None]
    return Probe(loud * q, k, v, *[mask] * (hidden != "none"), **said)


def _weights_beside(yours: tuple, due: tuple) -> None:
    """Draw the weights of the first look-up, the learner's beside those expected."""
    _, axes = plt.subplots(1, 2, figsize=(7, 2.6))
    for ax, (_, weights), title in zip(
        axes, (yours, due), ("yours", "expected"), strict=True
    ):
        first = weights.detach().flatten(0, -3)[0]
        rows, columns = (range(1, size + 1) for size in first.shape)
        heatmap(
            first, rows, columns, title=title, ax=ax, numbers=True, colour_bar=False
        )
    plt.show()


def _variant(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    power: float = 0.5,
    axis: int = -1,
    early: float = -math.inf,
    late: float = 0.0,
    inverted: bool = False,
) -> tuple[Tensor, Tensor]:
    """Attention, and with other options what is wrong with it."""
    scores = query @ key.mT / query.size(-1) ** power
    hidden = torch.zeros_like(scores, dtype=torch.bool)
    if mask is not None:
        hidden = (mask if inverted else ~mask).expand(scores.shape)
    weights = scores.masked_fill(hidden, early).softmax(dim=axis)
    if not math.isnan(late):
        weights = weights.masked_fill(hidden, late)
    return weights @ value, weights


def _late(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None):
    """The mask after the softmax."""
    weights = course.attention(query, key, value)[1]
    weights = weights if mask is None else weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


OVER_KEYS = "each query shares out a weight of 1 among the keys: `softmax(dim=-1)`"
attention = Exercise(
    course.attention,
    [
        _probe(2, 3, 4, 5, 6, 7, hidden="none", praise="weights and context are right"),
        _probe(3, 2, 2, 9, 5, when="with axes (3,) in front: ", hidden="none"),
        _probe(4, 4, 4, 4, 4, 4, alike=True, hidden="none"),
        _probe(2, 3, 4, 5, 6, 7, praise="hidden keys get a weight of 0"),
        _probe(4, 4, 4, 4, 4, 4, alike=True),
        _probe(
            *(2, 1, 3, 4, 8, 2),
            loud=300.0,
            praise="large scores do no harm",
            when="where scores are large: ",
        ),
        _probe(2, 3, 2, 5, 4, 3, hidden="padding", when="with a mask (2, 1, 1, 5): "),
        _probe(1, 5, 4, 3, when="with no axes in front, and a mask (1, 5): "),
        _probe(
            *(1, 2, 3, 5, 4, 3),
            hidden="all",
            praise="a query that may attend to nothing gets weights and context of 0",
            when="for a query that may attend to nothing, all is to be 0: ",
        ),
    ],
    {
        "the scale is forgotten: divide the scores by the square root of d_head, "
        "`query.size(-1)`": partial(_variant, power=0.0),
        "the scores are divided by d_head instead of its square root: take "
        "`math.sqrt(query.size(-1))`": partial(_variant, power=1.0),
        f"the softmax runs over the queries: {OVER_KEYS}": partial(_variant, axis=-2),
        "the mask is not used: hide the scores where it is False, before the softmax": (
            lambda query, key, value, mask=None: course.attention(query, key, value)
        ),
        "the mask is inverted: True = may attend, so hide where it is False: "
        "`masked_fill(~mask, …)`": partial(_variant, inverted=True),
        "the mask comes after the softmax, so rows no longer sum to 1: hide the scores "
        "before it": _late,
        "hidden scores are set to 0: exp(0) is 1, so they still count; fill with "
        "`-math.inf`": partial(_variant, early=0.0, late=math.nan),
        "a query that may attend to nothing gets NaN (a row of -∞ goes into the "
        "softmax): set hidden weights to 0 after the softmax, too": partial(
            _variant, late=math.nan
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


def _one_place_back(
    length: int, *, back: int = 1, loud: float = 1.0
) -> tuple[Tensor, Tensor]:
    """A key for each place that no other fits, and for each query the key it wants."""
    key = torch.eye(length)
    before = (torch.arange(length) - back).clamp(0, length - 1)
    return loud * math.sqrt(length) * math.log(20 * length) * key[before], key


one_place_back = Exercise(
    _one_place_back,
    [
        Probe(
            n,
            praise=f"length {n}: each looks one place back",
            when=f"length {n}, the places that get 0.9 of the weight (-1: none): ",
        )
        for n in (5, 2, 12, 1000)
    ],
    {
        "no key gets 0.9 of the weight: larger scores make the look-up harder, and "
        "√d_head makes yours smaller": partial(_one_place_back, loud=0.01),
        "every token looks at itself: shift the query, or the key, by one": partial(
            _one_place_back, back=0
        ),
        "every token looks ahead: query and key are swapped, or the shift is": (
            lambda length: _one_place_back(length)[::-1]
        ),
    },
    results=("query", "key"),
    read=_found,
)
