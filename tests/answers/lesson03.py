"""Answers to lesson 03's exercises that no table holds: right ones, and wrong ones."""

import math
from functools import lru_cache

import torch

from helpers import BOS, PAD
from helpers.masks import causal_mask, decoder_mask, padding_mask

# ------------------------------------------------------------ 03.1 three masks


def padding(tokens):
    return torch.ne(tokens, PAD).unsqueeze(1).unsqueeze(1)


def causal(length):
    return torch.arange(length)[:, None] >= torch.arange(length)


def decoder(tokens):
    return padding(tokens) * causal(tokens.size(1))


def padding_for_all_queries(tokens):
    return padding_mask(tokens).expand(-1, -1, tokens.size(1), -1)


def causal_by_loops(length):
    return [[key <= query for key in range(length)] for query in range(length)]


def decoder_by_loops(tokens):
    rows = tokens.tolist()
    return [
        [[[row[k] != PAD and k <= q for k in range(len(row))] for q in range(len(row))]]
        for row in rows
    ]


def three(padding=padding, causal=causal, decoder=decoder):
    return padding, causal, decoder


def changed(tokens):
    tokens[tokens == PAD] = 9
    return padding(tokens)


def low(tokens):
    return torch.zeros(tokens.shape).masked_fill(tokens == PAD, -math.inf)


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
    "three_masks": [
        three(),
        three(padding_for_all_queries, causal_by_loops, decoder_by_loops),
        three(causal=lambda n: torch.tril(torch.ones(1, n, n)) == 1),
        three(decoder=lambda t: torch.logical_and(padding(t), causal(t.size(1)))),
        three(lambda t: padding(t).numpy(), lambda n: causal_mask(n).numpy()),
        three(
            causal=lambda n: tuple(tuple(k <= q for k in range(n)) for q in range(n))
        ),
        three(causal=lru_cache(causal)),
    ],
    "packed_mask": [packed_by_loops, packed_by_subtraction],
    "find_mistakes": [
        {"A": " OR in place of  and", "C": "Mask after the Softmax"},
    ],
    "from_pytorch": [with_isinf, with_zero, by_bool],
}
SHAPE = "does not broadcast to (3, 1, 5, 5) as it should"
WRONG = {
    "three_masks": [
        (three(lambda t: t != PAD), f"padding: the shape (3, 5) {SHAPE}: axes are"),
        (three(lambda t: (t != PAD)[:, None]), f"padding: the shape (3, 1, 5) {SHAPE}"),
        (three(lambda t: (t != PAD)[:, :, None, None]), f"(3, 5, 1, 1) {SHAPE}"),
        (three(lambda t: padding(t).expand(3, 8, 1, 5)), f"(3, 8, 1, 5) {SHAPE}"),
        (three(lambda t: padding(t).float()), "padding: return booleans, not float32"),
        (three(lambda t: padding(t) * 1), "padding: return booleans, not int64: a com"),
        (three(lambda t: low(t)[:, None, None]), "0 and -∞ are another convention"),
        (three(lambda t: (t != 6)[:, None, None]), "20 pairs are visible"),
        (three(lambda t: (t != PAD).reshape(3, 1, 1, 5)), "with tokens (2, 2"),
        (three(lambda t: ~(t == PAD).float()), "`~` are for booleans"),
        (three(decoder=lambda t: padding(t) and causal(t.size(1))), "`and`, `or`"),
        (three(causal=lambda n: causal(n) & ~causal(n).tril(-8)), "causal: with leng"),
        (three(decoder=lambda t: decoder(t).expand(-1, 8, -1, -1)), "8, 5, 5) does n"),
        (three(lambda t: padding(t).cumprod(-1) > 0), "15 are hidden that must be"),
        (three(lambda t: decoder(t)), "0 pairs are visible that must be hidden, 22"),
        (three(causal=lambda n: torch.ones(n, n).bool()), "causal: nothing is hid"),
        (three(causal=lambda n: torch.eye(n).bool()), "10 are hidden that must be"),
        (three(decoder=lambda t: decoder(t).mT), "decoder: 22 pairs are visible"),
        (three(decoder=lambda t: decoder(t) | torch.eye(t.size(1)).bool()), "4 pairs"),
        (
            three(lambda t: (t != t.min())[:, None, None]),
            "with tokens (2, ",
        ),
        (three(lambda t: ((t > 0) & (t < 12))[:, None, None]), "are hidden that must"),
        (three(decoder=lambda t: padding(t) & causal(t.size(1)).mT), "upside down"),
        (three(decoder=lambda t: decoder(t[:1])), "the first row of the batch alone"),
        (three(causal=lambda n: causal(n).triu(-20)), "are hidden that must be"),
        (three(changed), "changes its inputs in place"),
        (three(causal=lambda n: causal_mask(n + 1)), "causal: the shape (1, 1, 6, 6)"),
        (three(causal=lambda n: causal_mask(5)), "causal: with length "),
        (three(causal=lambda n: causal_mask(64)[..., :n, :n]), "causal: with length 2"),
        (three(lambda t: (t != PAD).squeeze()[:, None, None]), "padding: with tokens"),
        (three(causal=lambda n: torch.ones(n, n).tril()), "causal: return booleans"),
        (
            three(decoder=lambda t: decoder_mask(t)[:, 0]),
            "decoder: the shape (3, 5, 5)",
        ),
        (three(decoder=lambda t: (t != PAD) & causal(5)), "two sizes differ; axes"),
        (three(decoder=lambda t: padding(t) & causal(len(t))), "two sizes differ"),
        (
            three(decoder=lambda t: padding(t) & torch.ones(5, 5).tril()),
            "for booleans, and something here is numbers",
        ),
    ],
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
