"""Answers to lesson 01's exercises that no table holds: right ones, and wrong ones."""

import math

import numpy as np
import torch
from torch import nn

from helpers.positions import PositionalEncoding, TokenEmbedding, positional_encoding

# ------------------------------------------------------------------ 01.1 the encoding


def with_loops(length, d_model):
    table = []
    for p in range(length):
        row = []
        for i in range(d_model // 2):
            angle = p / 10000 ** (2 * i / d_model)
            row += [math.sin(angle), math.cos(angle)]
        table.append(row)
    return table


def with_numpy(length, d_model):
    j = np.arange(d_model)
    angle = np.arange(length)[:, None] / np.power(1e4, 2 * (j // 2) / d_model)
    return np.where(j % 2 == 0, np.sin(angle), np.cos(angle))


def with_logarithms(length, d_model):
    rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    angle = torch.outer(torch.arange(length).float(), rate)
    return torch.stack((angle.sin(), angle.cos()), dim=2).flatten(1).requires_grad_()


def for_sixteen(length, d_model):
    table = torch.zeros(length, d_model)
    table[:, :16] = torch.tensor(with_loops(length, 16))
    return table


def without_the_last_pair(length, d_model):
    table = torch.zeros(length, d_model)
    kept = d_model // 4 * 4
    table[:, :kept] = positional_encoding(length, d_model)[:, :kept]
    return table


def off_from_the_tenth_on(length, d_model):
    table = positional_encoding(length, d_model)
    return table + (torch.arange(length)[:, None] > 10) * 0.1


# ------------------------------------------------------------------ 01.2 the rotation


def by_exponential(k, d_model):
    step = torch.zeros(d_model, d_model, dtype=torch.double)
    for i in range(0, d_model, 2):
        step[i, i + 1] = 10000 ** (-i / d_model)
    return torch.matrix_exp(k * (step - step.T))


def block_by_block(k, d_model):
    blocks = []
    for w in 10000 ** (-np.arange(0, d_model, 2) / d_model):
        c, s = np.cos(k * w), np.sin(k * w)
        blocks.append(torch.tensor([[c, s], [-s, c]]))
    return torch.block_diag(*blocks).numpy()


def solved(places):
    def answer(k, d_model):
        table = positional_encoding(30_000, d_model).double()
        found = torch.linalg.lstsq(table[places], table[places + k], driver="gelsd")
        return found.solution.T

    return answer


# --------------------------------------------------------------- 01.3 the input layer


class FromTheLayers(nn.Module):
    """What the course does, from its own two layers."""

    def __init__(self, vocab_size, d_model, max_length):
        super().__init__()
        self.words = TokenEmbedding(vocab_size, d_model)
        self.places = PositionalEncoding(d_model, dropout=0.0, max_length=max_length)

    def forward(self, tokens):
        return self.places(self.words(tokens))


class InTheForward(nn.Module):
    """The table is made when it is needed, on the device of the words."""

    def __init__(self, vocab_size, d_model, max_length):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        self.words.weight.data.div_(d_model**0.5)

    def forward(self, ids):
        x = self.words.weight[ids]
        return x.shape[-1] ** 0.5 * x + positional_encoding(*x.shape[1:]).to(x)


class Frozen(InTheForward):
    """The positions are an embedding that is not trained."""

    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, max_length)
        table = positional_encoding(max_length, d_model)
        self.places = nn.Embedding.from_pretrained(table)

    def forward(self, ids):
        places = self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.words(ids) * math.sqrt(self.words.embedding_dim) + places


class Learnt(Frozen):
    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, max_length)
        self.places.weight.requires_grad_(True)


class OnTheCpu(InTheForward):
    """Its own tensor does not move with the layer."""

    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, max_length)
        self.tables = [positional_encoding(max_length, d_model)]

    def forward(self, ids):
        x = self.words(ids) * math.sqrt(self.words.embedding_dim)
        return x + self.tables[0][: ids.shape[1]]


class Sent(OnTheCpu):
    """Its own tensor is sent where the words are."""

    def forward(self, ids):
        x = self.words(ids) * math.sqrt(self.words.embedding_dim)
        return x + self.tables[0][: ids.shape[1]].to(ids.device)


class Padded(InTheForward):
    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, max_length)
        self.words.padding_idx = 0


class Alike(InTheForward):
    """All words start the same."""

    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, max_length)
        self.words.weight.data[:] = self.words.weight.data[0].clone()


class OfHalf(Frozen):
    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, max_length // 2 + 3)


class Detached(InTheForward):
    def forward(self, ids):
        return super().forward(ids).detach()


class Nameless(InTheForward):
    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, max_length)
        self.words = nn.Linear(vocab_size, d_model)


class ForSixtyFour(InTheForward):
    def forward(self, ids):
        return self.words(ids) * 8 + positional_encoding(ids.shape[1], 64)


class AlwaysATenth(InTheForward):
    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, max_length)
        nn.init.normal_(self.words.weight, std=0.13)


class AsXavierHasIt(InTheForward):
    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, max_length)
        nn.init.xavier_normal_(self.words.weight)


class Started(InTheForward):
    """The words start with this mean and size, in units of 1/√d_model."""

    mean, size = 0.0, 1.35

    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, max_length)
        unit = d_model**-0.5
        nn.init.normal_(self.words.weight, self.mean * unit, self.size * unit)


class Shorter(Started):
    size = 0.75


class OffZero(Started):
    mean, size = 1.0, 1.0


class FarOffZero(Started):
    mean, size = 30.0, 1.0


class Tiny(InTheForward):
    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, max_length)
        nn.init.normal_(self.words.weight, std=0.02)


class Kaiming(InTheForward):
    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, max_length)
        nn.init.kaiming_uniform_(self.words.weight)


class FromFrozen(InTheForward):
    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, max_length)
        self.words = nn.Embedding.from_pretrained(self.words.weight.data)


class OfTenRows(Frozen):
    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, 10)


class OfNinetyNineRows(Frozen):
    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, 99)


class OneForEachWord(Frozen):
    def __init__(self, vocab_size, d_model, max_length):
        super().__init__(vocab_size, d_model, vocab_size)


class Dropping(InTheForward):
    def forward(self, ids):
        return nn.functional.dropout(super().forward(ids), 0.1)


STARTS = [AlwaysATenth, AsXavierHasIt, Started, Shorter, OffZero, FarOffZero, Tiny]
STARTS += [Kaiming, Alike]
RIGHT = {
    "sinusoids": [with_loops, with_numpy, with_logarithms],
    "rotation": [
        by_exponential,
        block_by_block,
        lambda *x: block_by_block(*x).tolist(),
        lambda *x: torch.tensor(block_by_block(*x)).requires_grad_(),
    ],
    "input_layer": [FromTheLayers, InTheForward, Frozen, Sent],
}
WRONG = {
    "sinusoids": [
        (for_sixteen, "your code stopped with RuntimeError"),
        (without_the_last_pair, "with length 7 and d_model 6 it goes wrong"),
        (off_from_the_tenth_on, "the result differs from the expected one"),
        (
            lambda n, d: torch.zeros(n, d),
            "hold no cosine; and the even features hold no",
        ),
        (lambda n, d: torch.full((n, d), math.nan), "holds NaN or infinity"),
        (lambda n, d: positional_encoding(n + 1, d), "the shape is (13, 16) where"),
        (positional_encoding, "this is the course's own"),
    ],
    "rotation": [
        (solved(torch.arange(64)), "the result differs from the expected one"),
        (lambda k, d: torch.eye(d // 2), "the shape is (8, 8) where (16, 16) is due"),
        (lambda k, d: block_by_block(abs(k), d), "keep the sign of k"),
        (
            lambda k, d: torch.stack(
                [
                    torch.tensor(block_by_block(k, d))[i : i + 2, i : i + 2]
                    for i in range(0, d, 2)
                ]
            ),
            "these are the blocks alone",
        ),
        (lambda k, d: torch.zeros(d, d), "the result differs from the expected one"),
        (lambda k, d: block_by_block(5, d), "with k"),
    ],
    "input_layer": [
        (FromTheLayers(5, 4, 3), "hand over the class itself"),
        (Learnt, "`places.weight` would be trained"),
        (Detached, "no gradient reaches"),
        (Nameless, "`self.words` is to be an `nn.Embedding`"),
        (ForSixtyFour, "your code stopped with RuntimeError"),
        (Dropping, "something random"),
        *((start, "the words start with another mean") for start in STARTS),
        (FromFrozen, "the words would not be trained"),
        (OnTheCpu, "a tensor stays on the CPU"),
        (Padded, "`padding_idx` treats some words in another way"),
        (OfHalf, "your code stopped with IndexError"),
        (OfTenRows, "your code stopped with IndexError"),
        (OfNinetyNineRows, "your code stopped with IndexError"),
        (OneForEachWord, "your code stopped with IndexError"),
    ],
}
