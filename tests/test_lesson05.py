"""What the exercises of lesson 05 say of mistakes that are in no table."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from helpers.layers import LayerNorm
from lessons.lesson05 import exercises


class Network(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.expand, self.contract = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.contract(self.bend(self.expand(x)))


class Bounded(Network):
    bend = staticmethod(F.relu6)


class Dropped(Network):
    def bend(self, x):
        return F.dropout(x.relu(), 0.1, self.training)


@pytest.mark.parametrize(
    ("answer", "part"), [(Bounded, "for large numbers: "), (Dropped, "in training: ")]
)
def test_a_network_is_tried_on_large_numbers_and_in_training(answer, part):
    assert exercises.feed_forward.findings(answer)[0][-1].startswith(f"✗ {part}")


def norm(over=-1, put=lambda x, gain, bias: gain * x + bias):
    class Norm(nn.Module):
        def __init__(self, d_model, *, eps=1e-5):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(d_model))
            self.bias = nn.Parameter(torch.zeros(d_model))
            self.eps = eps

        def forward(self, x):
            variance = x.var(over, correction=0, keepdim=True)
            x = (x - x.mean(over, keepdim=True)) / (variance + self.eps).sqrt()
            return put(x, self.gain, self.bias)

    return Norm


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (norm(over=-2), "with the tokens around it"),
        (norm(over=(0, 1)), "with the tokens around it"),
        (norm(over=(1, 2)), "with the tokens around it"),
        (norm(put=lambda x, gain, bias: x), "the gain is not used"),
        (norm(put=lambda x, gain, bias: x + bias), "the gain is not used"),
        (norm(put=lambda x, gain, bias: gain * x), "the bias is not used"),
        (norm(put=lambda x, gain, bias: gain * (x + bias)), "or not last"),
    ],
)
def test_whose_numbers_and_which_parts_a_norm_uses_is_said(answer, part):
    assert exercises.layer_norm.passes(norm())
    assert part in exercises.layer_norm.findings(answer)[0][-1]


def residual(p=lambda dropout: dropout, where="output", first=None):
    class Residual(nn.Module):
        def __init__(self, d_model, *, dropout, norm_first):
            super().__init__()
            self.norm, self.dropout = LayerNorm(d_model), nn.Dropout(p(dropout))
            self.first = norm_first if first is None else first

        def forward(self, x, sublayer):
            def drop(x, here):
                return self.dropout(x) if where == here else x

            y = sublayer(drop(self.norm(x) if self.first else x, "input"))
            y = drop(x + drop(y, "output"), "sum")
            return y if self.first else self.norm(y)

    return Residual


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (residual(lambda dropout: 0.5), "the share that is dropped is 0.5"),
        (residual(lambda dropout: 1 - dropout), "the share that is dropped is 0.8"),
        (residual(lambda dropout: 0.1), "the share that is dropped is 0.1"),
        (residual(where="nowhere"), "nothing is dropped"),
        (residual(where="input"), "falls on what the sublayer reads"),
        (residual(where="sum"), "x loses numbers, too"),
        (residual(first=True), "yours puts the norm first"),
        (residual(first=False), "yours puts the norm last"),
    ],
)
def test_where_dropout_falls_and_with_which_share_is_said(answer, part):
    assert exercises.residual.passes(residual())
    assert part in exercises.residual.findings(answer)[0][-1]
