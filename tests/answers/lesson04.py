"""Answers to lesson 04's exercises that no table holds: right ones, and wrong ones."""

import math

import torch
from torch import nn

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


# ------------------------------------------------------------ 04.3 the third head


def rows(*, query=30.0, key=1.0, columns=slice(0, 8), basis=None):
    """An answer that writes these factors at these columns."""
    basis = torch.eye(8) if basis is None else basis

    def answer():
        parts = []
        for factor in (query, key):
            part = torch.zeros(8, 24)
            part[:, columns] = factor * basis
            parts.append(part)
        return tuple(parts)

    return answer


def with_six_features():
    part = torch.zeros(8, 24)
    part[:6, :6] = 6 * torch.eye(6)
    return part, part


def of_words_and_places():
    query, key = rows()()
    key[:, 8:16] = torch.linspace(0, 0.4, 8).expand(8, 8)
    return query, key


def of_words_and_more_of_places():
    words, key = rows(query=28)()
    places, keys = rows(columns=slice(8, 16))()
    return words + places, key + keys


def of_words_and_a_little_place():
    query, key = rows()()
    key[:, 8:16] = torch.linspace(0, 0.05, 8).expand(8, 8)
    return query, key


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
    "third_head": [
        rows(query=6, key=6),
        rows(query=36, basis=torch.eye(8).flip(0)),
        rows(query=40, basis=torch.linalg.qr(torch.arange(64.0).view(8, 8).sin())[0]),
        lambda: [part.tolist() for part in rows()()],
        lambda: torch.stack(rows()()),
        lambda: torch.stack(rows()()).numpy(),
        lambda: [nn.Parameter(part) for part in rows()()],
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
        (
            (lambda x, n: x.unflatten(2, (-1, n)).transpose(1, 2), join),
            "split: the shape is (2, 5, 3, 4) where (2, 4, 3, 5) is due",
        ),
        ((split, lambda c: join(c).flip(1)), "join: the shape is right but"),
        ((split, lambda c: c.view(2, 3, 20)), "join: without the transpose"),
        (
            (split, lambda c: join(c).squeeze()),
            "join: with context (1, 3, 1, 2) it goes wrong: the shape is",
        ),
        (
            (split, lambda c: c.transpose(1, 2).contiguous),
            "are its parentheses missing?",
        ),
        (
            (split, lambda c: c.transpose(1, 2).reshape(len(c), c.size(2), 20)),
            "join: with context (3, 2, 7, 1) it goes wrong: your code stopped with",
        ),
        ((split, lambda c: torch.zeros(2, 3, 20)), "join: the numbers themselves have"),
    ],
    "third_head": [
        (rows(query=4.0), "the right words win, but get only"),
        (rows(query=math.nan), "NaN"),
        (rows(query=1e30, key=1e30), "NaN"),
        (rows(columns=slice(8, 16)), "the head compares places"),
        (rows(columns=slice(16, 24)), "all keys get the same weight"),
        (with_six_features, "“one two three four five six seven eight”: words that"),
        (of_words_and_a_little_place, "not evenly on the same words"),
        (of_words_and_more_of_places, "the head compares places, too"),
        (of_words_and_places, "not evenly on the same words"),
        (lambda: torch.eye(8), "one tensor of shape (8, 8), where two are due"),
        (lambda: [part.T for part in rows()()], "query_rows has shape (24, 8)"),
        (lambda: rows()()[0], "one tensor of shape (8, 24), where two are due"),
    ],
}
