"""`attention` and `MultiHeadAttention` against PyTorch's."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from helpers.attention import MultiHeadAttention, attention, record_attention
from helpers.interop.pytorch import copy_attention
from helpers.look_up import SelfAttention
from samples import randomise

pytestmark = pytest.mark.usefixtures("seed")
SHAPES = [
    # leading, query_length, key_length, d_head, d_value
    ((), 3, 5, 4, 4),
    ((2,), 1, 7, 8, 3),
    ((2, 4), 6, 6, 16, 16),
]


def random_inputs(shape, dtype=torch.float32):
    leading, query_length, key_length, d_head, d_value = shape

    def draw(*sizes):
        return torch.randn(*leading, *sizes, dtype=dtype, requires_grad=True)

    query, key = draw(query_length, d_head), draw(key_length, d_head)
    value = draw(key_length, d_value)
    mask = torch.rand(*leading, query_length, key_length) < 0.6
    return query, key, value, mask


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("masked", [False, True])
def test_attention_equals_pytorch(shape, masked):
    bound = 1e-12
    query, key, value, mask = random_inputs(shape, torch.float64)
    mask = mask if masked else None
    ours, _ = attention(query, key, value, mask)
    theirs = scaled_dot_product_attention(query, key, value, mask)
    assert_close(ours, theirs, atol=bound, rtol=bound)
    upstream = torch.randn_like(ours)
    our_gradients = torch.autograd.grad(ours, (query, key, value), upstream)
    their_gradients = torch.autograd.grad(theirs, (query, key, value), upstream)
    assert_close(our_gradients, their_gradients, atol=5 * bound, rtol=5 * bound)


def test_weights_are_a_distribution_over_the_visible_keys():
    query, key, value, mask = random_inputs(SHAPES[2])
    mask[..., 0] = True  # every query sees something
    context, weights = attention(query, key, value, mask)
    assert (weights[~mask] == 0).all()
    assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert_close(context, weights @ value)


def test_a_query_that_sees_nothing_gets_zero_and_a_finite_gradient():
    query, key, value, mask = random_inputs(SHAPES[0])
    mask[1] = False
    context, weights = attention(query, key, value, mask)
    assert (weights[1] == 0).all() and (context[1] == 0).all()
    context.sum().backward()
    assert all(x.grad.isfinite().all() for x in (query, key, value))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_attention_is_finite_in_half_precision(dtype):
    query, key, value, mask = random_inputs(SHAPES[2])
    mask[0, 0, 0] = False
    context, weights = attention(*(x.to(dtype) for x in (query, key, value)), mask)
    assert context.isfinite().all() and weights.isfinite().all()


@pytest.mark.parametrize("n_heads", [1, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_multi_head_attention_equals_pytorch(n_heads, masked):
    ours = randomise(MultiHeadAttention(16, n_heads))
    theirs = nn.MultiheadAttention(16, n_heads, batch_first=True)
    copy_attention(ours, theirs)
    query, memory = torch.randn(3, 4, 16), torch.randn(3, 6, 16)
    mask = torch.rand(3, 4, 6) < 0.7
    mask[..., 0] = True
    expected, expected_weights = theirs(
        query,
        memory,
        memory,
        # PyTorch's module: True = hidden, one mask for each head of each sentence.
        attn_mask=(~mask).repeat_interleave(n_heads, 0) if masked else None,
        average_attn_weights=False,
    )
    with record_attention(ours) as maps:
        output = ours(query, memory, memory, mask[:, None] if masked else None)
    assert_close(output, expected, atol=1e-5, rtol=1e-5)
    assert_close(maps[""], expected_weights, atol=1e-5, rtol=1e-5)
    plain = ours(query, memory, memory, mask[:, None] if masked else None)
    assert_close(plain, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", [(6,), (4, 6), (1, 4, 6), (3, 1, 1, 6), (2, 4, 1)])
def test_a_mask_may_have_any_shape_that_broadcasts(shape):
    module = randomise(MultiHeadAttention(16, 2))
    query, memory = torch.randn(3, 4, 16), torch.randn(3, 6, 16)
    mask = torch.rand(shape) < 0.5
    expected = module(query, memory, memory, mask.expand(3, 2, 4, 6))
    assert_close(module(query, memory, memory, mask), expected)
    with record_attention(module):
        assert_close(module(query, memory, memory, mask), expected)


def test_recording_ends_with_its_block_also_after_an_error():
    module = MultiHeadAttention(8, 2)
    x = torch.randn(1, 3, 8)
    with pytest.raises(RuntimeError, match="on purpose"), record_attention(module):
        raise RuntimeError("on purpose")
    assert module.observer is None
    with record_attention(module) as maps:
        assert maps == {}
        module(x, x, x)
    assert maps[""].shape == (1, 2, 3, 3) and not maps[""].requires_grad
    first = maps[""].clone()
    module(2 * x, x, x)
    assert_close(maps[""], first)


def test_lesson_02s_layer_is_three_matrices_and_attention():
    layer, x = SelfAttention(8, 4, 6), torch.randn(2, 3, 8)
    query, key, value = (x @ matrix.T for matrix in layer.parameters())
    assert_close(layer(x), attention(query, key, value))
