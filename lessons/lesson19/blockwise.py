"""Attention in blocks, without the table of weights (lesson 19)."""

import math
from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from helpers.masks import check_mask


def absorb(
    mixed: Tensor, total: Tensor, maximum: Tensor, scores: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The state of each query's softmax after one more block of keys.

    maximum (…, rows, 1) is the largest score so far, total (…, rows, 1) the sum of
    exp(score − maximum), mixed (…, rows, d_value) the sum of the values times these.
    scores (…, rows, block), −∞ where hidden, value (…, block, d_value).
    Milakov and Gimelshein 2018, algorithm 3; `mixed`: Rabe and Staats 2021.
    """
    highest = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
    # −∞ as long as all was hidden; −∞ − (−∞) would be NaN.
    shift = highest.masked_fill(highest == -math.inf, 0.0)
    rescale = (maximum - shift).exp()
    parts = (scores - shift).exp()
    mixed = rescale * mixed + parts @ value
    total = rescale * total + parts.sum(dim=-1, keepdim=True)
    return mixed, total, highest


def block_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    block: int = 64,
) -> Tensor:
    """The context of `attention`, from a tile of (block, block) scores at a time.

    Shapes, mask and errors as there; ValueError for a block of no position, too. Sums
    have 32 bits at least. Tiles in which nothing may be seen are skipped.
    Rabe and Staats 2021; Dao et al. 2022, algorithm 1, queries in the outer loop.
    """
    if block < 1:
        raise ValueError(f"block={block}: a block needs at least one position")
    *leading, queries, d_head = query.shape
    keys = key.size(-2)
    if mask is not None:
        check_mask(mask, (*leading, queries, keys))
        mask = mask.expand(*leading, queries, keys)  # a view: it takes no memory
    wide = torch.promote_types(query.dtype, torch.float32)
    contexts = []
    for top in range(0, queries, block):
        q = query[..., top : top + block, :] / math.sqrt(d_head)
        mixed = q.new_zeros(*q.shape[:-1], value.size(-1), dtype=wide)
        total = q.new_zeros(*q.shape[:-1], 1, dtype=wide)
        state = mixed, total, torch.full_like(total, -math.inf)
        for left in range(0, keys, block):
            columns = slice(left, left + block)
            scores = q @ key[..., columns, :].transpose(-2, -1)
            if mask is not None:
                tile = mask[..., top : top + block, columns]
                if not tile.any():
                    continue
                scores = scores.masked_fill(~tile, -math.inf)
            state = absorb(*state, scores.to(wide), value[..., columns, :].to(wide))
        mixed, total, _ = state
        contexts.append(mixed / total.masked_fill(total == 0, 1.0))
    return torch.cat(contexts, dim=-2).to(query.dtype)


def in_training(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    block: int = 64,
) -> Tensor:
    """The same context; for the backward pass, autograd keeps Q, K and V alone.

    A strip of `block` queries at a time, which is made again for its gradients.
    """
    again = partial(checkpoint, block_attention, use_reentrant=False)
    if mask is not None:
        mask = mask.expand(*query.shape[:-1], key.size(-2))
    contexts = []
    for top in range(0, query.size(-2), block):
        rows = slice(top, top + block)
        seen = None if mask is None else mask[..., rows, :]
        contexts.append(again(query[..., rows, :], key, value, seen, block=block))
    return torch.cat(contexts, dim=-2)
