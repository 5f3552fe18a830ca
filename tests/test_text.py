"""Words, subwords, and the way back to text."""

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


def test_special_tokens_cannot_be_typed():
    with pytest.raises(UnknownWordError):
        Vocabulary(["cat"]).encode("<pad>")


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


def test_frequent_words_become_one_token(subwords):
    assert subwords.tokens(subwords.encode("Hund")) == ["▁Hund"]


@pytest.mark.parametrize("kind", ["words", "subwords"])
def test_json_brings_back_the_same_tokenizer(kind, subwords):
    text = (
        Vocabulary.from_texts(TEXTS, space_before="?") if kind == "words" else subwords
    )
    again = type(text).from_json(text.to_json())
    ids = text.encode(TEXTS[0])
    assert again.encode(TEXTS[0]) == ids and len(again) == len(text)
    assert again.decode(ids) == text.decode(ids)
