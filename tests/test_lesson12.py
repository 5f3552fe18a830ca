"""Lesson 12's patches and pairs of sentences."""

import pytest
import torch

from helpers.attention import MultiHeadAttention
from helpers.patching import replace_contexts
from helpers.text import split_words
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson12.minimal_pairs import ARTICLE, FACTS, noun_pairs
from lessons.lesson12.reading import patched_memory, record_contexts, same_article


def test_contexts_are_recorded_and_replaced_where_it_is_said():
    torch.manual_seed(0)
    attention, x = MultiHeadAttention(8, 2), torch.randn(2, 3, 8)
    plain = attention(x, x, x)
    with record_contexts(attention) as contexts:
        attention(x, x, x)
    (own,) = contexts.values()
    assert own.shape == (2, 3, 2, 4)
    with replace_contexts(attention, [0, 1], own):
        torch.testing.assert_close(attention(x, x, x), plain)
    where = torch.tensor([[True, False, False], [False, False, True]])
    with replace_contexts(attention, 1, 0.0, where):
        changed = (attention(x, x, x) - plain).abs().amax(dim=2) > 1e-6
    assert torch.equal(changed, where)
    torch.testing.assert_close(attention(x, x, x), plain)


@pytest.mark.parametrize("norm_first", [True, False])
def test_all_vectors_of_the_donor_give_its_memory_at_each_level(norm_first):
    torch.manual_seed(0)
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 2, "max_length": 9}
    config = TransformerConfig(20, 20, **sizes, norm_first=norm_first)
    model = Transformer(config).eval()
    source, donor = torch.randint(4, 20, (2, 3, 5))
    for level in range(3):
        for place, due in ([], source), ([*range(5)], donor):
            memory = patched_memory(model, source, donor, level, place)
            torch.testing.assert_close(memory, model.encode(due))


def test_pairs_differ_in_the_noun_and_its_article_alone():
    for fact in FACTS:
        for own, donor in noun_pairs(fact, 50, seed=0):
            english, french = (
                [split_words(text) for text in texts]
                for texts in ((own.source, donor.source), (own.target, donor.target))
            )
            assert english[0][: ARTICLE + 1] == english[1][: ARTICLE + 1]
            assert french[0][:ARTICLE] == french[1][:ARTICLE]
            assert french[0][ARTICLE] != french[1][ARTICLE]
            assert {*map(len, english)} == {*map(len, french)} == {5}


def test_another_row_has_the_same_article():
    nouns = torch.tensor([1, 3, 1, 4, 2, 2])
    articles = torch.tensor([5, 7, 5, 7, 5, 5])
    order = same_article(articles, nouns)
    assert torch.equal(articles[order], articles)
    assert (nouns[order] != nouns).all() and len({*order.tolist()}) == 6
