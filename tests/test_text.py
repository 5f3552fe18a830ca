"""Words, subwords, and the way back to text."""

import json

import pytest

from helpers import EOS, PAD, SPECIAL_TOKENS, UNK
from helpers.text import (
    SubwordTokenizer,
    UnknownWordError,
    Vocabulary,
    join_words,
    split_words,
)

CASES = [
    ("the cat sleeps.", ["the", "cat", "sleeps", "."], ""),
    ("does she see him?", ["does", "she", "see", "him", "?"], ""),
    ("l'homme n'aime pas l'eau.", None, "?"),
    ("est-ce qu'il dort ?", ["est-ce", "qu'", "il", "dort", "?"], "?"),
]


@pytest.mark.parametrize("text, words, space_before", CASES)
def test_joining_undoes_splitting(text, words, space_before):
    found = split_words(text)
    assert words is None or found == words
    assert join_words(found, space_before=space_before) == text


def test_words_are_numbered_after_the_special_tokens():
    vocabulary = Vocabulary.from_texts(["I see a cat.", "a dog."])
    assert vocabulary.words[:4] == list(SPECIAL_TOKENS)
    ids = vocabulary.encode("i SEE a dog.")
    assert min(ids) > UNK and vocabulary.decode([*ids, EOS, PAD]) == "I see a dog."
    assert vocabulary.tokens([PAD, *ids[:1]]) == ["<pad>", "I"]


def test_an_unknown_word_is_named_with_its_neighbours():
    vocabulary = Vocabulary(["cat", "cats", "house"])
    with pytest.raises(UnknownWordError, match=r"“catt” is not among the 7 .*cat"):
        vocabulary.encode("catt")
    with pytest.raises(UnknownWordError, match=r"“xyzzy”[^;]*$"):
        vocabulary.encode("xyzzy")
    with pytest.raises(UnknownWordError):  # special tokens cannot be typed
        vocabulary.encode("<pad>")


TEXTS = ["Ein Hund läuft über die Wiese.", "A dog runs across the meadow."] * 5


@pytest.fixture(scope="module")
def subwords():
    return SubwordTokenizer.train(TEXTS, vocab_size=300)


@pytest.mark.parametrize("text", [*TEXTS[:2], "Überraschung: 42 € “naïve” 日本 🙂"])
def test_every_text_survives_subwords(subwords, text):
    ids = subwords.encode(text)
    assert subwords.decode(ids) == text and min(ids) >= len(SPECIAL_TOKENS)
    assert subwords.decode([*ids, EOS, PAD]) == text
    assert len(subwords.tokens(ids)) == len(ids)


@pytest.mark.parametrize("kind", ["words", "subwords"])
def test_json_brings_back_the_same_tokenizer(kind, subwords):
    text = (
        Vocabulary.from_texts(TEXTS, space_before="?") if kind == "words" else subwords
    )
    again = type(text).from_json(text.to_json())
    ids = text.encode(TEXTS[0])
    assert again.encode(TEXTS[0]) == ids and len(again) == len(text)
    assert again.decode(ids) == text.decode(ids)


def test_the_merges_are_those_of_the_most_frequent_pairs():
    """By hand: n d stands in all fourteen words, u nd in thirteen, and so on."""
    times = {"Hund": 6, "Hunde": 3, "Hündin": 1, "rund": 2, "Wunde": 2}
    texts = [word for word, count in times.items() for _ in range(count)]
    subwords = SubwordTokenizer.train(texts, vocab_size=4 + 256 + 5)
    merges = json.loads(subwords.to_json())["model"]["merges"]
    assert ["".join(pair) for pair in merges] == ["nd", "und", "ĠH", "ĠHund", "ĠHunde"]
    assert subwords.tokens(subwords.encode("Mund")) == ["▁", "M", "und"]
    assert len(subwords) == 265


def test_one_letter_typed_in_two_ways_is_the_same(subwords):
    composed, apart = "läuft", "la\u0308uft"
    assert composed != apart
    assert subwords.encode(apart) == subwords.encode(composed)
    assert subwords.decode(subwords.encode(apart)) == composed


def test_a_word_is_the_same_at_the_start_and_within(subwords):
    assert subwords.tokens(subwords.encode("Hund Hund")) == ["▁Hund", "▁Hund"]


def test_special_tokens_in_a_text_are_text(subwords):
    """Somebody who types <eos> does not end the sentence."""
    ids = subwords.encode("<eos> Hund")
    assert min(ids) >= len(SPECIAL_TOKENS)
    assert subwords.decode(ids) == "<eos> Hund"
    assert subwords.tokens([PAD, EOS]) == ["<pad>", "<eos>"]
