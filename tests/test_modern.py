"""The parts that came after 2017: equal to Hugging Face's, and what they promise."""

import pytest
import torch
from torch import nn

from helpers.attention import MultiHeadAttention
from helpers.caching import AttentionCache
from helpers.interop.huggingface import copy_llama_layer
from helpers.masks import causal_mask
from helpers.modern.attention import GroupedQueryAttention
from helpers.modern.block import ModernBlock
from helpers.modern.retrofit import GroupedHeads, RotaryAttention
from helpers.modern.rotary import rotary_angles, rotate

LENGTH = 11
CLOSE = {"atol": 1e-5, "rtol": 0}


@pytest.mark.slow
@pytest.mark.parametrize("n_kv_heads", [1, 2, 6])
@torch.no_grad()
def test_the_block_equals_hugging_faces_layer_at_once_and_step_by_step(
    n_kv_heads, seed
):
    from transformers import DynamicCache, LlamaConfig
    from transformers.models.llama import modeling_llama

    sizes = {"hidden_size": 48, "intermediate_size": 80, "num_attention_heads": 6}
    config = LlamaConfig(**sizes, num_key_value_heads=n_kv_heads, num_hidden_layers=1)
    config._attn_implementation = "eager"
    theirs = modeling_llama.LlamaDecoderLayer(config, layer_idx=0).eval()
    turn = modeling_llama.LlamaRotaryEmbedding(config)
    for norm in (theirs.input_layernorm, theirs.post_attention_layernorm):
        nn.init.normal_(norm.weight, mean=1.0, std=0.3)
    ours = ModernBlock(48, 6, n_kv_heads, 80)
    copy_llama_layer(theirs, ours)
    x, angles = torch.randn(3, LENGTH, 48), rotary_angles(LENGTH, 8)
    x[:, ::3] *= 1e-3  # short vectors, for which ε counts
    hidden = torch.zeros(LENGTH, LENGTH)
    hidden = hidden.masked_fill(~causal_mask(LENGTH)[0, 0], -torch.inf)
    places = turn(x, torch.arange(LENGTH)[None])
    due = theirs(x, attention_mask=hidden, position_embeddings=places)
    torch.testing.assert_close(ours(x, angles, causal_mask(LENGTH)), due, **CLOSE)
    our_cache, their_cache = AttentionCache(), DynamicCache()
    for i in range(LENGTH):
        places, named = turn(x, torch.tensor([[i]])), {"past_key_values": their_cache}
        step = theirs(x[:, [i]], position_embeddings=places, **named)
        y = ours(x[:, [i]], angles[[i]], cache=our_cache)
        torch.testing.assert_close(y, step, **CLOSE)
        torch.testing.assert_close(y, due[:, [i]], **CLOSE)
    torch.testing.assert_close(our_cache.keys, their_cache.layers[0].keys, **CLOSE)


@torch.no_grad()
def test_a_prompt_at_once_and_then_steps_equal_all_at_once(seed):
    block, angles = ModernBlock(24, 4, 2, 32), rotary_angles(LENGTH, 6)
    x, cache = torch.randn(2, LENGTH, 24), AttentionCache()
    due = block(x, angles, causal_mask(LENGTH))
    parts = [block(x[:, :4], angles[:4], causal_mask(4), cache=cache)]
    parts += [block(x[:, 4:7], angles[4:7], causal_mask(7)[:, :, 4:], cache=cache)]
    parts += [block(x[:, [i]], angles[[i]], cache=cache) for i in range(7, LENGTH)]
    torch.testing.assert_close(torch.cat(parts, dim=1), due, **CLOSE)


def test_scores_depend_on_the_offset_alone(seed):
    query, key = torch.randn(2, 5, 8, dtype=torch.float64)
    angles = rotary_angles(200, 8).double()
    due = rotate(query, angles[:5]) @ rotate(key, angles[:5]).mT
    for start in (1, 30, 195):
        there = angles[start : start + 5]
        scores = rotate(query, there) @ rotate(key, there).mT
        torch.testing.assert_close(scores, due, atol=1e-4, rtol=0)
    torch.testing.assert_close(rotate(query, angles[:5])[0], query[0])


def test_as_many_heads_of_keys_make_multi_head_attention(seed):
    theirs, ours = MultiHeadAttention(12, 3), GroupedQueryAttention(12, 3, 3)
    grouped, turned = GroupedHeads(12, 3, 3), RotaryAttention(12, 3, 3, max_length=9)
    x = torch.randn(2, 5, 12)
    due = theirs(x, x, x, causal_mask(5))
    for module in (grouped, turned):
        module.load_state_dict(theirs.state_dict())
    turned.angles.zero_()
    for module in (grouped, turned):
        torch.testing.assert_close(module(x, x, x, causal_mask(5)), due)
    ours.load_state_dict(theirs.state_dict(), strict=False)
    for name, parameter in theirs.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
    due = theirs(x, x, x, causal_mask(5))
    torch.testing.assert_close(ours(x, mask=causal_mask(5)), due)


def test_gradients_reach_every_parameter_and_the_block_can_be_exported():
    block = ModernBlock(12, 3, 1, 20)
    given = torch.randn(2, 5, 12), rotary_angles(5, 4), causal_mask(5)
    block(*given).sum().backward()
    assert all(p.grad.abs().sum() > 0 for p in block.parameters())
    assert not [name for name, _ in block.named_parameters() if name.endswith("bias")]
    exported = torch.export.export(block.eval(), given).module()
    torch.testing.assert_close(exported(*given), block(*given))


@torch.no_grad()
def test_rotary_attention_counts_the_places_of_each_side(seed):
    ours = RotaryAttention(12, 3, 3, max_length=9)
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 8, 12)
    whole = ours(x, memory, memory)
    ours.angles = ours.angles + 0.7 * torch.tensor([1.0, 0.1])  # both sides alike
    torch.testing.assert_close(ours(x, memory, memory), whole)
    swapped = memory[:, [1, 0, *range(2, 8)]]
    assert (ours(x, swapped, swapped) - whole).abs().max() > 1e-4


def test_bad_input():
    with pytest.raises(ValueError, match="d_model=10 is not divisible by n_heads=4"):
        GroupedQueryAttention(10, 4, 2)
    for shared in (3, 0, 8):
        with pytest.raises(ValueError, match=f"not divisible by n_kv_heads={shared}"):
            GroupedQueryAttention(8, 4, shared)
    with pytest.raises(ValueError, match=r"d_head must be even .*: 5"):
        rotary_angles(3, 5)
    x = torch.randn(2, 3, 8)
    with pytest.raises(ValueError, match=r"angles must be \(3, 4\) .* not \(2, 4\)"):
        rotate(x, rotary_angles(2, 8))
    attention = GroupedQueryAttention(8, 2, 1)
    with pytest.raises(ValueError, match="must be boolean"):
        attention(x, mask=torch.ones(3, 3))
    with pytest.raises(ValueError, match=r"does not broadcast to \(2, 2, 3, 3\)"):
        attention(x, mask=causal_mask(4))
