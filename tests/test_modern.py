"""The parts that came after 2017: equal to Hugging Face's, and what they promise."""

import pytest
import torch
from torch import nn

from helpers.attention import MultiHeadAttention
from helpers.caching import AttentionCache
from helpers.interop.huggingface import copy_llama_layer, copy_rms_norm
from helpers.masks import causal_mask
from helpers.modern.attention import GroupedQueryAttention
from helpers.modern.block import ModernBlock
from helpers.modern.feed_forward import SwiGLU
from helpers.modern.norm import RMSNorm
from helpers.modern.retrofit import GroupedHeads, RotaryAttention
from helpers.modern.rotary import rotary_angles, rotate

LENGTH = 11


def llama(n_kv_heads):
    """A Llama of one layer at random, and its rotary embedding."""
    from transformers import LlamaConfig
    from transformers.models.llama import modeling_llama

    config = LlamaConfig(
        hidden_size=48,
        num_attention_heads=6,
        num_key_value_heads=n_kv_heads,
        intermediate_size=80,
        num_hidden_layers=1,
    )
    config._attn_implementation = "eager"
    layer = modeling_llama.LlamaDecoderLayer(config, layer_idx=0).eval()
    for norm in (layer.input_layernorm, layer.post_attention_layernorm):
        nn.init.normal_(norm.weight, mean=1.0, std=0.3)
    return layer, modeling_llama.LlamaRotaryEmbedding(config)


@pytest.fixture(params=[1, 2, 6])
def pair(request):
    """Hugging Face's layer, its rotary embedding, and ours with the same weights."""
    theirs, turn = llama(request.param)
    ours = ModernBlock(48, 6, request.param, 80)
    copy_llama_layer(theirs, ours)
    return theirs, turn, ours


@torch.no_grad()
def theirs_at_once(layer, turn, x):
    places = torch.arange(x.size(1))[None]
    hidden = torch.zeros(x.size(1), x.size(1)).masked_fill(
        ~causal_mask(x.size(1))[0, 0], -torch.inf
    )
    return layer(x, attention_mask=hidden, position_embeddings=turn(x, places))


@pytest.mark.slow
@torch.no_grad()
def test_the_block_equals_hugging_faces_layer(pair, seed):
    theirs, turn, ours = pair
    x = torch.randn(3, LENGTH, 48)
    x[:, ::3] *= 1e-3  # short vectors, for which ε counts
    due = theirs_at_once(theirs, turn, x)
    y = ours(x, rotary_angles(LENGTH, 8), causal_mask(LENGTH))
    torch.testing.assert_close(y, due, atol=1e-5, rtol=0)


@pytest.mark.slow
@torch.no_grad()
def test_the_block_equals_hugging_faces_layer_step_by_step(pair, seed):
    from transformers import DynamicCache

    theirs, turn, ours = pair
    x, angles = torch.randn(3, LENGTH, 48), rotary_angles(LENGTH, 8)
    our_cache, their_cache = AttentionCache(), DynamicCache()
    for i in range(LENGTH):
        new = x[:, i : i + 1]
        due = theirs(
            new,
            position_embeddings=turn(new, torch.tensor([[i]])),
            past_key_values=their_cache,
        )
        y = ours(new, angles[i : i + 1], cache=our_cache)
        torch.testing.assert_close(y, due, atol=1e-5, rtol=0)
    assert our_cache.keys.shape == their_cache.layers[0].keys.shape
    torch.testing.assert_close(
        our_cache.keys, their_cache.layers[0].keys, atol=1e-5, rtol=0
    )


@torch.no_grad()
def test_a_prompt_at_once_and_then_steps_equal_all_at_once(seed):
    block, angles = ModernBlock(24, 4, 2, 32), rotary_angles(LENGTH, 6)
    x, cache = torch.randn(2, LENGTH, 24), AttentionCache()
    due = block(x, angles, causal_mask(LENGTH))
    parts = [block(x[:, :4], angles[:4], causal_mask(4), cache=cache)]
    seen = causal_mask(7)[:, :, 4:]
    parts += [block(x[:, 4:7], angles[4:7], seen, cache=cache)]
    parts += [
        block(x[:, i : i + 1], angles[i : i + 1], cache=cache) for i in range(7, LENGTH)
    ]
    torch.testing.assert_close(torch.cat(parts, dim=1), due, atol=1e-5, rtol=0)


def test_a_norm_equals_pytorchs_and_hugging_faces(seed):
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    theirs, ours = LlamaRMSNorm(16, eps=1e-4), RMSNorm(16)
    nn.init.normal_(theirs.weight)
    copy_rms_norm(theirs, ours)
    x = torch.randn(2, 3, 16)
    torch.testing.assert_close(ours(x), theirs(x))
    pytorchs = nn.functional.rms_norm(x, (16,), theirs.weight, 1e-4)
    torch.testing.assert_close(ours(x), pytorchs)


def test_scores_depend_on_the_offset_alone(seed):
    query, key = torch.randn(2, 5, 8, dtype=torch.float64)
    angles = rotary_angles(200, 8).double()
    due = rotate(query, angles[:5]) @ rotate(key, angles[:5]).mT
    for start in (1, 30, 195):
        there = angles[start : start + 5]
        scores = rotate(query, there) @ rotate(key, there).mT
        torch.testing.assert_close(scores, due, atol=1e-4, rtol=0)
    torch.testing.assert_close(rotate(query, angles[:5])[0], query[0])
    torch.testing.assert_close(rotate(query, angles[:5]).norm(dim=1), query.norm(dim=1))


def test_as_many_heads_of_keys_make_multi_head_attention(seed):
    theirs, ours = MultiHeadAttention(12, 3), GroupedQueryAttention(12, 3, 3)
    ours.load_state_dict(theirs.state_dict(), strict=False)
    for name, parameter in theirs.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
    x = torch.randn(2, 5, 12)
    due = theirs(x, x, x, causal_mask(5))
    torch.testing.assert_close(ours(x, mask=causal_mask(5)), due)


def test_gradients_reach_every_parameter():
    block = ModernBlock(12, 3, 1, 20)
    block(torch.randn(2, 5, 12), rotary_angles(5, 4), causal_mask(5)).sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in block.parameters())
    assert not [name for name, _ in block.named_parameters() if name.endswith("bias")]


def test_swiglu_has_three_matrices():
    assert sum(p.numel() for p in SwiGLU(64, 85).parameters()) == 3 * 64 * 85
    assert SwiGLU(4, 6)(torch.randn(2, 3, 4)).shape == (2, 3, 4)


def test_the_block_can_be_exported():
    block = ModernBlock(12, 3, 1, 20).eval()
    given = torch.randn(2, 5, 12), rotary_angles(5, 4), causal_mask(5)
    exported = torch.export.export(block, given).module()
    torch.testing.assert_close(exported(*given), block(*given))


def test_grouped_heads_of_as_many_keys_are_multi_head_attention():
    theirs, ours = MultiHeadAttention(12, 3), GroupedHeads(12, 3, 3)
    turned = RotaryAttention(12, 3, 3, max_length=9)
    x = torch.randn(2, 5, 12)
    for module in (ours, turned):
        module.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(
        ours(x, x, x, causal_mask(5)), theirs(x, x, x, causal_mask(5))
    )
    turned.angles.zero_()
    torch.testing.assert_close(turned(x, x, x), theirs(x, x, x))


@torch.no_grad()
def test_rotary_attention_counts_the_places_of_each_side(seed):
    ours = RotaryAttention(12, 3, 3, max_length=9)
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 8, 12)
    whole = ours(x, memory, memory)
    ours.angles = ours.angles + 0.7 * torch.tensor([1.0, 0.1])  # both sides alike
    torch.testing.assert_close(ours(x, memory, memory), whole)
    swapped = memory[:, [1, 0, *range(2, 8)]]
    assert (ours(x, swapped, swapped) - whole).abs().max() > 1e-4


# -- bad input -------------------------------------------------------------------------


def test_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="d_model=10 is not divisible by n_heads=4"):
        GroupedQueryAttention(10, 4, 2)
    for shared in (3, 0, 8):
        with pytest.raises(ValueError, match=f"not divisible by n_kv_heads={shared}"):
            GroupedQueryAttention(8, 4, shared)
    with pytest.raises(ValueError, match=r"d_head must be even .*: 5"):
        rotary_angles(3, 5)


def test_angles_that_do_not_fit():
    x = torch.randn(2, 3, 8)
    with pytest.raises(ValueError, match=r"angles must be \(3, 4\) .* not \(2, 4\)"):
        rotate(x, rotary_angles(2, 8))
    with pytest.raises(ValueError, match=r"not \(3, 8\)"):
        rotate(x, rotary_angles(3, 16))


def test_a_mask_that_does_not_fit():
    attention, x = GroupedQueryAttention(8, 2, 1), torch.randn(2, 3, 8)
    with pytest.raises(ValueError, match="must be boolean"):
        attention(x, mask=torch.ones(3, 3))
    with pytest.raises(ValueError, match=r"does not broadcast to \(2, 2, 3, 3\)"):
        attention(x, mask=causal_mask(4))
