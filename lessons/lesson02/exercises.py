"""The exercises of lesson 02, attention: reference answers and known mistakes."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from helpers.attention import attention
from helpers.look_up import SelfAttention
from lessons.checking.comparing import same
from lessons.checking.engine import MIXED_UP, Exercise, Part, Trial
from lessons.checking.findings import Stop, wrong
from lessons.checking.pictures import weights_beside
from lessons.checking.running import stub

# ------------------------------------------------------------ 02.1 and 02.2 attention

TURN = "turn the last two axes of the key and no others: `key.transpose(-2, -1)`"
OVER_KEYS = "each query shares out a weight of 1 among the keys: `softmax(dim=-1)`"
BOTH = "`return context, weights`, in this order"
D_HEAD, KEY = "query.size(-1)", "key.transpose(-2, -1)"
SCALE, PRODUCT = f" / math.sqrt({D_HEAD})", f"query @ {KEY}"
SOFTMAX, GIVEN = "scores.softmax(dim=-1)", "weights @ value, weights"
MISTAKES = {
    "the scale is forgotten: divide the scores by the square root of d_head, "
    "`query.size(-1)`": {SCALE: ""},
    "the scores are divided by d_head instead of its square root: take "
    "`math.sqrt(query.size(-1))`": {SCALE: " / query.size(-1)"},
    "the scores are multiplied by the square root of d_head: divide: the scale makes "
    "the scores smaller": {"/ math.sqrt": "* math.sqrt"},
    "the scale is taken from the number of keys: take it from d_head, the last axis: "
    "`query.size(-1)`": {D_HEAD: "key.size(-2)"},
    "the scale is taken from the value: take it from d_head, the last axis of query "
    "and key: `query.size(-1)`": {D_HEAD: "value.size(-1)"},
    "the scale is taken from another axis: take it from d_head, the last axis: "
    "`query.size(-1)`": [{D_HEAD: f"query.size({axis})"} for axis in range(3)],
    "the scores are divided by 2 · d_head: a power comes before a quotient, so "
    "`x ** 1 / 2` is half of x: take `math.sqrt(query.size(-1))`": {
        SCALE: " / query.size(-1) / 2"
    },
    "the scores have the wrong sign: the best match needs the largest score": {
        "query @": "-query @"
    },
    f"query and key are swapped: there is a row for each query: `{PRODUCT}`": {
        PRODUCT: "key @ query.transpose(-2, -1)"
    },
    f"the query is turned: only the key is to be: `{PRODUCT}`": {
        PRODUCT: "query.transpose(-2, -1) @ key"
    },
    "`*` multiplies entry by entry: a matrix product is `@`": [
        {PRODUCT: "query * key"},
        {GIVEN: "weights * value, weights"},
    ],
    "the value stands in front: the weights' rows mix the values: `weights @ value`": {
        GIVEN: "value @ weights, weights"
    },
    "the scale comes after the softmax: divide the scores, not the weights: a row of "
    "weights must sum to 1": {SCALE: "", SOFTMAX: f"({SOFTMAX}{SCALE})"},
    f"the key is not transposed: {TURN}": {KEY: "key"},
    f"the batch axis of the key is transposed: {TURN}": {KEY: "key.transpose(0, 1)"},
    f"the heads axis of the key is transposed: {TURN}": {KEY: "key.transpose(1, 2)"},
    f"all axes of the key are reversed, which is what `key.T` does: {TURN}": {
        KEY: "key.permute(3, 2, 1, 0)"
    },
    f"the key is reshaped, which mixes its numbers: {TURN}": {
        KEY: "key.reshape(*key.shape[:-2], key.size(-1), key.size(-2))"
    },
    f"the softmax runs over the queries: {OVER_KEYS}": {"dim=-1": "dim=-2"},
    f"the softmax runs over the batch: {OVER_KEYS}": {"dim=-1": "dim=0"},
    f"the softmax runs over the heads: {OVER_KEYS}": {"dim=-1": "dim=1"},
    "the softmax is missing: weights are `scores.softmax(dim=-1)`": {SOFTMAX: "scores"},
    "the softmax is taken twice: once makes them weights": {
        SOFTMAX: f"{SOFTMAX}.softmax(dim=-1)"
    },
    "the scores are divided by their sum: they may be negative, so take exponentials "
    "first, which is the softmax": {SOFTMAX: "(scores / scores.sum(-1, True))"},
    "log_softmax stands where softmax belongs: weights are positive and sum to 1, "
    "their logarithms do not": {"scores.softmax": "scores.log_softmax"},
    "the weights are applied to the key: the key says where to look, the value what is "
    "found: `weights @ value`": {GIVEN: "weights @ key, weights"},
    "the scores are applied to the value: mix the values by what comes out of the "
    "softmax: `weights @ value`": {GIVEN: "scores @ value, weights"},
    f"only the context is returned: {BOTH}": {GIVEN: "weights @ value"},
    f"only the weights are returned: {BOTH}": {GIVEN: "weights"},
    f"context and weights are swapped: {BOTH}": {GIVEN: "weights, weights @ value"},
    "the scores are returned in place of the weights: the second result is what comes "
    "out of the softmax": {GIVEN: "weights @ value, scores"},
}
HARM = "hidden keys still do harm where the visible scores are very low: "
LATE = (
    "the mask comes after the softmax: hidden keys then keep their share and the rows "
)
LATE += "no longer sum to 1: hide the scores, before the softmax"
BLIND = (
    "a query that may attend to nothing gets NaN (a row of -∞ goes into the softmax): "
    "set hidden weights to 0 after the softmax, too"
)
HIDE, FILL, AGAIN = (
    "scores = scores.masked_fill(~mask, -math.inf)",
    "~mask, -math.inf",
    ".masked_fill(~mask, 0.0)",
)
MASK_MISTAKES = {
    "the mask has no effect: `scores.masked_fill(…)` returns a new tensor: is its "
    "result thrown away? Write `scores = scores.masked_fill(…)`": {HIDE: "", AGAIN: ""},
    "the mask is inverted: True = may attend, so hide where it is False: "
    "`masked_fill(~mask, …)`": [
        {FILL: "mask, -math.inf", AGAIN: ""},
        {FILL: "mask, -math.inf", AGAIN: ".masked_fill(mask, 0.0)"},
        {HIDE: "", AGAIN: ".masked_fill(mask, 0.0)"},
    ],
    "the mask is inverted in one of two places: True = may attend, so both hide where "
    "it is False: `masked_fill(~mask, …)`": [
        {FILL: "mask, -math.inf"},
        {AGAIN: ".masked_fill(mask, 0.0)"},
    ],
    "the mask is transposed: its last axis are the keys, as in the scores": {
        FILL: "~mask.mT, -math.inf",
        AGAIN: "",
    },
    LATE: [
        {HIDE: ""},
        {HIDE: "", AGAIN: ".masked_fill(~mask, -math.inf)"},
        {HIDE: "", AGAIN: ".masked_fill(~mask, -1e9)"},
    ],
    "hidden scores are set to 0: exp(0) is 1, so they still count; fill with "
    "`-math.inf` (or -1e9; 1e-9 is 0)": [
        {FILL: "~mask, 0.0", AGAIN: ""},
        {FILL: "~mask, 0.0"},
    ],
    "hidden scores are set to +∞: the sign: fill with `-math.inf`": [
        {FILL: "~mask, math.inf", AGAIN: ""},
        {FILL: "~mask, 1e9", AGAIN: ""},
    ],
    "`~mask * -math.inf` is NaN where nothing is hidden, as 0 · ∞ is: use "
    "`masked_fill(~mask, -math.inf)`": {HIDE: "scores = scores + (~mask) * -math.inf"},
    "the mask is added to the scores as 0 and 1: that only favours what may be seen; "
    "hide the rest: `masked_fill(~mask, …)`": {
        HIDE: "scores = scores + mask",
        AGAIN: "",
    },
    f"{HARM}fill the scores with `-math.inf`, before the softmax: after it is too "
    "late, and a number like -100 is not low enough": [
        {
            HIDE: "",
            AGAIN: f"{AGAIN}\n    weights = weights / (weights.sum(-1, True) + 1e-9)",
        },
        {FILL: "~mask, -100.0", AGAIN: ""},
        {FILL: "~mask, -1000.0"},
    ],
    BLIND: {AGAIN: ""},
    "a query that may attend to nothing gets an average of what is hidden (a finite "
    "number stands for -∞): set hidden weights to 0 after the softmax, too": {
        FILL: "~mask, -1e9",
        AGAIN: "",
    },
}
# batch, heads, query_length, key_length, d_head, d_value: all different, so that no two
# axes can be taken for each other; and all alike, so that what is mixed up still runs.
SIZES, OTHER, ALIKE = (2, 3, 4, 5, 6, 7), (3, 2, 2, 4, 9, 5), (4, 4, 4, 4, 4, 4)


def _inputs(sizes: tuple[int, ...], seed: int, count: int) -> tuple[Tensor, ...]:
    """The first so many of: random query, key and value, and a mask.

    It hides a third and nothing from the last query; every line along any axis keeps
    something to see.
    """
    batch, heads, queries, keys, d_head, d_value = sizes
    generator = torch.Generator().manual_seed(seed)
    each = (queries, d_head), (keys, d_head), (keys, d_value)
    tensors = [torch.randn(batch, heads, *x, generator=generator) for x in each]
    steps = [torch.arange(size) for size in sizes[:4]]
    b, h, q, k = torch.meshgrid(*steps, indexing="ij")
    mask = ((b + h + 2 * q + k) % 3 != 0) | (q == queries - 1)
    # With other sizes, one row of the mask serves all heads and queries.
    return (*tensors, mask[:, :1, :1] if sizes == OTHER else mask)[:count]


def _describe(value, due) -> str:
    """What can be said of wrong numbers that no known mistake gives."""
    for name, part in zip(("context", "weights"), value, strict=True):
        if not part.isfinite().all():
            return f"{name} holds NaN or infinity: print the scores before the softmax"
    fits, sums = [*map(same, value, due)], value[1].sum(-1)
    if fits[1]:
        return "the weights are right but the context is not: it is `weights @ value`"
    if fits[0]:
        return "the context is right but the second result is not its weights"
    if (sums - 1).abs().max() > 0.001:
        worst = sums.flatten()[(sums - 1).abs().argmax()]
        return f"a row of weights sums to {worst:.3f}, not to 1: {OVER_KEYS}"
    return "the rows sum to 1, but the weights differ from the expected ones: see below"


def _picture(value, due):
    """The first head's weights, if the learner's have the right shape."""
    if value[1].shape != due[1].shape:
        return None
    return partial(weights_beside, value[1][0, 0].detach(), due[1][0, 0])


def _changed(*changes: tuple) -> tuple[Tensor, ...]:
    """Inputs in which these places of these tensors hold another number."""
    inputs = _inputs(SIZES, 0, 4)
    for index, place, number in changes:
        inputs[index][place] = number
    return inputs


def _about(part: Tensor, due: Tensor) -> bool:
    """Whether they agree as far as large scores allow in float32."""
    return torch.allclose(part, due, atol=1e-3)


BLIND_INPUTS = _changed((3, (0, 0, 0), False))
ATTENTION = {
    "praise": [
        "weights: one row per query, summing to 1, equal to the expected ones",
        "context: the values, mixed by these weights",
    ],
    "results": ("context", "weights"),
    "shown": attention,
    "describe": _describe,
    "picture": _picture,
}


def _loud(*more: Tensor) -> Trial:
    """Inputs whose scores are too large for exponentials in float32."""
    query, key, value = _inputs(SIZES, 0, 3)
    return Trial(
        (100 * query, key, value, *more),
        ["large scores do no harm"],
        "where scores are large: ",
        "the result is wrong. An exponential above 88 is infinite, one far below 0 is "
        "0: `softmax` subtracts the largest score of each row first",
        accepts=lambda value, due: all(map(_about, value, due)),
    )


scaled_attention = Exercise(
    """\
def my_attention(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    weights = scores.softmax(dim=-1)
    return weights @ value, weights
""",
    Part(
        "my_attention",
        MISTAKES,
        lambda seed: [_inputs(sizes, seed, 3) for sizes in (SIZES, OTHER)],
        lenient=lambda seed: _inputs(ALIKE, seed, 3),
        trials=[_loud()],
        **ATTENTION,
    ),
)
masked_attention = Exercise(
    """\
def my_masked_attention(query, key, value, mask):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1).masked_fill(~mask, 0.0)
    return weights @ value, weights
""",
    Part(
        "my_masked_attention",
        MASK_MISTAKES | MISTAKES,
        lambda seed: [_inputs(sizes, seed, 4) for sizes in (SIZES, OTHER)],
        lenient=lambda seed: _inputs(ALIKE, seed, 4),
        doubt="is a size written as a number, or the mask not broadcast? ",
        only_lenient=f"{MIXED_UP}, or the mask is not broadcast",
        trials=[
            _loud(torch.ones(1, 1, 1, 5, dtype=torch.bool)),
            Trial(  # a loud key, hidden from all queries, and others with low scores
                _changed(
                    (0, (..., 0), 10),
                    (1, (..., 0), -600),
                    (1, (..., 4, 0), 1000),
                    (3, ..., torch.arange(5) < 4),
                ),
                ["hidden keys do no harm, however low the visible scores"],
                otherwise=f"{HARM}fill the scores with `-math.inf`, before the softmax",
                accepts=lambda value, due: all(map(_about, value, due)),
            ),
            Trial(  # a query from which every key is hidden
                BLIND_INPUTS,
                ["a query that may attend to nothing gets weights and context of 0"],
                otherwise="where a query may attend to nothing, the result is wrong: "
                "its weights and its context are to be 0; other queries get theirs",
                gradients="where a query may attend to nothing, the gradients are "
                "wrong (NaN): hide scores by `masked_fill`, not by adding -∞, and set "
                "the weights to 0 before they meet the values",
            ),
        ],
        **ATTENTION,
    ),
)

# ------------------------------------------------------------ 02.3 write the layer

LAYERS = ("query", "key", "value")
THREE = "three `nn.Linear` without bias are due, `self.query`, `self.key`, `self.value`"


def _as_function(layer: Any) -> Callable:
    """The layer as a function of x and of the weights that it is to have."""

    def function(x: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Any:
        if isinstance(layer, nn.Module):
            raise Stop(wrong("hand over the class itself, without parentheses"))
        sizes = x.size(-1), query.size(0), value.size(0)
        module = layer(*sizes)
        if module is None or module is ... or stub(getattr(layer, "forward", None)):
            raise NotImplementedError
        given, used = {}, []
        for name, weight in zip(LAYERS, (query, key, value), strict=True):
            linear = getattr(module, name, None)
            if linear is None:
                raise Stop(wrong(f"{THREE}: there is no `self.{name}`"))
            if not isinstance(linear, nn.Linear):
                kind = type(linear).__name__
                raise Stop(wrong(f"{THREE}: `self.{name}` is a {kind}"))
            if any(linear.weight is other.weight for other in used):
                raise Stop(
                    wrong(f"{THREE}: `self.{name}` is the same layer as another")
                )
            used.append(linear)
            if linear.bias is not None:
                raise Stop(wrong(f"{THREE}: `self.{name}` has a bias"))
            if linear.weight.shape != weight.shape:
                shapes = tuple(linear.weight.shape), tuple(weight.shape)
                text = "the weight of `self.{}` has shape {}, not {}: `nn.Linear(in, "
                text += "out)`, here with d_model {}, d_head {} and d_value {}"
                raise Stop(wrong(text.format(name, *shapes, *sizes)))
            given[f"{name}.weight"] = weight
        for name, _ in module.named_parameters():
            if name not in given:
                raise Stop(wrong(f"{THREE}, and no more: there is `self.{name}`, too"))
        return functional_call(module, given, (x,))

    return function


def _layer_inputs(
    seed: int, batch: int, length: int, d_model: int, d_head: int, d_value: int
) -> tuple[Tensor, ...]:
    """Random x, and the weights of three projections."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (batch, length), (d_head,), (d_head,), (d_value,)
    return tuple(torch.randn(*x, d_model, generator=generator) for x in shapes)


QUERY, KEY_OF, VALUE_OF = "self.query(x)", "self.key(x)", "self.value(x)"
ALL = f"({QUERY}, {KEY_OF}, {VALUE_OF})"
self_attention = Exercise(
    """\
class MySelfAttention(nn.Module):
    def __init__(self, d_model, d_head, d_value):
        super().__init__()
        self.query = nn.Linear(d_model, d_head, bias=False)
        self.key = nn.Linear(d_model, d_head, bias=False)
        self.value = nn.Linear(d_model, d_value, bias=False)

    def forward(self, x):
        return attention(self.query(x), self.key(x), self.value(x))
""",
    Part(
        "MySelfAttention",
        {
            "the keys are made by `self.query`: each projection has its own layer": {
                KEY_OF: QUERY
            },
            "the queries are made by `self.key`: each projection has its own layer": {
                QUERY: KEY_OF
            },
            "query and key are swapped: `attention(query, key, value)`": {
                QUERY: KEY_OF,
                KEY_OF: QUERY,
            },
            "the scores are not divided by √d_head; `attention` does that": {
                QUERY: f"{QUERY} * self.query.out_features**0.5"
            },
            "the value is x itself: project it, too: `self.value(x)`": {VALUE_OF: "x"},
            "the values are made by `self.key`: they have a layer of their own": {
                VALUE_OF: KEY_OF
            },
            "key and value are swapped: `attention(query, key, value)`": {
                KEY_OF: VALUE_OF,
                VALUE_OF: KEY_OF,
            },
            "x is attended to as it came: project it first, three times": {
                f"{QUERY}, {KEY_OF}, {VALUE_OF}": "x, x, x"
            },
            f"only the context is returned: {BOTH}": {ALL: f"{ALL}[0]"},
            f"context and weights are swapped: {BOTH}": {ALL: f"{ALL}[::-1]"},
        },
        lambda seed: [
            _layer_inputs(seed, 2, 5, 6, 3, 4),
            _layer_inputs(seed, 3, 4, 7, 8, 2),
        ],
        [
            "three projections, each with its own weights",
            "context and weights are those of `attention`",
        ],
        lenient=lambda seed: _layer_inputs(seed, 4, 4, 4, 4, 4),
        results=("context", "weights"),
        describe=_describe,
        shown=SelfAttention,
        use=_as_function,
    ),
    uses={"attention": attention},
)

# ------------------------------------------------------------ 02.4 one place back


def _weights(pair: tuple[Tensor, Tensor], length: int) -> Tensor:
    """The attention weights that a learner's query and key give."""
    query, key = (part.detach().double() for part in pair)
    if query.dim() != 2 or query.shape != key.shape or len(query) != length:
        found = f"{tuple(query.shape)} and {tuple(key.shape)}"
        both = f"query and key are both to have the shape ({length}, d_head)"
        raise Stop(wrong(f"{both}, not {found}"))
    if not (query.float() @ key.float().mT).isfinite().all():
        text = "the scores hold NaN or infinity: query or key do, or are too large"
        raise Stop(wrong(text))
    return attention(query, key, torch.zeros(length, 1).double())[1]


def _looked_at(weights: Tensor) -> Tensor:
    """For each query the key with the largest weight, -1 if others have as much.

    Where these others are all but one, -2.
    """
    ordered = weights.sort(dim=-1, descending=True)[0]
    places = weights.argmax(dim=-1).where(ordered[:, 0] > 1.001 * ordered[:, 1], -1)
    low = (ordered[:, -1] < 0.999 * ordered[:, -2]) & (places == -1)
    return places.where(~low, -2)


def _share(weights: Tensor, due: Tensor) -> float:
    """The smallest weight where one is due, in whole hundredths that it reaches."""
    return math.floor(100 * weights[due > 0.5].min().item() + 0.01) / 100


def _at_length(length: int) -> Trial:
    # Above 100 there is nothing to see in a picture, but much to find: 1,000 keys share
    # what a score that was loud enough for 12 leaves.
    short = length < 100
    return Trial(
        (length,),
        [f"length {length}: the right key gets at least {{share:.2f}}"],
        f"length {length}: ",
        "the largest weights are not one place back" + ": compare the pictures" * short,
        lambda weights, due: _share(weights, due) >= 0.9,
        lambda weights, due: {"share": _share(weights, due)},
        lambda weights, due: partial(weights_beside, weights, due) if short else None,
    )


ONE_HOT = "F.one_hot(torch.arange(length)).float()"
BACK = "(torch.arange(length) - 1).clamp(min=0)"
LOUD = "math.sqrt(length) * math.log(20 * length)"
PAIR = "loudness * key[before], key"
FIRST = "only the first token is wrong: "
ITSELF = "nothing is before it, so itself is due"
one_place_back = Exercise(
    """\
def one_place_back(length):
    key = F.one_hot(torch.arange(length)).float()
    before = (torch.arange(length) - 1).clamp(min=0)
    loudness = math.sqrt(length) * math.log(20 * length)
    return loudness * key[before], key
""",
    Part(
        "one_place_back",
        {
            "every key gets the same weight: query and key do not tell places apart": {
                ONE_HOT: "torch.ones(length, 4)"
            },
            "the right keys win, but one gets only {share:.2f}: larger scores make the "
            "look-up harder, and √d_head makes yours smaller": [
                {LOUD: "1.0"},
                {LOUD: "10.0"},
                {LOUD: "100.0"},
            ],
            "every token looks at itself: shift the query, or the key, by one place": {
                BACK: "torch.arange(length)"
            },
            "every token looks ahead: query and key are swapped, or the shift is": [
                {BACK: "(torch.arange(length) + 1).clamp(max=length - 1)"},
                {PAIR: "key, loudness * key[before]"},
            ],
            FIRST + ITSELF: [
                {BACK: "torch.arange(length).roll(1)"},
                {BACK: "(torch.arange(length) - 1).abs()"},
            ],
            "the right key gets the smallest weight: a sign is wrong": {
                LOUD: f"-{LOUD}"
            },
            f"{FIRST}its query is zero, so it looks at all keys alike; {ITSELF}": {
                PAIR: "loudness * key[before] * (key[:, :1] == 0), key"
            },
        },
        trials=[*map(_at_length, (5, 2, 12, 200, 1000))],
        results=("query", "key"),
        measure=_weights,
        outline=_looked_at,
    ),
)
