"""Lesson 01: what its exercises say beyond their mistakes, and the loop `fit`."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from helpers.positions import positional_encoding
from helpers.training import fit
from lessons.lesson01 import exercises


def said(exercise, answer):
    return exercise.findings(answer)[0][-1]


class Words(nn.Embedding):
    def __init__(self, vocab_size, d_model):
        super().__init__(vocab_size, d_model)
        self.begin()

    def begin(self):
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)

    def forward(self, tokens):
        return super().forward(tokens) * self.embedding_dim**0.5


class Rows(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab_size, d_model) / d_model**0.5)

    def forward(self, ids):
        return self.weight[ids] * self.weight.size(1) ** 0.5


class Uniform(Words):
    def begin(self):
        nn.init.uniform_(self.weight, -((3 / self.embedding_dim) ** 0.5))
        self.weight.data.sub_(self.weight.data.mean())
        self.weight.data.mul_(self.embedding_dim**-0.5 / self.weight.data.std())


def test_other_ways_to_begin_are_right():
    for answer in (Words, Rows, Uniform):
        assert exercises.token_embedding.passes(answer), answer


@pytest.mark.parametrize("std", [1, 1 / 64, 0])
def test_words_that_begin_at_another_size_are_wrong(std):
    class Other(Words):
        def begin(self):
            nn.init.normal_(self.weight, std=std)

    assert exercises.token_embedding.passes(Words)
    assert "standard deviation" in said(exercises.token_embedding, Other)


class Added(nn.Module):
    def __init__(self, d_model, *, dropout, max_length):
        super().__init__()
        self.p = dropout
        rows = positional_encoding(max_length, d_model)
        self.register_buffer("rows", rows, persistent=False)

    def forward(self, embedded, *, start=0):
        x = embedded + self.rows[start : start + embedded.shape[1]]
        return self.end(x, embedded)

    def end(self, x, embedded):
        return F.dropout(x, self.p, self.training)


class OnTheCpu(nn.Module):
    def __init__(self, d_model, *, dropout, max_length):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.rows = positional_encoding(max_length, d_model)

    def forward(self, embedded, *, start=0):
        return self.dropout(embedded + self.rows[start : start + embedded.size(1)])


@pytest.mark.parametrize(
    ("end", "part"),
    [
        (lambda self, x, words: x, "yours sets 0.00"),
        (lambda self, x, words: F.dropout(x, self.p), "in evaluation, too"),
        (lambda self, x, words: F.dropout(x, 1 - self.p, self.training), "sets 0.7"),
        (
            lambda self, x, words: x - words + F.dropout(words, self.p, self.training),
            "add first and drop then",
        ),
        (
            lambda self, x, words: words + F.dropout(x - words, self.p, self.training),
            "add first and drop then",
        ),
        (lambda self, x, words: F.dropout1d(x, self.p, self.training), "whole words"),
        (
            lambda self, x, words: F.dropout1d(x.mT, self.p, self.training).mT,
            "whole words",
        ),
        (
            lambda self, x, words: F.dropout(x, 0.25, self.training),
            "with dropout=0.5, training must set",
        ),
        (
            lambda self, x, words: x * (torch.rand_like(x) > self.p * self.training),
            "divides what it keeps",
        ),
    ],
)
def test_dropout_that_does_not_act_as_it_should_is_wrong(end, part):
    assert exercises.positional_encoding_layer.passes(Added)
    wrong = type("Wrong", (Added,), {"end": end})
    assert part in said(exercises.positional_encoding_layer, wrong)


def test_a_table_that_cannot_move_is_wrong():
    text = said(exercises.positional_encoding_layer, OnTheCpu)
    assert "register_buffer" in text


class Stored(Added):
    def __init__(self, d_model, *, dropout, max_length):
        super().__init__(d_model, dropout=dropout, max_length=max_length)
        self.register_buffer("rows", self.rows)


class OfOneSize(Added):
    def __init__(self, d_model, *, dropout, max_length):
        super().__init__(d_model, dropout=dropout, max_length=5000)


class Fixed(OnTheCpu):
    def __init__(self, d_model, *, dropout, max_length):
        super().__init__(d_model, dropout=dropout, max_length=max_length)
        table = self.rows
        del self.rows
        self.rows = nn.Parameter(table, requires_grad=False)


@pytest.mark.parametrize(
    ("answer", "part"),
    [(Stored, "persistent"), (OfOneSize, "max_length"), (Fixed, "nn.Parameter")],
)
def test_a_table_that_is_kept_in_another_way_is_wrong(answer, part):
    assert part in said(exercises.positional_encoding_layer, answer)


def test_a_row_that_is_never_trained_is_wrong():
    class Padded(nn.Embedding):
        def __init__(self, vocab_size, d_model):
            super().__init__(vocab_size, d_model, padding_idx=0)
            nn.init.normal_(self.weight, std=d_model**-0.5)

        def forward(self, tokens):
            return super().forward(tokens) * self.embedding_dim**0.5

    assert "padding_idx" in said(exercises.token_embedding, Padded)


def test_fit_finds_a_line():
    torch.manual_seed(0)

    def points():
        x = torch.rand(32, 1)
        return x, 3 * x + 1

    line = nn.Linear(1, 1)
    losses = fit(line, points, F.mse_loss, steps=400, rate=0.05)
    assert len(losses) == 400 and losses[-1] < 1e-3 < losses[0]
    assert math.isclose(line.weight.item(), 3, abs_tol=0.1)
