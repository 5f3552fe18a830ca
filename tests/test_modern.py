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
from helpers.modern.rotary import rotary_angles, rotate
from lessons.lesson17 import changes, cross_places, long_texts, position_schemes

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


# -- the experiments of lesson 17 ------------------------------------------------------


@pytest.mark.slow
def test_variants_have_about_as_many_parameters():
    counts = {
        name: sum(p.numel() for p in changes.variant(change, 0).parameters())
        for name, change in changes.CHANGES.items()
    }
    assert all(0.98 < count / counts["2017"] < 1.01 for count in counts.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", changes.CHANGES)
def test_variants_hide_the_future_and_their_padding(name):
    model = changes.variant(changes.CHANGES[name], 0).eval()
    source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 5, 9, 4]])
    logits = model(source, target)
    later = model(source, torch.tensor([[2, 5, 9, 8]]))
    torch.testing.assert_close(later[:, :3], logits[:, :3])
    padded = model(torch.tensor([[5, 6, 7, 3, 0, 0]]), target)
    torch.testing.assert_close(padded, logits)
    turned = model(torch.tensor([[6, 5, 7, 3]]), target)
    assert (turned - logits).abs().max() > 1e-3  # it knows the order


def test_grouped_heads_of_as_many_keys_are_multi_head_attention():
    theirs, ours = MultiHeadAttention(12, 3), changes.GroupedHeads(12, 3, 3)
    turned = changes.RotaryAttention(12, 3, 3, max_length=9)
    x = torch.randn(2, 5, 12)
    for module in (ours, turned):
        module.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(
        ours(x, x, x, causal_mask(5)), theirs(x, x, x, causal_mask(5))
    )
    turned.angles.zero_()
    torch.testing.assert_close(turned(x, x, x), theirs(x, x, x))


def test_no_biases_means_none():
    model = changes.variant(changes.CHANGES["no biases"], 0)
    assert not [name for name, _ in model.named_parameters() if name.endswith("bias")]


def test_what_is_asked_of_long_texts():
    letters, answers = long_texts.texts("look back", 4, 9, seed=0)
    assert torch.equal(answers[:, 3:], letters[:, :-3])
    letters, answers = long_texts.texts("latest mark", 20, 30, seed=0)
    for row, due in zip(letters.tolist(), answers.tolist(), strict=True):
        latest = long_texts.NOTHING
        for letter, answer in zip(row, due, strict=True):
            latest = letter - 8 if letter >= 8 else latest
            assert answer == latest


@pytest.mark.parametrize("kind", long_texts.KINDS)
@torch.no_grad()
def test_readers_see_the_past_within_their_window(kind):
    reader, letters = long_texts.TextReader(kind), torch.randint(16, (2, 12))
    logits = reader(letters)
    later, early = letters.clone(), letters.clone()
    later[:, 7] = (later[:, 7] + 1) % 16
    early[:, 0] = (early[:, 0] + 1) % 16
    torch.testing.assert_close(reader(later)[:, :7], logits[:, :7])
    near = reader(
        letters, hidden=range(3, 12)
    )  # two blocks reach back 2 · (3 - 1) places
    torch.testing.assert_close(reader(early, hidden=range(3, 12))[:, 5:], near[:, 5:])
    assert (reader(early, hidden=range(3, 12))[:, 4] - near[:, 4]).abs().max() > 1e-6
    torch.testing.assert_close(reader(letters, hidden=[12]), logits)
    moved = (reader(letters, start=40) - logits).abs().max()
    assert moved > 1e-2 if kind == "sinusoids" else moved < 1e-4


@torch.no_grad()
def test_clocks_stop_at_a_distance(seed):
    reader, letters = long_texts.TextReader("rotary"), torch.randint(8, (2, 12))
    due = reader(letters)
    for farthest, clocks in ((11, range(4)), (4, [])):  # nothing stops
        same = long_texts.clamped(reader, farthest, clocks)(letters)
        torch.testing.assert_close(same, due)
    stopped = long_texts.clamped(reader, 4, range(4))
    torch.testing.assert_close(stopped(letters)[:, :5], due[:, :5])
    assert (stopped(letters) - due)[:, 5:].abs().max() > 1e-4
    # Where all far keys stand at one distance, their order does not matter.
    x, mask, angles = torch.randn(1, 12, 32), causal_mask(12), rotary_angles(12, 8)
    swapped = x[:, [0, 3, 2, 1, *range(4, 12)]]
    for model, alike in ((reader, False), (stopped, True)):
        attention = model.blocks[0].attention
        one, other = (attention(given, angles, mask)[:, 11] for given in (x, swapped))
        assert torch.allclose(one, other, atol=1e-6) == alike


def test_readers_with_their_own_clocks_are_right_as_often(seed):
    reader = long_texts.TextReader("rotary")
    due = long_texts.right(reader, "look back", 40)[-16:].mean().item()
    found = position_schemes.right_at_the_end(reader, rotary_angles(40, 8))
    assert found == pytest.approx(due)
    assert position_schemes.right_at_the_end(reader, 2 * rotary_angles(40, 8)) != found
    due = long_texts.right(reader, "latest mark", 40)[-16:].mean().item()
    found = position_schemes.right_at_the_end(
        reader, rotary_angles(40, 8), "latest mark"
    )
    assert found == pytest.approx(due, abs=0.01)  # marks came up in every text by then


@torch.no_grad()
def test_one_far_letter_next_to_the_near_ones_is_one_more_letter(seed):
    reader = long_texts.TextReader("rotary")
    letters, answers = long_texts.texts("look back", 200, 64, seed=1)
    hits = reader(letters[:, 47:])[:, -1].argmax(dim=-1) == answers[:, -1]
    found = position_schemes.right_with_one_far(reader, [16, 40])
    assert [*found] == [16, 40]
    assert found[16] == pytest.approx(hits.float().mean().item())


@torch.no_grad()
def test_rotary_attention_counts_the_places_of_each_side(seed):
    ours = changes.RotaryAttention(12, 3, 3, max_length=9)
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 8, 12)
    whole = ours(x, memory, memory)
    ours.angles = ours.angles + 0.7 * torch.tensor([1.0, 0.1])  # both sides alike
    torch.testing.assert_close(ours(x, memory, memory), whole)
    swapped = memory[:, [1, 0, *range(2, 8)]]
    assert (ours(x, swapped, swapped) - whole).abs().max() > 1e-4


@pytest.mark.parametrize("in_self", cross_places.WAYS)
@pytest.mark.parametrize("in_cross", cross_places.WAYS)
@torch.no_grad()
def test_the_translator_is_told_its_places_where_it_should_be(in_self, in_cross):
    model = cross_places.told(in_self, in_cross, 0).eval()
    source, turned = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[6, 5, 7, 3]])
    swap = [1, 0, 2, 3]
    same = torch.allclose(
        model.encode(turned)[:, swap], model.encode(source), atol=1e-5
    )
    assert same == (in_self == "nothing")
    target = torch.tensor([[2, 5, 9, 4]])
    logits = model(source, target)
    later = model(source, torch.tensor([[2, 5, 9, 8]]))
    torch.testing.assert_close(later[:, :3], logits[:, :3])
    padded = model(torch.tensor([[5, 6, 7, 3, 0, 0]]), target)
    torch.testing.assert_close(padded, logits)
    knows = not torch.allclose(model(turned, target), logits, atol=1e-5)
    assert knows == ((in_self, in_cross) != ("nothing", "nothing"))


def test_told_translators_keep_the_change_and_the_weights(seed):
    for change in (changes.Change(), changes.ALL):
        plain = cross_places.told("rotary", "nothing", seed, change)
        told = cross_places.told("rotary", "rotary", seed, change)
        assert not plain.positions.state_dict()
        for one, other in zip(plain.parameters(), told.parameters(), strict=True):
            assert one.equal(other)


@torch.no_grad()
def test_the_clocks_parts_add_up_to_the_score(seed):
    reader = long_texts.TextReader("rotary")
    parts = long_texts.clock_scores(reader, 9)
    letters, _ = long_texts.texts("look back", 50, 9, seed=1)
    block, angles = reader.blocks[1], rotary_angles(9, 8)
    x = reader.blocks[0](reader.embedding(letters), angles, causal_mask(9))
    x, attention = block.attention_norm(x), block.attention
    query = rotate(attention.split_heads(attention.query_projection(x)), angles)
    key = rotate(attention.split_heads(attention.key_projection(x)), angles)
    scores = (query @ key.mT / 8**0.5).mean(dim=(0, 1))
    due = torch.stack([scores.diagonal(-d).mean() for d in range(9)])
    assert parts.shape == (4, 9)
    torch.testing.assert_close(parts.sum(dim=0), due)


def test_alibi_falls_with_the_distance():
    bias = long_texts.alibi(2, 4)
    assert bias.shape == (2, 4, 4)
    assert bias[0, 3].tolist() == [-3 / 16, -2 / 16, -1 / 16, 0]
    assert bias[1, 3, 0] == -3 / 256
