"""Answers to lesson 03's exercises that no table holds: right ones, and wrong ones."""

import torch

from helpers import BOS
from helpers.masks import causal_mask

# ------------------------------------------------------------ 03.2 packed


def packed_by_loops(tokens):
    batch, length = tokens.shape
    mask = torch.zeros(batch, 1, length, length, dtype=torch.bool)
    for b in range(batch):
        start = 0
        for q in range(length):
            start = q if tokens[b, q] == BOS else start
            mask[b, 0, q, start : q + 1] = True
    return mask


def packed_by_subtraction(tokens):
    number = torch.cumsum((tokens == BOS).float(), -1)
    apart = (number[:, :, None] - number[:, None]).abs()
    return ((apart == 0) & causal_mask(tokens.shape[1])[0]).unsqueeze(1)


def packed_by_number(tokens, most=99, modulo=99):
    number = (tokens == BOS).cumsum(1).clamp(max=most) % modulo
    same = number[:, None, :, None] == number[:, None, None, :]
    return same & causal_mask(tokens.size(1))


def packed_with_batch_as_heads(tokens):
    document = (tokens == BOS).cumsum(dim=1)
    same = document[:, :, None] == document[:, None, :]
    return same & causal_mask(tokens.size(1))


def packed_with_three_axes(tokens):
    return packed_by_loops(tokens)[:, 0]


# ------------------------------------------------------------ 03.4 PyTorch's masks


def with_isinf(key_padding_mask, attn_mask):
    if attn_mask.is_floating_point():
        attn_mask = attn_mask.isinf()
    return ~key_padding_mask[:, None, None] & ~attn_mask


def with_zero(key_padding_mask, attn_mask):
    return (attn_mask == 0) & ~key_padding_mask[:, None, None]


def by_bool(key_padding_mask, attn_mask):
    return ~key_padding_mask[:, None, None] & ~attn_mask.bool()


def own_triangle_for_floats(key_padding_mask, attn_mask):
    if attn_mask.is_floating_point():
        return ~key_padding_mask[:, None, None] & causal_mask(len(attn_mask))
    return with_isinf(key_padding_mask, attn_mask)


def without_float_padding(key_padding_mask, attn_mask):
    if attn_mask.is_floating_point():
        key_padding_mask = key_padding_mask & False
    return with_isinf(key_padding_mask, attn_mask)


RIGHT = {
    "packed_mask": [packed_by_loops, packed_by_subtraction],
    "find_mistakes": [
        {"A": " OR in place of  and", "C": "Mask after the Softmax"},
    ],
    "from_pytorch": [with_isinf, with_zero, by_bool],
}
WRONG = {
    "packed_mask": [
        (packed_with_batch_as_heads, "on the second axis, that of the heads"),
        (packed_with_three_axes, "the shape (3, 7, 7) does not broadcast"),
        (lambda t: packed_by_loops(t).float(), "return booleans, not float32"),
        (lambda t: packed_by_loops(t[:1]), "the first row of the batch alone"),
        (lambda t: packed_by_number(t, modulo=5), "pairs are visible"),
        (lambda t: packed_by_loops(t) | (t == BOS)[:, None, None], "pairs are visible"),
        (lambda t: packed_by_number(t, most=3), "pairs are visible"),
        (lambda t: packed_by_number(t, modulo=4), "pairs are visible"),
        (lambda t: packed_by_number(t, modulo=10), "pairs are visible"),
        (lambda t: packed_by_loops(t.squeeze()), "with tokens"),
        (lambda t: packed_by_loops(t).triu(-6), "pairs are visible"),
    ],
    "find_mistakes": [({"A": "bug"}, "A: 'bug' is none of")],
    "from_pytorch": [
        (lambda k, a: ~(k[:, None] | a), "the shape (3, 5, 5) does not"),
        (lambda k, a: ~k & ~a, "two sizes differ; axes are lined up"),
        (lambda k, a: ~(k[:, None, None] | a), "`~` are for booleans, and something"),
        (lambda k, a: with_isinf(k, a).float(), "return booleans"),
        (
            own_triangle_for_floats,
            "floats, 0 and -∞: one that is not causal, in float64, goes wrong: 24",
        ),
        (lambda k, a: with_isinf(k, a.clone().fill_diagonal_(0)), "pairs are visible"),
        (
            without_float_padding,
            "an attn_mask of floats, 0 and -∞: 12 pairs are visible",
        ),
    ],
}
