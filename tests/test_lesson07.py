"""What the exercises of lesson 07 say of a decoder that looks right, and is not."""

import pytest
from torch import nn

from helpers.attention import MultiHeadAttention
from helpers.layers import FeedForward, LayerNorm, Residual
from lessons.lesson07 import exercises


def layer(shares=lambda p: [p, p, p], across="cross_attention"):
    """A decoder layer, right as it stands."""

    class Layer(nn.Module):
        def __init__(self, sizes):
            super().__init__()
            self.self_attention = MultiHeadAttention(sizes.d_model, sizes.n_heads)
            self.cross_attention = MultiHeadAttention(sizes.d_model, sizes.n_heads)
            self.feed_forward = FeedForward(sizes.d_model, sizes.d_ff)
            self.residuals = nn.ModuleList(
                Residual(sizes.d_model, dropout=share, norm_first=sizes.norm_first)
                for share in shares(sizes.dropout)
            )

        def forward(self, x, memory, mask=None, memory_mask=None):
            cross = getattr(self, across)
            x = self.residuals[0](x, lambda y: self.self_attention(y, y, y, mask))
            x = self.residuals[1](x, lambda y: cross(y, memory, memory, memory_mask))
            return self.residuals[2](x, self.feed_forward)

    return Layer


def stack(layer, handed_on=lambda *masks: masks):
    """A stack of layers, right as it stands."""

    class Stack(nn.Module):
        def __init__(self, n_layers, sizes):
            super().__init__()
            self.layers = nn.ModuleList(layer(sizes) for _ in range(n_layers))
            self.norm = LayerNorm(sizes.d_model) if sizes.norm_first else nn.Identity()

        def forward(self, x, memory, *masks):
            for layer in self.layers:
                x = layer(x, memory, *handed_on(*masks))
            return self.norm(x)

    return Stack


@pytest.mark.parametrize(
    "exercise, answer, said",
    [
        ("decoder_layer", layer(lambda p: [0.1] * 3), "of what `self_attention` adds"),
        ("decoder_layer", layer(lambda p: [p, 0, p]), "of what `cross_attention` adds"),
        ("decoder_layer", layer(across="self_attention"), "the result is"),
        ("decoder", stack(layer(lambda p: [0.1] * 3)), "of what `layers.0.self"),
        ("decoder", stack(layer(), lambda *masks: ()), "with masks: the result is"),
    ],
)
def test_what_is_wrong_with_a_decoder_is_said(exercise, answer, said):
    lines, _ = getattr(exercises, exercise).findings(answer)
    assert said in lines[-1], lines


def test_a_right_decoder_is_right():
    assert exercises.decoder_layer.passes(layer())
    assert exercises.decoder.passes(stack(layer()))
