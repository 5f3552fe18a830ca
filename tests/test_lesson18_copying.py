"""Texts that come twice, words that are hidden, and what lesson 18 measures on them."""

import pytest
import torch

from helpers.modern.language_model import LanguageModel, LanguageModelConfig
from lessons.lesson18 import copying, hidden_words
from lessons.lesson18.copying import head_scores, head_weights, known, share_right
from lessons.lesson18.hidden_words import SIDES, HiddenWordReader, each_word
from lessons.lesson18.studies.copying_heads import switched_off


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = LanguageModel(LanguageModelConfig(copying.VOCABULARY, n_layers=2))
    for parameter in model.parameters():
        parameter.data *= 5  # far from uniform weights
    return model.eval()


@pytest.fixture
def tokens():
    return copying.texts(3, 5, torch.Generator().manual_seed(0))


def test_a_text_comes_twice_and_its_tokens_differ(tokens):
    assert torch.equal(tokens[:, :5], tokens[:, 5:])
    assert all(len(set(row)) == 5 for row in tokens.tolist())
    assert tokens.min() >= copying.FIRST and tokens.max() < copying.VOCABULARY
    assert known(tokens)[0].tolist() == [False] * 6 + [True] * 4


def test_kinds_have_as_many_parameters():
    sizes = [{"n_layers": n, "d_ff": d_ff} for n, d_ff in copying.D_FF.items()]
    counts = [
        sum(p.numel() for p in LanguageModel(LanguageModelConfig(64, **s)).parameters())
        for s in sizes
    ]
    assert max(counts) < 1.01 * min(counts)


def test_head_weights_are_those_that_the_model_uses(model, tokens):
    found, attention = [], model.blocks[1].attention
    hooks = [
        attention.value_projection.register_forward_hook(
            lambda m, x, y: found.append(y)
        ),
        attention.output_projection.register_forward_pre_hook(
            lambda m, x: found.append(x[0])
        ),
    ]
    weights = head_weights(model, tokens)[1]
    for hook in hooks:
        hook.remove()
    values, context = found
    expected = (weights @ attention.split_heads(values)).transpose(1, 2).flatten(2)
    torch.testing.assert_close(context, expected)
    scores = head_scores(model, tokens)
    prefix = sum(weights[:, :, 5 + i, i + 1] for i in range(4)) / 4
    torch.testing.assert_close(scores["prefix"][1], prefix.mean(dim=0))
    previous = sum(weights[:, :, i + 1, i] for i in range(4)) / 4
    torch.testing.assert_close(scores["previous"][1], previous.mean(dim=0))


def test_a_head_that_is_off_has_no_weight_in_the_output(model, tokens):
    with torch.no_grad():
        before = model(tokens)
        with copying.without(model, [(0, 2), (1, 3)]):
            off = model(tokens)
        assert torch.equal(model(tokens), before)
        for layer, head in ((0, 2), (1, 3)):
            output = model.blocks[layer].attention.output_projection
            output.weight[:, 16 * head : 16 * (head + 1)] = 0.0
        torch.testing.assert_close(model(tokens), off)
    assert (off - before).abs().max() > 1e-3


def test_all_heads_are_switched_off_in_turn(model):
    sets = switched_off(model, (0, 1), (0, 2), (1, 3))
    assert sets["it and the next best"] == [[(0, 1), (0, 2)]]
    assert sets["another of layer 2"] == [[(1, 0)], [(1, 1)], [(1, 2)]]
    assert sorted(sets["all four of layer 2"][0]) == [(1, head) for head in range(4)]
    left = {(i, head) for i in range(2) for head in range(4)}
    assert left - set(sets["all but these two heads"][0]) == {(0, 1), (1, 3)}


def test_share_right_counts_what_can_be_known(tokens):
    class Perfect(torch.nn.Module):
        def forward(self, seen):
            due = tokens[:, 1:].clone()
            due[:, :5] = 0  # wrong wherever nothing can be known
            return torch.nn.functional.one_hot(due, 64).float()

    assert share_right(Perfect(), tokens) == 1.0


@pytest.mark.parametrize("sides", SIDES)
def test_a_reader_sees_its_sides_and_not_the_hidden_word(sides):
    torch.manual_seed(0)
    reader = HiddenWordReader(sides).eval()
    row = torch.tensor([[1, 10, 11, 12, 13, 14, 2]])
    place = torch.tensor([3])
    with torch.no_grad():
        plain = reader(row, place)
        padded = torch.nn.functional.pad(row, (0, 3))
        torch.testing.assert_close(reader(padded, place), plain)
        seen = []
        for i in range(7):
            changed = row.clone()
            changed[0, i] = 20
            seen.append(not torch.equal(reader(changed, place), plain))
    before, behind = sides != SIDES[2], sides != SIDES[1]
    assert seen == [before] * 3 + [False] + [behind] * 3


def test_a_counter_names_the_commonest_word(monkeypatch):
    rows = {"train": [[1, 8, 5, 9, 2]] * 2 + [[1, 8, 6, 7, 9, 2]]}
    monkeypatch.setattr(hidden_words, "sentences", rows.get)
    assert len(each_word("train")) == 2 * 2 + 3
    asked = [([1, 8, 6, 9, 2], 2), ([1, 8, 6, 7, 2], 2), ([1, 4, 6, 9, 2], 2)]
    assert hidden_words.counted(asked, [-1]).tolist() == [5, 5, 0]
    assert hidden_words.counted(asked, [-1, 1]).tolist() == [5, 6, 0]
