"""What lesson 10 asks of the toy corpus, and how it prints sentences."""

from collections import Counter
from itertools import pairwise

import pytest

from helpers.corpus import toy_corpus
from helpers.corpus.words import DETERMINERS
from helpers.text import split_words
from lessons.lesson10.adjectives import (
    BEFORE_FRENCH,
    FOODS,
    articles_before_adjectives,
    has_adjective_before,
    has_de_adjective,
    new_sentences,
)
from lessons.lesson10.described_nouns import (
    FRENCH_NOUNS,
    NAMES,
    carriers,
    described_nouns,
)
from lessons.lesson10.glossary import Glossary, columns, mended
from lessons.lesson10.other_outputs import somebodys_outputs


@pytest.fixture(scope="module")
def pairs():
    return toy_corpus(
        train_size=3_000, validation_size=0, test_size=0, compositional_size=0
    ).train


def test_carriers_are_the_words_that_they_should_be(pairs):
    said = {name: set() for name in NAMES}
    for pair in pairs:
        french = split_words(pair.target)
        for name, places in carriers(pair).items():
            said[name] |= {french[j] for j in places}
    assert said["question"] == {"est-ce"}
    assert said["negation"] == {"ne", "n'", "pas", "jamais"}
    assert all(word.endswith("'") for word in said["elision"])
    assert {"noir", "noire"} <= said["agreement"] and "le" not in said["agreement"]
    assert {"me", "m'", "lui"} <= said["pronoun"]


def test_adjectives_stand_on_both_sides_of_their_nouns(pairs):
    first = {True: set(), False: set()}
    for pair in pairs:
        for found in described_nouns(pair):
            assert abs(found.adjective_place - found.noun_place) == 1
            first[found.noun_first].add(found.adjective)
            assert found.first_place == min(found.adjective_place, found.noun_place)
    assert "black" in first[True] and "little" in first[False]
    assert first[True].isdisjoint(first[False])


def test_a_gloss_stands_below_its_word(pairs, capsys):
    pair = next(pair for pair in pairs if "n'" in pair.target and "not" in pair.source)
    Glossary(pairs).show(pair)
    english, above, below = capsys.readouterr().out.splitlines()
    assert english == pair.source
    assert below[above.index("n'") :].startswith("not")


def test_an_attempt_is_marked_where_it_differs(pairs, capsys):
    pair = next(pair for pair in pairs if pair.target.startswith("le chat "))
    glossary = Glossary(pairs)
    glossary.show_attempt("now", pair.target.replace("chat", "chien"), pair)
    glossary.show_attempt("then", "", pair)
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("│") for line in lines)
    assert "[chien]" in lines[0] and "dog" in lines[1] and "[le]" not in lines[0]
    assert lines[2].endswith("(nothing)")


def test_differences_are_written_with_both_sides():
    assert (
        mended("le chat dort .", "le chat noir dort .") == "le chat [– → noir] dort ."
    )
    assert mended("l'eau froid .", "l'eau froide .") == "l'eau [froid → froide] ."
    assert columns(["un", "chat"], ["a", "cat"]) == ("un  chat", "a   cat")


def test_foods_are_put_into_new_sentences_alone(pairs):
    known, found = {pair.source for pair in pairs}, new_sentences(pairs)
    assert len({len(new) for new in found.values()}) == 1
    for food, new in found.items():
        noun = food.split()[-1]
        assert new and all(noun in a and a not in known for a, _ in new)
        assert all(FOODS[food] in french for _, french in new)


def test_after_a_determiner_nine_of_ten_are_nouns(pairs):
    determiners = {
        word
        for d in DETERMINERS.values()
        for forms in d.french
        for word in forms.split()
    }
    following = Counter(
        "noun" if b in FRENCH_NOUNS else "adjective"
        for pair in pairs
        for a, b in pairwise(split_words(pair.target))
        if a in determiners and b in FRENCH_NOUNS | BEFORE_FRENCH
    )
    assert following["noun"] / following.total() == pytest.approx(0.9, abs=0.02)


def test_articles_before_adjectives_are_what_the_grammar_says(pairs):
    assert {*articles_before_adjectives(pairs)} == {"de", "du"}


def test_de_is_sought_right_before_an_adjective_that_precedes_its_noun():
    assert has_de_adjective("il n'a pas de petite voiture .")
    assert not has_de_adjective("près de la petite gare .")
    assert not has_de_adjective("il n'a pas de voiture rouge .")
    assert has_adjective_before("près de la petite gare .")
    assert not has_adjective_before("la voiture rouge .")


def test_somebody_s_translator_has_two_faults(pairs):
    outputs = somebodys_outputs(pairs)
    wrong = [(p, out) for p, out in zip(pairs, outputs, strict=True) if out != p.target]
    assert 0.05 < len(wrong) / len(pairs) < 0.15
    for pair, out in wrong:
        words = {*split_words(pair.source)}
        assert words & {"his", "her"} or words & {"not", "never"}, (pair, out)
