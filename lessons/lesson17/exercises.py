"""The exercises of lesson 17: the rotation, and a block of today."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from helpers.caching import AttentionCache
from helpers.exercise import Exercise, Probe
from helpers.masks import causal_mask
from helpers.modern import rotary
from helpers.modern.block import ModernBlock

# ------------------------------------------------------------ 17.1 rotate


class _Rotation(Exercise):
    """An exercise in which no gradient need reach the angles."""

    def _built(self, answer: Callable, probe: Probe) -> tuple[Callable, dict]:
        return lambda x, angles: answer(x, angles.detach()), {}


def _to_rotate(*sizes: int, **said: str) -> Probe:
    """x (…, length, d_head) and angles (length, d_head / 2), any numbers."""
    chance = torch.Generator().manual_seed(sizes[-2])
    x = 3 * torch.randn(sizes, generator=chance)
    angles = 4 * torch.randn(sizes[-2], sizes[-1] // 2, generator=chance)
    return Probe(x, angles, **said)


def _turned(
    x: Tensor,
    angles: Tensor,
    *,
    neighbours: bool = False,
    sign: int = 1,
    overwritten: bool = False,
) -> Tensor:
    """The rotation, and with other options what is wrong with it."""
    cosine, sine = angles.cos(), angles.sin()
    first, second = (x[..., 0::2], x[..., 1::2]) if neighbours else x.chunk(2, dim=-1)
    sine = sign * sine
    one = first * cosine - second * sine
    other = (one if overwritten else first) * sine + second * cosine
    if neighbours:
        return torch.stack([one, other], dim=-1).flatten(-2)
    return torch.cat([one, other], dim=-1)


PAIRS = "feature i turns with feature i + d_head / 2"
RULE = "the pair (a, b) becomes (a·cos − b·sin, a·sin + b·cos)"
rotate = _Rotation(
    rotary.rotate,
    [
        _to_rotate(2, 3, 4, 6, praise=f"{PAIRS}, by the position's angle"),
        _to_rotate(1, 2, 5, 10, when="with other sizes: "),
        _to_rotate(3, 1, 7, 2, praise="other sizes, and a single pair"),
        _to_rotate(
            *(5, 16),
            praise="without batch and heads",
            when="x of two axes, (length, d_head): ",
        ),
    ],
    {
        f"neighbours are turned together, as in the paper: here {PAIRS}": partial(
            _turned, neighbours=True
        ),
        f"it turns the other way: {RULE}": partial(_turned, sign=-1),
        "the second half is made from a first half that is turned already: keep the "
        "old one until both are made": partial(_turned, overwritten=True),
    },
    lesson="17",
)

# ------------------------------------------------------------ 17.2 a block of today


def _stream(
    seed: int,
    length: int,
    *sizes: int,
    earlier: int = 0,
    short: bool = False,
    alone: bool = False,
    **said: Any,
) -> Probe:
    """A block of (d_model, n_heads, n_kv_heads, d_ff), and a stream that it reads.

    `short` shortens every other vector, so that ε counts; `alone`: x is all.
    """
    d_model, n_heads, n_kv_heads, _ = sizes
    chance, d_head = torch.Generator().manual_seed(seed), d_model // n_heads
    x = torch.randn(2, length, d_model, generator=chance)
    if short:
        x[:, ::2] *= 0.003
    whole, named = earlier + length, {}
    if not alone:
        named["angles"] = rotary.rotary_angles(whole, d_head)[earlier:]
        named["mask"] = causal_mask(whole)[:, :, earlier:]
    if earlier:
        past = torch.randn(2, 2, n_kv_heads, earlier, d_head, generator=chance)
        named["cache"] = AttentionCache(*past)
    return Probe(x, build=lambda block: block(*sizes), **named, **said)


def _one_by_one(block: type[nn.Module]) -> nn.Module:
    """A block that reads positions one at a time, with a cache that starts empty."""
    module = block(16, 4, 2, 12)
    read = module.forward

    def forward(x: Tensor, angles: Tensor) -> Tensor:
        cache, places = AttentionCache(), range(x.size(1))
        steps = [read(x[:, [i]], angles[[i]], cache=cache) for i in places]
        return torch.cat(steps, dim=1)

    module.forward = forward
    return module


class _NormLast(ModernBlock):
    def forward(self, x: Tensor, *given: Any, **named: Any) -> Tensor:
        x = self.attention_norm(x + self.attention(x, *given, **named))
        return self.feed_forward_norm(x + self.feed_forward(x))


class _AddedToTheNorm(ModernBlock):
    def forward(self, x: Tensor, *given: Any, **named: Any) -> Tensor:
        x = self.attention_norm(x)
        x = self.feed_forward_norm(x + self.attention(x, *given, **named))
        return x + self.feed_forward(x)


class _AtOnce(ModernBlock):
    def forward(self, x: Tensor, *given: Any, **named: Any) -> Tensor:
        attended = self.attention(self.attention_norm(x), *given, **named)
        return x + attended + self.feed_forward(self.feed_forward_norm(x))


modern_block = Exercise(
    ModernBlock,
    [
        _stream(
            *(0, 5, 12, 4, 2, 20),
            alone=True,
            training=True,
            praise="norm, sublayer, sum",
        ),
        _stream(
            *(2, 7, 8, 4, 4, 12),
            short=True,
            praise="angles and a mask",
            when="with angles and a mask, if they are passed on: ",
        ),
        _stream(
            *(5, 3, 12, 2, 1, 8),
            earlier=4,
            when="with a cache, if it is passed on: ",
            praise="a cache of earlier keys",
        ),
        Probe(
            torch.randn(2, 4, 16, generator=torch.Generator().manual_seed(6)),
            angles=rotary.rotary_angles(4, 4),
            build=_one_by_one,
            praise="one by one, with a cache that starts empty",
            when="one by one, with a cache that starts empty and has to grow: ",
        ),
    ],
    {
        "the norms stand after the sums, as in 2017: here a sublayer reads the norm of "
        "the stream, and the stream stays as it is": _NormLast,
        "a sublayer's output is added to the norm: add it to x, the stream": (
            _AddedToTheNorm
        ),
        "the feed-forward network reads the x of the start: it reads the stream with "
        "the attention's output in it": _AtOnce,
    },
    lesson="17",
)
