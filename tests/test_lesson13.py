"""Byte pairs and stored translations; intervals of BLEU, and what pairing is for."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from helpers.evaluation import bleu
from helpers.text import SubwordTokenizer
from helpers.translator.recipes import RECIPES, build
from lessons.lesson13 import captions, exercises
from lessons.lesson13.bootstrap import (
    bleu_counts,
    bleu_of,
    draw_resamples,
    paired_interval,
)
from lessons.lesson13.byte_pairs import BytePairs, spaced_words

SAID = [
    "the cat sees a black dog in the park .",
    "my friend reads an old letter to her .",
]
TRUE = [
    "the cat sees the black dog in the park today .",
    "my friend reads the old letter to her .",
]


def test_bleu_of_the_sums_is_sacrebleu_s():
    counts = bleu_counts(SAID, TRUE)
    assert counts.shape == (2, 10)
    assert bleu_of(counts.sum(dim=0)) == pytest.approx(bleu(SAID, TRUE), abs=1e-9)
    assert bleu_of(bleu_counts(TRUE, TRUE).sum(dim=0)) == pytest.approx(100)


def test_the_counts_of_a_sentence_by_hand():
    (row,) = bleu_counts(["a b c d"], ["a b x d e"]).tolist()
    assert row == [3, 1, 0, 0, 4, 3, 2, 1, 4, 5]


def test_a_system_differs_from_itself_by_nothing_and_pairing_narrows():
    hard = torch.rand(200, 1)
    said = torch.full((200, 1), 12.0) - torch.arange(4)
    lengths = torch.full((200, 2), 12.0)

    def system(skill):
        found = said * hard ** (1 + torch.arange(4) / 3) * skill
        return torch.cat([found, said, lengths], dim=1).double()

    better, worse, draws = system(0.9), system(0.88), draw_resamples(200)
    assert paired_interval(worse, worse, draws) == (0, 0)
    low, high = paired_interval(better, worse, draws)
    assert 0 < low < high
    better, worse = (bleu_of(counts[draws].sum(dim=1)) for counts in (better, worse))
    apart = better - worse.roll(1)
    assert apart.quantile(0.025) < 0 < apart.quantile(0.975)
    assert apart.std() > 5 * (high - low) / 4


@pytest.mark.parametrize("probe", exercises.byte_pairs.probes)
def test_one_pair_alone_is_the_most_frequent_wherever_the_exercise_asks(probe):
    texts, size, *_ = probe.inputs
    counts = Counter(word for text in texts for word in spaced_words(text))
    for known in range(260, size):
        tokenizer, pairs = BytePairs.train(texts, vocab_size=known), Counter()
        for word, times in counts.items():
            for pair in pairwise(tokenizer.encode(word[1:])):
                pairs[pair] += times
        first, second, *_ = *sorted(pairs.values(), reverse=True), 0, 0
        assert first > second or not pairs


def test_the_library_learns_the_same_merges_and_cuts_in_the_same_way(toy_text):
    texts = [f"{source} {target}" for source, target in toy_text.train[:2_000]]
    ours = BytePairs.train(texts, vocab_size=300)
    library = SubwordTokenizer.train(texts, vocab_size=300)
    for text in ("the old dog sleeps.", "où est le zèbre ?"):
        pieces = [ours.pieces[i].decode(errors="replace") for i in ours.encode(text)]
        theirs = [
            label.replace("▁", " ") for label in library.tokens(library.encode(text))
        ]
        assert pieces == theirs


@pytest.mark.parametrize(
    "text", ["", " ", "a  b", "日本 🐈, naïve!", "<eos> \n\t x", "snake_case 3.14"]
)
def test_any_text_comes_back_and_so_do_its_words(text):
    tokenizer = BytePairs.train(["a b", "日本"], vocab_size=264)
    assert "".join(spaced_words(text)) == f" {text}"
    assert tokenizer.decode([2, *tokenizer.encode(text), 3]) == text


def test_each_test_set_has_its_translations(monkeypatch):
    monkeypatch.setenv("COURSE_RUN", "cpu")
    said = captions.stored_translations()
    sizes = dict(zip(captions.TESTS, (1_000, 1_000, 461), strict=True))
    for (name, search), outputs in said.items():
        assert len(outputs) == sizes[name] and all(outputs), (name, search)
    for name in captions.TESTS:
        pairs = zip(*(said[name, search] for search in captions.SEARCHES), strict=True)
        assert 0.2 < sum(a == b for a, b in pairs) / sizes[name] < 0.9


def test_training_goes_on_where_it_stopped(toy_text, tmp_path):
    few = replace(toy_text, train=toy_text.train[:64], validation=toy_text.train[:8])
    training = replace(RECIPES["toy"].training, epochs=3, minutes=None)
    recipe = replace(RECIPES["toy"], training=training)

    def run(path):
        return captions.train_on(few, recipe, build(recipe, few), path)

    straight = [*run(tmp_path / "straight.pt")]
    next(stopped := run(tmp_path / "run.pt"))
    stopped.close()
    again = [*run(tmp_path / "run.pt")]
    assert len(again) == 3
    for one, other in zip(again, straight, strict=True):
        assert one.validation_loss == pytest.approx(other.validation_loss, abs=1e-6)
