"""The experiments of lesson 17: variants of the translator, misreadings, readers."""

import copy

import pytest
import torch
from torch import nn

from helpers.modern.block import ModernBlock
from helpers.modern.rotary import rotary_angles, rotate
from lessons.lesson17 import against_llama, changes, exercises, long_texts
from other_styles import InAList


@pytest.mark.slow
@pytest.mark.parametrize("name", ["2017", "no biases", "multi-query", "all together"])
def test_variants_hide_the_future_and_their_padding(name):
    baseline, model = (
        changes.variant(changes.CHANGES[x], 0).eval() for x in ("2017", name)
    )
    sizes = [sum(p.numel() for p in x.parameters()) for x in (model, baseline)]
    assert 0.98 < sizes[0] / sizes[1] < 1.01
    source, target = torch.tensor([[5, 6, 7, 3]]), torch.tensor([[2, 5, 9, 4]])
    logits = model(source, target)
    later = model(source, torch.tensor([[2, 5, 9, 8]]))
    torch.testing.assert_close(later[:, :3], logits[:, :3])
    padded = model(torch.tensor([[5, 6, 7, 3, 0, 0]]), target)
    torch.testing.assert_close(padded, logits)
    turned = model(torch.tensor([[6, 5, 7, 3]]), target)
    assert (turned - logits).abs().max() > 1e-3  # it knows the order


def test_a_misreading_changes_the_output_and_no_size(seed):
    x, angles = torch.randn(2, 5, 64), rotary_angles(5, 8)
    for damage in against_llama.DAMAGE.values():
        block = ModernBlock(64, 8, 2, 20)
        for norm in (block.attention_norm, block.feed_forward_norm):
            nn.init.normal_(norm.gain, mean=1.0, std=0.3)
            norm.eps = 1e-6
        due = block(x, angles)
        damage(block)
        assert block(x, angles).shape == x.shape
        assert (block(x, angles) - due).abs().max() > 1e-6


def by_neighbours(x, angles):
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * torch.exp(1j * angles)).flatten(-2)


@torch.no_grad()
def test_rows_that_are_sorted_make_neighbours_of_halves(seed):
    block, x = ModernBlock(64, 8, 2, 20), torch.randn(1, 7, 64)
    angles = rotary_angles(7, 8)

    def scores(turn):
        heads = block.attention
        query, key = (
            turn(heads.split_heads(project(x)), angles)
            for project in (heads.query_projection, heads.key_projection)
        )
        return query @ key.repeat_interleave(4, dim=1).mT

    due, other = scores(by_neighbours), scores(rotate)
    assert (other - due).abs().max() > 0.1
    against_llama.pair_neighbours(block)
    torch.testing.assert_close(scores(rotate), due)


@pytest.mark.parametrize("passed_on", [lambda cache: cache or None, copy.copy])
def test_an_empty_cache_has_to_grow(passed_on):
    class Forgetful(InAList):
        def forward(self, x, angles=None, mask=None, *, cache=None):
            return super().forward(x, angles, mask, cache=passed_on(cache))

    assert "one by one" in exercises.modern_block.findings(Forgetful)[0][-1]


def test_the_answer_is_the_latest_marked_letter():
    letters, answers = long_texts.texts(20, 30, seed=0)
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
    far = range(3, 12)  # two blocks reach back 2 · (3 - 1) places
    near, moved = reader(letters, hidden=far), reader(early, hidden=far)
    torch.testing.assert_close(moved[:, 5:], near[:, 5:])
    assert (moved[:, 4] - near[:, 4]).abs().max() > 1e-6
    elsewhere = (reader(letters, start=40) - logits).abs().max()
    assert elsewhere > 1e-2 if kind == "sinusoids" else elsewhere < 1e-4


def test_alibi_falls_with_the_distance():
    bias = long_texts.alibi(2, 4)
    assert bias[0, 3].tolist() == [-3 / 16, -2 / 16, -1 / 16, 0]
    assert bias[1, 3, 0] == -3 / 256
