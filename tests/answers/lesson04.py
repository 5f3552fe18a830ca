"""Answers to lesson 04's exercises that no table holds: right ones, and wrong ones."""

import math

import torch
from torch import nn

from helpers.attention import MultiHeadAttention

# ------------------------------------------------------------ 04.1 split and join


def split(x, n_heads):
    batch, length, d_model = x.shape
    return x.view(batch, length, n_heads, d_model // n_heads).permute(0, 2, 1, 3)


def join(context):
    batch, heads, length, d_head = context.shape
    return context.permute(0, 2, 1, 3).contiguous().view(batch, length, heads * d_head)


def split_into_lists(x, n_heads):
    return [[*sentence.chunk(n_heads, dim=-1)] for sentence in x]


def join_by_index(context):
    rows = torch.arange(context.size(1) * context.size(3))
    return context[:, rows // context.size(3), :, rows % context.size(3)].permute(
        1, 2, 0
    )


# ------------------------------------------------------------ 04.3 count them


def numel(*modules):
    return sum(p.numel() for module in modules for p in module.parameters())


# ------------------------------------------------------------ 04.4 the third head

LOUD = 10 * math.sqrt(8)
WORDS, PLACES = slice(0, 8), slice(8, 16)


def writer(*, query=LOUD, key=1.0, rows=slice(16, 24), columns=WORDS):
    """An answer that writes these factors at these rows and columns."""

    @torch.no_grad()
    def third_head(module):
        for part, factor in (("query", query), ("key", key)):
            weight = getattr(module, f"{part}_projection").weight
            weight[rows, columns] = factor * torch.eye(8)
        return module

    return third_head


@torch.no_grad()
def with_a_random_basis(module):
    """Any orthogonal matrix will do in place of the identity."""
    basis = torch.linalg.qr(torch.randn(8, 8))[0]
    for part in ("query", "key"):
        getattr(module, f"{part}_projection").weight[16:24, WORDS] = 6 * basis
    return module


@torch.no_grad()
def a_whole_new_weight(module):
    for part in (module.query_projection, module.key_projection):
        weight = part.weight.clone()
        weight[16:24, WORDS] = 6 * torch.eye(8)
        part.weight = nn.Parameter(weight)
    return module


def without_the_decorator(module):
    module.query_projection.weight[16:24, WORDS] = 6 * torch.eye(8)
    module.key_projection.weight[16:24, WORDS] = 6 * torch.eye(8)
    return module


@torch.no_grad()
def unevenly(module):
    writer()(module)
    module.key_projection.weight[16:24, PLACES] = torch.linspace(0, 0.4, 8).expand(8, 8)
    return module


@torch.no_grad()
def six_words(module):
    for part, factor in ((module.query_projection, LOUD), (module.key_projection, 1)):
        part.weight[16:22, :6] = factor * torch.eye(6)
    return module


def a_new_matrix(module):
    module.query_projection.weight = nn.Parameter(LOUD * torch.eye(8))
    return module


@torch.no_grad()
def the_next_word(module):
    writer()(module)
    module.query_projection.weight[16:24] = LOUD * torch.eye(24)[:8].roll(1, 0)
    return module


@torch.no_grad()
def spoils_the_output(module):
    module.output_projection.weight[0, 0] = 1.0
    return writer()(module)


@torch.no_grad()
def with_a_bias(module):
    module.query_projection.bias[:] = 50.0
    module.key_projection.bias[:] = 50.0
    return module


def assigned(module):
    module.query_projection.weight = torch.zeros(24, 24)
    return module


NUMBERS = {
    "d_head_big": 64,
    "one_head_base": numel(*[nn.Linear(512, 64) for _ in range(3)]),
    "all_heads_base": numel(MultiHeadAttention(512, 8)),
    "twice_the_heads": numel(MultiHeadAttention(512, 16)),
    "weights_base": torch.ones(32, 8, 100, 100).numel(),
}
KINDS = {
    "A": "error",
    "B": "mixes tokens",
    "C": "right",
    "D": "mixes heads",
    "E": "right",
}
RIGHT = {
    "split_and_join": [
        (split, join),
        (
            lambda x, n: torch.stack(x.chunk(n, 2), 1),
            lambda c: torch.cat([*c.unbind(1)], -1),
        ),
        (split_into_lists, join_by_index),
        (
            lambda x, n: x.reshape(*x.shape[:2], n, -1).transpose(-2, -3),
            lambda c: c.swapaxes(1, 2).reshape(len(c), c.size(2), -1),
        ),
    ],
    "ways_back": [
        KINDS,
        {letter: f" {kind.upper()} " for letter, kind in KINDS.items()},
    ],
    "counts": [
        NUMBERS,
        {name: float(number) for name, number in NUMBERS.items()},
        {name: torch.tensor([number]) for name, number in NUMBERS.items()},
    ],
    "third_head": [
        writer(query=6, key=6),
        with_a_random_basis,
        a_whole_new_weight,
    ],
}
WRONG = {
    "split_and_join": [
        ((lambda x, n: x, join), "split: the shape is (2, 3, 20) where (2, 4, 3, 5)"),
        ((lambda x, n: split(x, n) * 2, join), "split: the numbers themselves have"),
        ((lambda x, n: split(x, n).flip(1), join), "split: the shape is right but"),
        (
            (lambda x, n: split(x, 4), join),
            "split: with x (3, 7, 2) and n_heads 2 it goes wrong",
        ),
        ((lambda x, n: "heads", join), "split: return a tensor, not a str"),
        ((split, lambda c: join(c).flip(1)), "join: the shape is right but"),
        ((split, lambda c: c.view(2, 3, 20)), "join: without the transpose"),
        ((split, lambda c: join(c).squeeze()), "join: with context (1, 3, 1, 2)"),
        (
            (split, lambda c: c.transpose(1, 2).contiguous),
            "are its parentheses missing?",
        ),
        (
            (split, lambda c: c.transpose(1, 2).reshape(len(c), c.size(2), 20)),
            "is a size written as a number? your code stopped with",
        ),
        ((split, lambda c: torch.zeros(2, 3, 20)), "join: the numbers themselves have"),
    ],
    "ways_back": [
        ({"A": "wrong"}, "A: 'wrong' is none of right, error"),
        ({"B": 3}, "B: 3 is none of right, error"),
        ({"C": ["right"]}, "C: ['right'] is none of right, error"),
    ],
    "counts": [
        ({"weights_base": 7}, "too few"),
        ({"weights_base": 1e12}, "too many"),
        ({"weights_base": "many"}, "a number is due"),
        ({"weights_base": True}, "a number is due"),
        ({"weights_base": (32, 8, 100, 100)}, "a number is due"),
        ({"weights_base": math.nan}, "a number is due"),
        ({"weights_base": 10**400}, "a number is due"),
        ({"d_head_big": 512}, "too many: d_model is shared out"),
        ({"all_heads_base": 1_050_623}, "too few"),
    ],
    "third_head": [
        (writer(query=10.0), "the right words win, but get only"),
        (writer(query=math.nan), "NaN"),
        (the_next_word, "not on the same words"),
        (spoils_the_output, "something else has changed"),
        (without_the_decorator, "keep `@torch.no_grad()` above the function (your"),
        (unevenly, "on the same words, but they are not even"),
        (
            six_words,
            "“one two three four five six seven eight”: the weights are not on",
        ),
        (a_new_matrix, "`query_projection.weight` is (8, 8) now, not (24, 24)"),
        (MultiHeadAttention(24, 3), "hand over the function itself"),
        (with_a_bias, "head 3 still asks nothing"),
        (assigned, "TypeError"),
        (lambda module: torch.eye(8), "return the module that came in, changed"),
        (lambda module: module.query_projection, "not a Linear"),
    ],
}
