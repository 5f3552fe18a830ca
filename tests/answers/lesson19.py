"""Answers to lesson 19's exercises that no table holds: right ones, and wrong ones."""

import math

import torch

from helpers.attention import attention

# ------------------------------------------------------------ 19.1 one key more


def with_a_branch(mixed, total, maximum, score, value):
    if score == -math.inf:
        return mixed, total, maximum
    if score > maximum:
        factor = (maximum - score).exp()
        return mixed * factor + value, total * factor + 1, score
    part = (score - maximum).exp()
    return mixed + part * value, total + part, maximum


def with_max(mixed, total, maximum, score, value):
    new = max(maximum, score)
    if new == -torch.inf:
        return [mixed, total, new]
    old, fresh = torch.exp(maximum - new), torch.exp(score - new)
    return [old * mixed + fresh * value, old * total + fresh, new]


def with_a_softmax(mixed, total, maximum, score, value):
    """The logarithm of the sum, and back."""
    if total == 0 and score == -math.inf:
        return mixed, total, maximum
    new = torch.stack([maximum, score]).amax()
    both = torch.stack([maximum + total.log(), score])
    total = (both.logsumexp(0) - new).exp()
    parts = (both - new).exp()
    before = mixed * 0 if maximum == -math.inf else mixed * (maximum - new).exp()
    return before + parts[1] * value, total, new


def average_so_far(mixed, total, maximum, score, value):
    """The mean of the values itself, and not the sum."""
    mixed, total, new = with_a_branch(mixed * total, total, maximum, score, value)
    return mixed / total, total, new


def without_a_maximum(mixed, total, maximum, score, value):
    return mixed + score.exp() * value, total + score.exp(), maximum


def as_floats(mixed, total, maximum, score, value):
    """Right numbers, which carry no gradient."""
    new = max(maximum.item(), score.item())
    if new == -math.inf:
        return mixed, total, maximum
    old, fresh = math.exp(maximum.item() - new), math.exp(score.item() - new)
    return old * mixed.detach() + fresh * value.detach(), old * total + fresh, new


# ------------------------------------------------------------ 19.2 blocks of keys


def with_split(query, key, value, mask, block):
    scale = query.size(-1) ** -0.5
    mask = torch.broadcast_to(mask, (*query.shape[:-1], key.shape[-2]))
    parts = zip(
        key.split(block, -2), value.split(block, -2), mask.split(block, -1), strict=True
    )
    m = torch.full(query.shape[:-1], -1e30, dtype=query.dtype)
    total = torch.zeros(query.shape[:-1], dtype=query.dtype)
    mixed = 0
    for k, v, seen in parts:
        s = torch.einsum("bhqd,bhkd->bhqk", query * scale, k)
        s = s.masked_fill(~seen, -torch.inf)
        new = torch.maximum(m, s.max(-1).values)
        p = torch.exp(s - new[..., None])
        total = total * torch.exp(m - new) + p.sum(-1)
        mixed = mixed * torch.exp(m - new)[..., None] + p @ v
        m = new
    return mixed / total.clamp(min=1e-30)[..., None]


def with_logsumexp(query, key, value, mask, block):
    """Contexts of blocks, mixed by the sums of their exponentials."""
    mask = mask.expand(*query.shape[:-1], key.size(-2))
    context, logs = torch.zeros(1), torch.full((*query.shape[:-1], 1), -1e30)
    for i in range(0, key.size(-2), block):
        seen = mask[..., i : i + block]
        part, _ = attention(
            query, key[..., i : i + block, :], value[..., i : i + block, :], seen
        )
        scores = query @ key[..., i : i + block, :].mT / query.size(-1) ** 0.5
        new = scores.masked_fill(~seen, -1e30).logsumexp(-1, keepdim=True)
        both = torch.logaddexp(logs.to(new), new)
        context = (logs.to(new) - both).exp() * context + (new - both).exp() * part
        logs = both
    return context


def the_whole_table(query, key, value, mask, block):
    return attention(query, key, value, mask)[0]


def with_a_list(query, key, value, mask, block):
    """The scores of all blocks are kept, and joined."""
    scores = [
        query @ key[..., i : i + block, :].mT / query.size(-1) ** 0.5
        for i in range(0, key.size(-2), block)
    ]
    scores = torch.cat(scores, dim=-1).masked_fill(~mask, -math.inf)
    return scores.softmax(-1).masked_fill(~mask, 0.0) @ value


def mean_of_blocks(query, key, value, mask, block):
    mask = mask.expand(*query.shape[:-1], key.size(-2))
    parts = [
        attention(
            query,
            key[..., i : i + block, :],
            value[..., i : i + block, :],
            mask[..., i : i + block],
        )[0]
        for i in range(0, key.size(-2), block)
    ]
    return sum(parts) / len(parts)


def without_a_maximum_over_keys(query, key, value, mask, block):
    mask = mask.expand(*query.shape[:-1], key.size(-2))
    mixed = total = 0
    for i in range(0, key.size(-2), block):
        scores = query @ key[..., i : i + block, :].mT / query.size(-1) ** 0.5
        parts = scores.exp().masked_fill(~mask[..., i : i + block], 0.0)
        mixed = mixed + parts @ value[..., i : i + block, :]
        total = total + parts.sum(-1, keepdim=True)
    return mixed / total.masked_fill(total == 0, 1.0)


# ------------------------------------------------------------ 19.3 a sliding window


def from_the_full_mask(length, window, block):
    back = torch.arange(length)[:, None] - torch.arange(length)
    mask = (back >= 0) & (back < window)
    rows = [part.any(0) for part in mask.split(block)]
    return torch.stack([torch.stack([p.any() for p in r.split(block)]) for r in rows])


def in_lists(length, window, block):
    starts = range(0, length, block)
    grid = []
    for q in starts:
        first = max(0, q - window + 1) // block
        grid.append([int(first <= k // block <= q // block) for k in starts])
    return grid


def counted(length, window, block):
    return int(from_the_full_mask(length, window, block).sum())


def in_pairs(length, window, block):
    return from_the_full_mask(length, window, block).nonzero()


def of_whole_blocks(length, window, block):
    """The window is rounded up to blocks."""
    grid = torch.arange(math.ceil(length / block))
    back = grid[:, None] - grid
    return (back >= 0) & (back <= math.ceil(window / block))


RIGHT = {
    "step": [with_a_branch, with_max, with_a_softmax],
    "over_keys": [with_split, with_logsumexp],
    "window_blocks": [from_the_full_mask, in_lists],
}
WRONG = {
    "step": [
        (average_so_far, "the result differs from the expected one"),
        (without_a_maximum, "lacks the maximum"),
        (as_floats, "no gradient"),
        (lambda *x: x[0], "where three are due"),
        (lambda *x: x[:3], "the result differs from the expected one"),
        (lambda *x: print(end=""), "your function returns nothing"),
    ],
    "over_keys": [
        (the_whole_table, "that is the table"),
        (with_a_list, "that is the table"),
        (mean_of_blocks, "each block has a softmax of its own"),
        (without_a_maximum_over_keys, "where scores are large: "),
        (lambda *x: attention(*x[:4]), "return a tensor, not a tuple"),
    ],
    "window_blocks": [
        (counted, "the shape is () where (4, 4) is due"),
        (in_pairs, "the shape is (7, 2) where (4, 4) is due"),
        (of_whole_blocks, "the window is one too wide"),
        (
            lambda length, window, block: torch.ones(4, 4).tril(),
            "the past is not cut off",
        ),
    ],
}
