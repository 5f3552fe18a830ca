"""What the exercises of lesson 05 say of mistakes that are in no table."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from helpers.layers import FeedForward, LayerNorm
from lessons.lesson05 import exercises


def network(bend):
    class Network(nn.Module):
        def __init__(self, d_model, d_ff):
            super().__init__()
            made = FeedForward(d_model, d_ff)
            self.expand, self.contract = made.expand, made.contract

        def forward(self, x):
            return self.contract(bend(self.expand(x), self.training))

    return Network


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


def residual(p=lambda dropout: dropout, where="output"):
    class Residual(nn.Module):
        def __init__(self, d_model, *, dropout, norm_first):
            super().__init__()
            self.norm, self.dropout = LayerNorm(d_model), nn.Dropout(p(dropout))
            self.first = norm_first

        def forward(self, x, sublayer):
            def drop(x, here):
                return self.dropout(x) if where == here else x

            y = sublayer(drop(self.norm(x) if self.first else x, "input"))
            y = drop(x + drop(y, "output"), "sum")
            return y if self.first else self.norm(y)

    return Residual


@pytest.mark.parametrize(
    ("exercise", "answer", "part"),
    [
        ("feed_forward", network(lambda x, _: F.relu6(x)), "for large numbers: "),
        (
            "feed_forward",
            network(lambda x, training: F.dropout(x.relu(), 0.1, training)),
            "in training: ",
        ),
        ("layer_norm", norm(over=(0, 1)), "with the tokens around it"),
        ("layer_norm", norm(put=lambda x, gain, bias: x + bias), "a gain of 0"),
        ("layer_norm", norm(put=lambda x, gain, bias: gain * (x + bias)), "bias of 3"),
        ("residual", residual(lambda dropout: 0.1), "yours drops 0.1"),
        ("residual", residual(where="input"), "falls on what a sublayer reads"),
        ("residual", residual(where="sum"), "x loses numbers, too"),
    ],
)
def test_what_is_wrong_with_a_part_is_said(exercise, answer, part):
    assert part in getattr(exercises, exercise).findings(answer)[0][-1]


def test_these_answers_are_right_as_they_stand():
    assert exercises.feed_forward.passes(network(lambda x, _: x.relu()))
    assert exercises.layer_norm.passes(norm())
    assert exercises.residual.passes(residual())
