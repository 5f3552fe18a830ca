"""The exercises of lesson 17, since 2017: reference answers and known mistakes."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from helpers.modern.rotary import rotary_angles, rotate
from lessons.checking.engine import Exercise, Part
from lessons.checking.findings import Stop, wrong
from lessons.checking.values import Values

# ------------------------------------------------------------ 17.1 rotate


def _to_rotate(seed: int, *sizes: int) -> tuple[Tensor, Tensor]:
    """x (batch, heads, length, d_head) and angles (length, d_head / 2), any numbers."""
    generator = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(sizes, generator=generator)
    angles = 4 * torch.randn(sizes[-2], sizes[-1] // 2, generator=generator)
    return x, angles


def _with_fixed_angles(rotate_: Callable) -> Callable:
    """The learner's function; angles are numbers, to which no gradient need flow."""

    @wraps(rotate_)
    def function(x: Tensor, angles: Tensor) -> Any:
        return rotate_(x, angles.detach())

    return function


ONE, OTHER = "first * cosine - second * sine", "first * sine + second * cosine"
HALVES, NEIGHBOURS = "x.chunk(2, dim=-1)", "(x[..., 0::2], x[..., 1::2])"
JOINED, SIDE_BY_SIDE = (
    "torch.cat(turned, dim=-1)",
    "torch.stack(turned, dim=-1).flatten(-2)",
)
BOTH = "angles.cos(), angles.sin()"
ANEW = "[f(rotary_angles(x.size(-2), x.size(-1))) for f in (torch.cos, torch.sin)]"
PAIRS = "feature i turns with feature i + d_head / 2"
ROTATION = (
    "the rotation is `first · cos − second · sin` and `first · sin + second · cos`"
)
rotation = Exercise(
    """\
def my_rotate(x, angles):
    first, second = x.chunk(2, dim=-1)
    cosine, sine = angles.cos(), angles.sin()
    turned = first * cosine - second * sine, first * sine + second * cosine
    return torch.cat(turned, dim=-1)
""",
    Part(
        "my_rotate",
        {
            f"neighbours are turned together, as in the paper: here {PAIRS}": {
                HALVES: NEIGHBOURS,
                JOINED: SIDE_BY_SIDE,
            },
            f"pairs of neighbours are read, and halves are written: {PAIRS}, before "
            "and after": {HALVES: NEIGHBOURS},
            f"halves are read, and pairs of neighbours are written: {PAIRS}, before "
            "and after": {JOINED: SIDE_BY_SIDE},
            "the two halves are swapped: the first one comes first": [
                {f"{ONE}, {OTHER}": f"{OTHER}, {ONE}"},
            ],
            f"it turns the other way: {ROTATION}": {
                ONE: "first * cosine + second * sine",
                OTHER: "second * cosine - first * sine",
            },
            f"a sign in the first half is wrong: {ROTATION}": {
                ONE: "first * cosine + second * sine"
            },
            f"a sign in the second half is wrong: {ROTATION}": [
                {OTHER: "first * sine - second * cosine"},
                {OTHER: "second * cosine - first * sine"},
            ],
            f"cosine and sine are swapped: {ROTATION}": {
                BOTH: "angles.sin(), angles.cos()"
            },
            "the second half is computed from a first half that is turned already: "
            "keep the old one until both are computed": {
                f"turned = {ONE}, {OTHER}": f"first = {ONE}\n"
                f"    turned = first, {OTHER}"
            },
            f"only the cosine is applied: {ROTATION}": {
                f"{ONE}, {OTHER}": "first * cosine, second * cosine"
            },
            f"only the sine is applied: {ROTATION}": {
                f"{ONE}, {OTHER}": "first * sine, second * sine"
            },
            "the angles are computed anew: use those that are handed over": {
                BOTH: ANEW
            },
            "all pairs turn by the first pair's angle: pair i has `angles[:, i]`": {
                BOTH: "angles[:, :1].cos(), angles[:, :1].sin()"
            },
            "all positions turn by the first one's angles: each position has a row of "
            "`angles`": {BOTH: "angles[:1].cos(), angles[:1].sin()"},
            f"the first feature is paired with the last one: {PAIRS}": {
                HALVES: "(x.chunk(2, dim=-1)[0], x.chunk(2, dim=-1)[1].flip(-1))",
                JOINED: "torch.cat([turned[0], turned[1].flip(-1)], dim=-1)",
            },
            "each angle serves two neighbours, while halves are paired: pair i has "
            "`angles[:, i]`": {
                BOTH: "[f(angles.repeat_interleave(2, -1)).chunk(2, -1) for f in "
                "(torch.cos, torch.sin)]",
                f"{ONE}, {OTHER}": "first * cosine[0] - second * sine[0], "
                "first * sine[1] + second * cosine[1]",
            },
            "the angles are taken for degrees: they are radians": {
                BOTH: "angles.deg2rad().cos(), angles.deg2rad().sin()"
            },
            "it turns by twice the angle: `angles` are whole angles, not halves": {
                BOTH: "(2 * angles).cos(), (2 * angles).sin()"
            },
            "x comes back as it was: return what is turned": {JOINED: "x"},
            "the halves stand one after the other along the positions: join them along "
            "the features, the last axis": {
                JOINED: "torch.cat(turned, dim=-2)",
            },
        },
        lambda seed: [
            _to_rotate(seed, 2, 3, 4, 6),
            _to_rotate(seed + 1, 1, 2, 5 + seed % 3, 10),
            _to_rotate(seed + 2, 3, 1, 7, 2),
        ],
        ["feature i and feature i + d_head / 2 turn by the position's angle"],
        shown=rotate,
        use=_with_fixed_angles,
    ),
    uses={"rotary_angles": rotary_angles},
)

# ------------------------------------------------------------ 17.2 grouped queries


def _heads(seed: int, *sizes: int) -> tuple[Tensor, ...]:
    """query, key and value for (batch, n_heads, n_kv_heads, queries, keys, d_head)."""
    batch, n_heads, n_kv_heads, queries, keys, d_head = sizes
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(batch, n_heads, queries, d_head, generator=generator)
    shape = 2, batch, n_kv_heads, keys, d_head
    return 2 * query, *torch.randn(shape, generator=generator)


class _NoGrouping(TorchFunctionMode):
    """Stops a call of PyTorch's attention that shares the heads by itself."""

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention and kwargs.get("enable_gqa"):
            text = "`enable_gqa` shares the heads for you: here, share them yourself"
            raise Stop(wrong(text))
        return func(*args, **kwargs)


def _without_grouping(attend: Callable) -> Callable:
    """The learner's function, stopped where it lets PyTorch share the heads."""

    @wraps(attend)
    def function(*inputs: Tensor) -> Any:
        with _NoGrouping():
            return attend(*inputs)

    return function


KEY, VALUE = (f"{x}.repeat_interleave(group, dim=1)" for x in ("key", "value"))
CALL = "F.scaled_dot_product_attention(query, key, value)"
AVERAGED = (
    "F.scaled_dot_product_attention(query.unflatten(1, (-1, group)).mean(dim=2)"
    ".repeat_interleave(group, dim=1), key, value)"
)
TILED = (
    "in turns, 0, 1, 0, 1: neighbours share a head, 0, 0, 1, 1, which is "
    "`repeat_interleave` and not `repeat`"
)
grouped = Exercise(
    """\
def my_grouped_attention(query, key, value):
    group = query.size(1) // key.size(1)
    key = key.repeat_interleave(group, dim=1)
    value = value.repeat_interleave(group, dim=1)
    return F.scaled_dot_product_attention(query, key, value)
""",
    Part(
        "my_grouped_attention",
        {
            f"query heads take keys and values {TILED}": {
                KEY: "key.repeat(1, group, 1, 1)",
                VALUE: "value.repeat(1, group, 1, 1)",
            },
            f"query heads take keys {TILED}": {KEY: "key.repeat(1, group, 1, 1)"},
            f"query heads take values {TILED}": {VALUE: "value.repeat(1, group, 1, 1)"},
            "all query heads read the first head of keys and values: each group has "
            "a head of its own": {KEY: "key[:, :1]", VALUE: "value[:, :1]"},
            "the heads of keys and values are averaged: each group has a head of its "
            "own": {
                KEY: "key.mean(dim=1, keepdim=True)",
                VALUE: "value.mean(dim=1, keepdim=True)",
            },
            "keys and values are swapped: the query is compared with the key": {
                CALL: CALL.replace("key, value", "value, key")
            },
            "the keys serve as values, too": {
                CALL: CALL.replace("key, value", "key, key")
            },
            "the scale is forgotten: divide the scores by √d_head": {
                CALL: CALL.replace("value)", "value, scale=1.0)")
            },
            "the weights are taken over the queries: softmax runs over the keys, the "
            "last axis": {
                CALL: "((query @ key.mT) / query.size(-1) ** 0.5).softmax(-2) @ value"
            },
            "the queries of a group are averaged: each query head asks for itself, and "
            "only keys and values are shared": {CALL: AVERAGED},
            "the heads of keys and values are taken from the last to the first: the "
            "first group reads the first head": {
                KEY: KEY.replace("key.", "key.flip(1)."),
                VALUE: VALUE.replace("value.", "value.flip(1)."),
            },
            "the future is hidden: this exercise asks for no mask": {
                CALL: CALL.replace("value)", "value, is_causal=True)")
            },
        },
        lambda seed: [
            _heads(seed, 2, 4, 2, 5, 6, 3),
            _heads(seed + 1, 1, 6, 2, 3, 4 + seed % 3, 5),
            _heads(seed + 2, 3, 6, 3, 4, 7, 2),
            _heads(seed + 3, 2, 3, 1, 2, 5, 4),
            _heads(seed + 4, 1, 3, 3, 6, 2, 8),
        ],
        ["each group of query heads reads its own head of keys and values"],
        use=_without_grouping,
        others="it works for one head of keys, and for as many as there are queries",
        lenient=lambda seed: _heads(seed + 5, 2, 4, 1, 3, 5, 6),
        only_lenient="it is right only where all query heads share one head: give each "
        "head of keys and values to as many query heads as a group has",
    ),
)

# ------------------------------------------------------------ 17.3 sizes

sizes = Values(
    """\
cache_bytes = 2 * 32 * 8 * 128 * 2  # keys and values, layers, heads, d_head, bytes
parameters = 2 * 4096**2 + 2 * 4096 * 8 * 128 + 3 * 4096 * 14336 + 2 * 4096
""",
    {
        "cache_bytes": {
            65_536: "keys *and* values are kept, each number in 2 bytes",
            524_288: "8 heads of keys and values are kept, not one for each query",
            262_144: "a number takes 2 bytes, not 4",
            1_048_576: "give bytes, not bits",
            4_096: "each of 32 layers has a cache of its own",
            2_048: "each of 32 layers keeps keys *and* values, of 2 bytes a number",
            16_384: "all 32 layers count, and in each 8 heads of d_head numbers",
            4_194_304: "8 heads of 128 numbers: d_model, 4096, counts 32 heads",
            128: "give bytes, not KiB",
            131.072: "give bytes, not kB",
            0.125: "give bytes, not MiB",
            1_024: "8 heads of 128 numbers are one key, in one layer",
        },
        "parameters": {
            159_391_744: "SwiGLU has three matrices",
            243_277_824: "the matrices for keys and values are smaller: 8 heads of 128",
            218_103_808: "two RMSNorms have a gain for each feature",
            218_107_904: "there are two RMSNorms",
            201_334_784: "attention also has an output projection",
            209_723_392: "keys and values have a matrix each",
            213_917_696: "keys and values have a matrix each",
            218_120_192: "an RMSNorm has a gain, and no bias",
            218: "give the number itself, not millions",
            218.112: "give the number itself, not millions",
            6_979_584_000: "one block is asked for, not all 32",
        },
    },
    {
        "cache_bytes": "{way}: keys and values · layers · heads of keys · d_head · "
        "bytes of a number",
        "parameters": "{way}: four matrices of attention, three of SwiGLU, two gains",
    },
)
