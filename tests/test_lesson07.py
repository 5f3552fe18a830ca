"""What the exercises of lesson 07 say of a decoder that looks right, and is not."""

import pytest
from torch import nn

from helpers.attention import MultiHeadAttention
from helpers.layers import FeedForward, LayerNorm, Residual
from lessons.lesson07 import exercises


class Layer(nn.Module):
    """A decoder layer, right as it stands."""

    def __init__(self, sizes):
        super().__init__()
        self.self_attention = MultiHeadAttention(sizes.d_model, sizes.n_heads)
        self.cross_attention = MultiHeadAttention(sizes.d_model, sizes.n_heads)
        self.feed_forward = FeedForward(sizes.d_model, sizes.d_ff)
        self.residuals = nn.ModuleList(
            Residual(sizes.d_model, dropout=share, norm_first=self.order(sizes))
            for share in self.shares(sizes)
        )

    def order(self, sizes):
        return sizes.norm_first

    def shares(self, sizes):
        return [sizes.dropout] * 3

    def own(self, y, mask):
        return self.self_attention(y, y, y, mask)

    def across(self, y, memory, mask):
        return self.cross_attention(y, memory, memory, mask)

    def forward(self, x, memory, mask=None, memory_mask=None):
        first, second, third = self.residuals
        x = first(x, lambda y: self.own(y, mask))
        x = second(x, lambda y: self.across(y, memory, memory_mask))
        return third(x, self.feed_forward)


class Fixed(Layer):
    def shares(self, sizes):
        return [0.1] * 3


class AlmostAll(Layer):
    def shares(self, sizes):
        return [0.9] * 3


class Never(Layer):
    def shares(self, sizes):
        return [0.0] * 3


class Once(Layer):
    def shares(self, sizes):
        return [0.0, sizes.dropout, 0.0]


class FixedOrder(Layer):
    def order(self, sizes):
        return False


class OwnUnmasked(Layer):
    def own(self, y, mask):
        return self.self_attention(y, y, y)


class AcrossUnmasked(Layer):
    def across(self, y, memory, mask):
        return self.cross_attention(y, memory, memory)


class NeitherMask(OwnUnmasked, AcrossUnmasked):
    pass


class OnlyOneAttention(Layer):
    def across(self, y, memory, mask):
        return self.self_attention(y, memory, memory, mask)


class NoCross(Layer):
    def forward(self, x, memory, mask=None, memory_mask=None):
        x = self.residuals[0](x, lambda y: self.own(y, mask))
        return self.residuals[2](x, self.feed_forward)


class ByMemory(Layer):
    def across(self, y, memory, mask):
        return self.cross_attention(memory, y, y, mask)


class Stack(nn.Module):
    """A stack of layers, right as it stands."""

    def __init__(self, n_layers, sizes):
        super().__init__()
        self.layers = nn.ModuleList(self.layer(sizes) for _ in range(n_layers))
        self.norm = LayerNorm(sizes.d_model) if sizes.norm_first else nn.Identity()

    layer = Layer

    def masks(self, mask, memory_mask):
        return mask, memory_mask

    def forward(self, x, memory, mask=None, memory_mask=None):
        for layer in self.layers:
            x = layer(x, memory, *self.masks(mask, memory_mask))
        return self.norm(x)


class StackOfFixed(Stack):
    layer = Fixed


class WithoutMask(Stack):
    def masks(self, mask, memory_mask):
        return None, memory_mask


class WithoutMemoryMask(Stack):
    def masks(self, mask, memory_mask):
        return mask, None


class WithoutMasks(Stack):
    def masks(self, mask, memory_mask):
        return None, None


DROPS = "of what `self_attention` adds, training must drop the share"


@pytest.mark.parametrize(
    "exercise, answer, said",
    [
        ("decoder_layer", Fixed, DROPS),
        ("decoder_layer", AlmostAll, DROPS),
        ("decoder_layer", Never, DROPS),
        ("decoder_layer", Once, DROPS),
        ("decoder_layer", FixedOrder, "✗ with the norm first: "),
        ("decoder_layer", OwnUnmasked, "✗ `mask` changes nothing"),
        ("decoder_layer", AcrossUnmasked, "`memory_mask` changes nothing"),
        ("decoder_layer", NeitherMask, "neither mask changes anything"),
        ("decoder_layer", OnlyOneAttention, "nothing of `cross_attention` reaches"),
        ("decoder_layer", NoCross, "nothing of `cross_attention` reaches"),
        ("decoder_layer", ByMemory, "query is the memory"),
        ("decoder", StackOfFixed, DROPS),
        ("decoder", WithoutMask, "✗ `mask` changes nothing"),
        ("decoder", WithoutMemoryMask, "`memory_mask` changes nothing"),
        ("decoder", WithoutMasks, "neither mask changes anything"),
    ],
)
def test_what_is_wrong_with_a_decoder_is_said(exercise, answer, said):
    lines, _ = getattr(exercises, exercise).findings(answer)
    assert said in lines[-1], lines


@pytest.mark.parametrize(
    "exercise, answer", [("decoder_layer", Layer), ("decoder", Stack)]
)
def test_a_right_decoder_is_right(exercise, answer):
    assert getattr(exercises, exercise).passes(answer)
