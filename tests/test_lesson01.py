"""Lesson 01: what its exercises say beyond their mistakes."""

import pytest
from torch import nn
from torch.nn import functional as F

from helpers.positions import positional_encoding
from lessons.lesson01 import exercises


def said(exercise, answer):
    return exercise.findings(answer)[0][-1]


class Words(nn.Embedding):
    scale, padding = 1, None

    def __init__(self, vocab_size, d_model):
        super().__init__(vocab_size, d_model, padding_idx=self.padding)
        nn.init.normal_(self.weight, std=self.scale * d_model**-0.5)

    def forward(self, tokens):
        return super().forward(tokens) * self.embedding_dim**0.5


@pytest.mark.parametrize("scale", [4, 1 / 4, 0])
def test_words_that_begin_at_another_size_are_wrong(scale):
    other = type("Other", (Words,), {"scale": scale})
    assert exercises.token_embedding.passes(Words)
    assert "standard deviation" in said(exercises.token_embedding, other)


def test_a_row_that_is_never_trained_is_wrong():
    padded = type("Padded", (Words,), {"padding": 0})
    assert "not all of the gradient" in said(exercises.token_embedding, padded)


class Added(nn.Module):
    def __init__(self, d_model, *, dropout, max_length):
        super().__init__()
        self.p = dropout
        self.keep(positional_encoding(max_length, d_model))

    def keep(self, rows):
        self.register_buffer("rows", rows, persistent=False)

    def forward(self, embedded, *, start=0):
        x = embedded + self.rows[start : start + embedded.shape[1]]
        return self.end(x, embedded)

    def end(self, x, embedded):
        return self.drop(x)

    def drop(self, x):
        return F.dropout(x, self.p, self.training)


@pytest.mark.parametrize(
    ("end", "part"),
    [
        (lambda self, x, words: x, "(yours: 0.00)"),
        (lambda self, x, words: F.dropout(x, self.p), "something random is left in"),
        (lambda self, x, words: F.dropout(x, 1 - self.p, self.training), "(yours: 0.7"),
        (lambda self, x, words: F.dropout(x, 0.25, self.training), "with dropout=0.5"),
        (lambda self, x, words: F.dropout1d(x, self.p, self.training), "single number"),
        (lambda self, x, words: x - words + self.drop(words), "numbers of the sum"),
        (lambda self, x, words: self.drop(x) * (1 - self.p * self.training), "divide"),
    ],
)
def test_dropout_that_does_not_act_as_it_should_is_wrong(end, part):
    assert exercises.positional_encoding_layer.passes(Added)
    wrong = type("Wrong", (Added,), {"end": end})
    assert part in said(exercises.positional_encoding_layer, wrong)


def of_one_size(self, rows):
    Added.keep(self, positional_encoding(5000, rows.size(1)))


@pytest.mark.parametrize(
    ("keep", "part"),
    [
        (lambda self, rows: setattr(self, "rows", rows), "register_buffer"),
        (lambda self, rows: self.register_buffer("rows", rows), "persistent=False"),
        (
            lambda self, rows: setattr(self, "rows", nn.Parameter(rows)),
            "expected: rows",
        ),
        (of_one_size, "max_length"),
    ],
)
def test_a_table_that_is_kept_in_another_way_is_wrong(keep, part):
    wrong = type("Wrong", (Added,), {"keep": keep})
    assert part in said(exercises.positional_encoding_layer, wrong)
