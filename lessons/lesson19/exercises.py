"""The exercises of lesson 19: one more block of keys, and attention in blocks."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from helpers.exercise import Exercise, Probe, Wrong
from lessons.lesson19.blockwise import absorb as absorb_block
from lessons.lesson19.blockwise import block_attention as in_blocks
from lessons.lesson19.measure import Held

# ------------------------------------------------------------ 19.1 one more block


def _state(seed: int, *sizes: int, kind: str = "", **said: str) -> Probe:
    """A state, and a block of scores and values.

    sizes: heads, queries, keys of the block, d_value.
    """
    heads, queries, keys, d_value = sizes
    chance = torch.Generator().manual_seed(seed)
    scores, seen = 2 * torch.randn(2, heads, queries, keys, generator=chance)
    value = torch.randn(heads, 2 * keys, d_value, generator=chance)
    maximum = seen.amax(dim=-1, keepdim=True)
    parts = (seen - maximum).exp()
    mixed, total = parts @ value[:, keys:], parts.sum(dim=-1, keepdim=True)
    if "start" in kind:
        mixed, total, maximum = 0 * mixed, 0 * total, maximum - math.inf
    if "hidden" in kind:  # some keys, and all of a query
        scores[..., 0] = scores[:, 0] = -math.inf
    if kind == "high":
        scores = scores + 1000
    return Probe(mixed, total, maximum, scores, value[:, :keys], **said)


def _context(output: Any, *_: Tensor) -> tuple:
    """The three, with the gradients of mixed / total alone.

    Whether the maximum passes a gradient on does not matter: the quotient's is the
    same. A blind query's may be a very low number in place of −∞.
    """
    mixed, total, maximum = output
    context = mixed / total.masked_fill(total == 0, 1.0)
    mixed = mixed.detach() + (context - context.detach())
    maximum = maximum.masked_fill(maximum <= LOWEST, -math.inf)
    return mixed, total.detach(), maximum.detach()


def _wrong_step(
    mixed: Tensor,
    total: Tensor,
    maximum: Tensor,
    scores: Tensor,
    value: Tensor,
    *,
    rescaled: bool = True,
    own: bool = False,
    guarded: bool = True,
    softmax: bool = False,
    divides: bool = False,
) -> tuple:
    """A step, and with other options what is wrong with it."""
    block = scores.amax(dim=-1, keepdim=True)
    highest = block if own else torch.maximum(maximum, block)
    shift = highest.masked_fill(highest == -math.inf, 0.0) if guarded else highest
    rescale = (maximum - shift).exp() if rescaled else 1.0
    parts = scores.softmax(dim=-1) if softmax else (scores - shift).exp()
    mixed = rescale * mixed + parts @ value
    total = rescale * total + parts.sum(dim=-1, keepdim=True)
    return mixed / total if divides else mixed, total, highest


LOWEST = -1e9  # a maximum below it stands for −∞
absorb = Exercise(
    absorb_block,
    [
        _state(0, 2, 3, 4, 5, praise="the three after one more block"),
        _state(1, 1, 2, 3, 1, kind="start", praise="the first block"),
        _state(2, 2, 4, 5, 3, kind="hidden start", when="with keys that are hidden: "),
        _state(3, 1, 3, 2, 2, kind="high", praise="hidden keys, and scores of 1,000"),
        _state(4, 2, 3, 3, 2, kind="hidden", when="a query sees no key of the block: "),
    ],
    {
        "the old sums are relative to the old maximum: multiply both by "
        "e^(old − new)": partial(_wrong_step, rescaled=False),
        "this is the block's own maximum: the largest score so far is due": partial(
            _wrong_step, own=True
        ),
        "a query that has seen nothing yet gets NaN: −∞ − (−∞) is no number. "
        "Subtract 0 there": partial(_wrong_step, guarded=False),
        "`mixed` is divided by `total` at each step: divide once, after the last "
        "block": partial(_wrong_step, divides=True),
        "a softmax divides by the sum of this block: keep the exponentials": partial(
            _wrong_step, softmax=True
        ),
    },
    results=("mixed", "total", "maximum"),
    read=_context,
    lesson="19",
)

# ------------------------------------------------------------ 19.2 attention in blocks


def _given(seed: int, *sizes: int, kind: str = "", **said: str) -> Probe:
    """Query, key and value, a mask, and the size of a block.

    sizes: batch, heads, query_length, key_length, d_head, d_value, and the block, or
    0 for the block that is there without asking.
    """
    batch, heads, queries, keys, d_head, d_value, block = sizes
    chance = torch.Generator().manual_seed(seed)
    each = (queries, d_head), (keys, d_head), (keys, d_value)
    tensors = [torch.randn(batch, heads, *x, generator=chance) for x in each]
    mask = torch.rand(batch, heads, queries, keys, generator=chance) < 0.7
    mask[..., 0] = True
    if kind == "padding":  # the first block is hidden
        mask = (torch.arange(keys) >= block).expand(batch, 1, 1, keys)
    if kind == "blind":
        mask = (torch.arange(queries) > 0)[:, None]
    if kind == "high":
        tensors[0] = 300 * tensors[0]
    inputs = tensors if kind == "open" else [*tensors, mask]
    return Probe(*inputs, **({"block": block} if block else {}), **said)


class _Watched(Held):
    """Looks for a row with a number for each key, too; a transposed K or V is none."""

    def __init__(self, key: Tensor, value: Tensor) -> None:
        super().__init__()
        self.keys, self.rows = key.size(-2), {key.size(-1), value.size(-1)}
        self.found = False

    def __torch_dispatch__(self, *call: Any) -> Any:
        output = super().__torch_dispatch__(*call)
        if isinstance(output, Tensor) and output.is_floating_point():
            *_, rows, columns = 1, 1, *output.shape
            self.found |= columns == self.keys and rows not in self.rows
        return output


MANY = 256  # keys, from which on it is counted what is held
TABLE = (
    "too much is held at once: make the scores of no more than `block` keys at a time, "
    "be the queries many or few, and keep none of them"
)


class _Lean(Exercise):
    """An exercise that counts what is held at once, where keys are many."""

    def _built(self, answer: Callable, probe: Probe) -> tuple[Callable, dict]:
        def counted(*given: Any, **named: Any) -> Any:
            query, key, value = given[:3]
            if key.size(-2) >= MANY:
                with torch.no_grad(), _Watched(key, value) as held:
                    answer(*given, **named)
                table = query.shape[:-1].numel() * key.size(-2)
                if held.found or 3 * held.most > table:
                    raise Wrong(TABLE)
            return answer(*given, **named)

        return counted, {}


def _wrong_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    block: int = 64,
    scaled: bool = True,
    turned: bool = False,
    hidden: float = -math.inf,
    divides: bool = True,
    guarded: bool = True,
    added: bool = False,
) -> Tensor:
    """Attention over blocks of keys, and with other options what is wrong with it."""
    keys, leading, contexts = key.size(-2), query.shape[:-1], []
    total = query.new_zeros(*leading, 1)
    start = query.new_zeros(*leading, value.size(-1)), total, total - math.inf
    state = start
    for left in range(0, keys, block):
        columns = slice(left, left + block)
        scores = query @ key[..., columns, :].mT
        scores = scores / math.sqrt(query.size(-1)) if scaled else scores
        if mask is not None:
            tile = mask.expand(*leading, keys)[..., columns]
            scores = scores.masked_fill(tile if turned else ~tile, hidden)
        state = absorb_block(
            *(start if added else state), scores, value[..., columns, :]
        )
        mixed, total, _ = state
        total = total.masked_fill(total == 0, 1.0) if guarded else total
        contexts.append(mixed / total if divides else mixed)
    return sum(contexts) if added else contexts[-1]


block_attention = _Lean(
    in_blocks,
    [
        _given(0, 2, 1, 3, 4, 5, 3, 2, kind="open", praise="context without a mask"),
        _given(1, 1, 2, 5, 7, 4, 2, 3, praise="a mask, and a shorter last block"),
        _given(2, 2, 3, 4, 6, 2, 2, 2, kind="padding", when="first block hidden: "),
        _given(
            *(3, 1, 1, 3, 5, 3, 4, 2),
            kind="blind",
            when="a mask with one column for all keys, and a query that sees none: ",
        ),
        _given(
            4, 1, 2, 4, 5, 3, 2, 0, kind="high", praise="blind queries, high scores"
        ),
        # No strip of queries has 7 or 5 rows, as a transposed K or V.
        _given(5, 1, 1, 128, 512, 7, 5, 16, praise="no table is held"),
    ],
    {
        "each block's context is that of its own softmax, and these are added: "
        "divide by the sum over all blocks": partial(_wrong_blocks, added=True),
        "the division by `total` at the end is missing": partial(
            _wrong_blocks, divides=False
        ),
        "the scores are not divided by √d_head": partial(_wrong_blocks, scaled=False),
        "the mask is turned round: True means that the query may see the key": partial(
            _wrong_blocks, turned=True
        ),
        "hide with −∞: after −1e9, a query that sees no key gets the mean of all "
        "values, and 0 is due": partial(_wrong_blocks, hidden=-1e9),
        "a query that sees no key has a `total` of 0, and 0 / 0 is NaN: its context "
        "is 0": partial(_wrong_blocks, guarded=False),
    },
    lesson="19",
)
