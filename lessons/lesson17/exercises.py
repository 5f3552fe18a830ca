"""The exercises of lesson 17: the rotation, and a block of today."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from helpers.caching import AttentionCache
from helpers.exercise import IN_PLACE, Exercise, Probe, Wrong
from helpers.masks import causal_mask
from helpers.modern import rotary
from helpers.modern.block import ModernBlock

# ------------------------------------------------------------ 17.1 rotate


class _Rotation(Exercise):
    """An exercise in which no gradient need reach the angles."""

    def _built(self, answer: Callable, probe: Probe) -> tuple[Callable, dict]:
        def turned(x: Tensor, angles: Tensor) -> Any:
            try:
                return answer(x, angles.detach())
            except RuntimeError as error:  # a half from `chunk`, written over
                if "view and is being modified inplace" in str(error):
                    raise Wrong(IN_PLACE) from error
                raise

        return turned, {}


def _to_rotate(seed: int, *sizes: int, **said: str) -> Probe:
    """x (…, length, d_head) and angles (length, d_head / 2), any numbers."""
    chance = torch.Generator().manual_seed(seed)
    x = 3 * torch.randn(sizes, generator=chance)
    return Probe(
        x, 4 * torch.randn(sizes[-2], sizes[-1] // 2, generator=chance), **said
    )


def _turned(
    x: Tensor,
    angles: Tensor,
    *,
    neighbours: tuple[bool, bool] = (False, False),
    signs: tuple[int, int, int] = (-1, 1, 1),
    swapped: bool = False,
    exchanged: bool = False,
    overwritten: bool = False,
) -> Tensor:
    """The rotation, and with other options what is wrong with it."""
    cosine, sine = angles.cos(), angles.sin()
    if swapped:
        cosine, sine = sine, cosine
    read, written = neighbours
    first, second = (x[..., 0::2], x[..., 1::2]) if read else x.chunk(2, dim=-1)
    one = first * cosine + signs[0] * second * sine
    other = signs[1] * (one if overwritten else first) * sine
    other = other + signs[2] * second * cosine
    if exchanged:
        one, other = other, one
    if written:
        return torch.stack([one, other], dim=-1).flatten(-2)
    return torch.cat([one, other], dim=-1)


PAIRS = "feature i turns with feature i + d_head / 2"
RULE = "the pair (a, b) becomes (a·cos − b·sin, a·sin + b·cos)"
rotate = _Rotation(
    rotary.rotate,
    [
        _to_rotate(0, 2, 3, 4, 6, praise=f"{PAIRS}, by the position's angle"),
        _to_rotate(1, 1, 2, 5, 10, when="with other sizes: "),
        _to_rotate(2, 3, 1, 7, 2, praise="other sizes, and a single pair"),
        _to_rotate(
            3,
            5,
            16,
            praise="without batch and heads",
            when="x of two axes, (length, d_head): ",
        ),
    ],
    {
        f"neighbours are turned together, as in the paper: here {PAIRS}": partial(
            _turned, neighbours=(True, True)
        ),
        f"neighbours are read, and halves are written: {PAIRS}, before and "
        "after": partial(_turned, neighbours=(True, False)),
        f"it turns the other way: {RULE}": partial(_turned, signs=(1, -1, 1)),
        f"the sign in the first half is wrong: {RULE}": partial(
            _turned, signs=(1, 1, 1)
        ),
        f"the sign in the second half is wrong: {RULE}": partial(
            _turned, signs=(-1, 1, -1)
        ),
        "the halves come out in the wrong order: a·cos − b·sin stands first": partial(
            _turned, exchanged=True
        ),
        f"cosine and sine are swapped: {RULE}": partial(_turned, swapped=True),
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
    angles: bool = True,
    mask: bool = True,
    **said: Any,
) -> Probe:
    """A block of (d_model, n_heads, n_kv_heads, d_ff), and a stream that it reads."""
    d_model, n_heads, n_kv_heads, _ = sizes
    chance, d_head = torch.Generator().manual_seed(seed), d_model // n_heads
    x = torch.randn(2, length, d_model, generator=chance)
    if short:
        x[:, ::2] *= 0.003
    whole, given = earlier + length, {}
    if angles:
        given["angles"] = rotary.rotary_angles(whole, d_head)[earlier:]
    if mask:
        given["mask"] = causal_mask(whole)[:, :, earlier:]
    if earlier:
        past = torch.randn(2, 2, n_kv_heads, earlier, d_head, generator=chance)
        given["cache"] = AttentionCache(*past)
    return Probe(x, build=lambda block: block(*sizes), **given, **said)


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


def _steps() -> Probe:
    """A stream for `_one_by_one`."""
    x = torch.randn(2, 4, 16, generator=torch.Generator().manual_seed(6))
    return Probe(
        x,
        angles=rotary.rotary_angles(4, 4),
        build=_one_by_one,
        praise="one by one, with a cache that starts empty",
        when="one by one, with a cache that starts empty and has to grow: ",
    )


def _joined(join: Callable) -> type[ModernBlock]:
    """The block, its sublayers joined in another way."""

    class Wrong(ModernBlock):
        def forward(
            self,
            x: Tensor,
            angles: Tensor | None = None,
            mask: Tensor | None = None,
            *,
            cache: AttentionCache | None = None,
        ) -> Tensor:
            attend = partial(self.attention, angles=angles, mask=mask, cache=cache)
            norms = self.attention_norm, self.feed_forward_norm
            return join(x, *norms, attend, self.feed_forward)

    return Wrong


Part = Callable[[Tensor], Tensor]


def _norm_last(x: Tensor, norm: Part, other: Part, attend: Part, feed: Part) -> Tensor:
    x = norm(x + attend(x))
    return other(x + feed(x))


def _normed(x: Tensor, norm: Part, other: Part, attend: Part, feed: Part) -> Tensor:
    x = norm(x)
    x = other(x + attend(x))
    return x + feed(x)


def _at_once(x: Tensor, norm: Part, other: Part, attend: Part, feed: Part) -> Tensor:
    return x + attend(norm(x)) + feed(other(x))


def _no_second(x: Tensor, norm: Part, other: Part, attend: Part, feed: Part) -> Tensor:
    x = x + attend(norm(x))
    return x + feed(x)


def _no_sums(x: Tensor, norm: Part, other: Part, attend: Part, feed: Part) -> Tensor:
    return feed(other(attend(norm(x))))


modern_block = Exercise(
    ModernBlock,
    [
        _stream(
            0,
            5,
            12,
            4,
            2,
            20,
            angles=False,
            mask=False,
            training=True,
            praise="norm, sublayer, sum",
        ),
        _stream(
            1, 4, 16, 2, 1, 24, mask=False, when="with angles, if they are passed on: "
        ),
        _stream(
            2,
            7,
            8,
            4,
            4,
            12,
            praise="angles and a mask",
            when="with a mask, if it is passed on: ",
        ),
        _stream(3, 6, 24, 6, 3, 10, short=True, when="with short vectors: "),
        _stream(
            4,
            1,
            16,
            4,
            2,
            24,
            earlier=5,
            mask=False,
            when="with a cache, if it is passed on: ",
        ),
        _stream(5, 3, 12, 2, 1, 8, earlier=4, praise="a cache of earlier keys"),
        _steps(),
    ],
    {
        "the norms stand after the sums, as in 2017: here a sublayer reads the norm of "
        "the stream, and the stream stays as it is": _joined(_norm_last),
        "a sublayer's output is added to the norm: add it to x, the stream": _joined(
            _normed
        ),
        "the feed-forward network reads the x of the start: it reads the stream with "
        "the attention's output in it": _joined(_at_once),
        "nothing is added to the stream: each sublayer's output is added to the x that "
        "its norm has read": _joined(_no_sums),
        "no norm stands before the feed-forward network: it reads "
        "`feed_forward_norm` of the stream": _joined(_no_second),
    },
    lesson="17",
)
