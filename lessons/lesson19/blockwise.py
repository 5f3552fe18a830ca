"""Attention in blocks, without the table of weights (lesson 19).

Milakov and Gimelshein 2018: the online softmax. Rabe and Staats 2021: attention over
blocks of keys. Dao et al. 2022, FlashAttention: blocks of queries and keys, and a
backward pass that computes the weights again.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from helpers.masks import check_mask

State = tuple[Tensor, Tensor, Tensor]  # mixed, total, maximum
# Of positions of queries (rows, 1) and keys (1, columns): who may attend to whom.
Rule = Callable[[Tensor, Tensor], Tensor]


def nothing_yet(query: Tensor, value: Tensor) -> State:
    """The state of a softmax that has seen no key: 0, 0, −∞; in float32 at least."""
    wide = torch.promote_types(query.dtype, torch.float32)
    mixed = query.new_zeros(*query.shape[:-1], value.size(-1), dtype=wide)
    total = query.new_zeros(*query.shape[:-1], 1, dtype=wide)
    return mixed, total, torch.full_like(total, -math.inf)


def absorb(state: State, scores: Tensor, value: Tensor) -> State:
    """The state after one more block of keys.

    maximum (…, query_length, 1) is the largest score so far, total (…, query_length, 1)
    the sum of exp(score − maximum), mixed (…, query_length, d_value) the sum of values
    times these. scores (…, query_length, block), −∞ where hidden, value (…, block,
    d_value). Milakov and Gimelshein 2018, algorithm 3; `mixed`: Rabe and Staats 2021.
    """
    mixed, total, maximum = state
    highest = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
    # −∞ as long as all was hidden; −∞ − (−∞) would be NaN.
    shift = highest.masked_fill(highest == -math.inf, 0.0)
    rescale = (maximum - shift).exp()
    parts = (scores - shift).exp()
    mixed = rescale * mixed + parts.to(value.dtype) @ value
    total = rescale * total + parts.sum(dim=-1, keepdim=True)
    return mixed, total, highest


def finish(state: State) -> tuple[Tensor, Tensor]:
    """The context, and the logarithm of each row's sum of exponentials.

    A query that has seen nothing gets a context of 0, and a logarithm of +∞, so that
    exp(score − logsumexp) gives it weights of 0.
    """
    mixed, total, maximum = state
    blind = total == 0
    total = total.masked_fill(blind, 1.0)
    return mixed / total, maximum.masked_fill(blind, math.inf) + total.log()


def masked_scores(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    """QKᵀ / √d_k, and −∞ where the mask hides."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    return scores if mask is None else scores.masked_fill(~mask, -math.inf)


def blocks(length: int, block: int) -> list[slice]:
    """Slices of `block` positions; the last one may be shorter."""
    starts = range(0, length, block)
    return [slice(start, min(start + block, length)) for start in starts]


def check_blocks(
    query: Tensor, key: Tensor, mask: Tensor | Rule | None, block: int
) -> Tensor | Rule | None:
    """The mask with all its axes; ValueError if it does not fit, or block < 1."""
    if block < 1:
        raise ValueError(f"block={block}: a block needs at least one position")
    if isinstance(mask, Tensor):
        shape = *query.shape[:-1], key.size(-2)
        check_mask(mask, shape)
        mask = mask.expand(shape)  # a view: it takes no memory
    return mask


def attention_over_keys(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, block: int
) -> Tensor:
    """The context of `attention`, from a block of keys at a time.

    Shapes and errors as in `block_attention`. Rabe and Staats 2021, section 2.
    """
    mask = check_blocks(query, key, mask, block)
    state = nothing_yet(query, value)
    for columns in blocks(key.size(-2), block):
        part = None if mask is None else mask[..., columns]
        scores = masked_scores(query, key[..., columns, :], part)
        state = absorb(state, scores, value[..., columns, :])
    return finish(state)[0].to(query.dtype)


def visible_blocks(
    mask: Tensor | Rule | None, rows: slice, key: Tensor, block: int
) -> Iterator[tuple[slice, Tensor | None]]:
    """The blocks of keys that some of these queries may see, each with its mask."""
    for columns in blocks(key.size(-2), block):
        part = mask
        if isinstance(mask, Tensor):
            part = mask[..., rows, columns]
        elif mask is not None:
            queries, keys = (
                torch.arange(x.start, x.stop, device=key.device)
                for x in (rows, columns)
            )
            part = mask(queries[:, None], keys[None])
        if part is None or part.any():
            yield columns, part


class BlockAttention(torch.autograd.Function):
    """`block_attention` for autograd, which gets no table to keep.

    Dao et al. 2022, algorithms 1 and 4, with queries in the outer loop, as has the
    forward pass of FlashAttention-2 (Dao 2023).
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, block: int
    ) -> Tensor:
        """The context; kept are the inputs, the context, and a number for each row."""
        context = query.new_empty(*query.shape[:-1], value.size(-1))
        logsumexp = nothing_yet(query, value)[1]
        for rows in blocks(query.size(-2), block):
            q = query[..., rows, :]
            state = nothing_yet(q, value)
            for columns, part in visible_blocks(mask, rows, key, block):
                scores = masked_scores(q, key[..., columns, :], part)
                state = absorb(state, scores, value[..., columns, :])
            context[..., rows, :], logsumexp[..., rows, :] = finish(state)
        ctx.save_for_backward(query, key, value, context, logsumexp)
        ctx.mask, ctx.block = mask, block
        return context

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_context: Tensor) -> tuple:
        """The gradients, from weights that are computed again, tile by tile."""
        query, key, value, context, logsumexp = ctx.saved_tensors
        wide = logsumexp.dtype  # float32, where the inputs have 16 bits
        gradients = [torch.zeros_like(x, dtype=wide) for x in (query, key, value)]
        inner = (grad_context * context).sum(dim=-1, keepdim=True, dtype=wide)  # D
        for rows in blocks(query.size(-2), ctx.block):
            q, g = query[..., rows, :], grad_context[..., rows, :]
            for columns, part in visible_blocks(ctx.mask, rows, key, ctx.block):
                k, v = key[..., columns, :], value[..., columns, :]
                weights = (masked_scores(q, k, part) - logsumexp[..., rows, :]).exp()
                grad_scores = weights * (g @ v.mT - inner[..., rows, :])
                grad_scores = (grad_scores / math.sqrt(q.size(-1))).to(q.dtype)
                gradients[0][..., rows, :] += grad_scores @ k
                gradients[1][..., columns, :] += grad_scores.mT @ q
                gradients[2][..., columns, :] += weights.to(g.dtype).mT @ g
        return *(x.to(query.dtype) for x in gradients), None, None


def block_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | Rule | None = None,
    *,
    block: int = 64,
) -> Tensor:
    """The context of `attention`, with memory that grows with the length alone.

    Shapes as there. The mask is boolean and broadcasts to (…, query_length,
    key_length), or is a rule, which makes the mask of a tile from the positions of its
    queries and keys. Second derivatives are refused.
    ValueError for a mask tensor of wrong type or shape, or a block of no position.
    """
    mask = check_blocks(query, key, mask, block)
    return BlockAttention.apply(query, key, value, mask, block)
