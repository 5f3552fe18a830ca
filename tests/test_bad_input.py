"""One test per error a user can make with the model, on its message."""

import pytest
import torch

from helpers.attention import MultiHeadAttention, attention
from helpers.positions import positional_encoding
from helpers.transformer import TransformerConfig
from samples import sentences, small_model


def test_heads_that_do_not_divide_the_model():
    with pytest.raises(ValueError, match="d_model=10 is not divisible by n_heads=4"):
        MultiHeadAttention(10, 4)
    with pytest.raises(ValueError, match="d_model=512 is not divisible by n_heads=7"):
        TransformerConfig(10, 10, n_heads=7)


def test_an_odd_d_model():
    with pytest.raises(ValueError, match=r"d_model must be even .*: 7"):
        positional_encoding(3, 7)


@pytest.mark.parametrize("name", ["n_layers", "d_ff"])
def test_a_size_below_one(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1: 0"):
        TransformerConfig(**{"source_vocab": 5, "target_vocab": 5, name: 0})
    TransformerConfig(**{"source_vocab": 5, "target_vocab": 5, "n_heads": 1, name: 1})


def test_dropout_outside_its_range():
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\): 1.0"):
        TransformerConfig(5, 5, dropout=1.0)


def test_sharing_between_two_vocabularies():
    with pytest.raises(ValueError, match="source_vocab=5, target_vocab=6"):
        TransformerConfig(5, 6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_a_mask_that_is_not_boolean(dtype):
    x = torch.randn(2, 3, 4)
    mask = torch.ones(3, 3, dtype=dtype)
    with pytest.raises(ValueError, match=f"True = may attend, not {dtype}"):
        attention(x, x, x, mask)
    with pytest.raises(ValueError, match=f"True = may attend, not {dtype}"):
        MultiHeadAttention(4, 2)(x, x, x, mask)


@pytest.mark.parametrize("shape", [(2, 3), (5, 1, 3, 3)])
def test_a_mask_that_does_not_broadcast(shape):
    x = torch.randn(2, 3, 4)
    mask = torch.ones(shape, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"does not broadcast to \(2, 2, 3, 3\)"):
        MultiHeadAttention(4, 2)(x, x, x, mask)


@pytest.mark.parametrize("token", [-1, 50])
def test_an_id_outside_the_vocabulary(token):
    model, (source, target) = small_model(), sentences()
    source[1, 1] = token
    with pytest.raises(ValueError, match=f"token id {token} is outside .*of 50"):
        model(source, target)


def test_a_source_longer_than_the_positional_table():
    model, (_, target) = small_model(), sentences()
    with pytest.raises(ValueError, match="41 tokens long, the positional table 40"):
        model(torch.full((3, 41), 5), target)


@pytest.mark.parametrize("shape", [(0, 4), (4,)])
def test_an_empty_or_flat_batch(shape):
    model, (_, target) = small_model(), sentences()
    with pytest.raises(ValueError, match="source must be a non-empty"):
        model(torch.zeros(shape, dtype=torch.long), target)
    with pytest.raises(ValueError, match="target must be a non-empty"):
        model(target, torch.zeros(shape, dtype=torch.long))


def test_vectors_where_ids_belong():
    with pytest.raises(ValueError, match=r"source must hold integer ids, not torch\.f"):
        small_model()(torch.zeros(3, 4), sentences()[1])
