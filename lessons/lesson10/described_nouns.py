"""The French words that carry a difference between the languages (lesson 10)."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from helpers.corpus import SentencePair
from helpers.corpus.alignments import CONTRACTED
from helpers.corpus.phenomena import ADJECTIVE_NAMES, CLITICS, NOUN_OF
from helpers.corpus.words import ADJECTIVES, NOUNS, POSSESSIVES
from helpers.text import split_words

OBJECTS = {"me", "you", "him", "her", "it", "us", "them"}
FRENCH_NOUNS = {form for noun in NOUNS for form in noun.french_forms}
# English adjective: all its French forms.
FORMS = {a.english: {*a.french.split(), a.vowel} - {""} for a in ADJECTIVES}
FRENCH_ADJECTIVES = {form for forms in FORMS.values() for form in forms}
NAMES = (
    "question",
    "negation",
    "possessive",
    "elision",
    "contraction",
    "pronoun",
    "agreement",
)


def carriers(pair: SentencePair) -> dict[str, set[int]]:
    """{difference: the places of the French words that carry it}.

    A question is carried by "est-ce", negation by "ne" and "pas" or "jamais", elision
    by the word that ends in an apostrophe, a pronoun by its form before the verb,
    agreement by the adjective; possessives and contractions by themselves.
    """
    english, french = split_words(pair.source), split_words(pair.target)
    sources = [j for _, j in pair.alignment]
    found = {name: set() for name in NAMES}
    for i, j in pair.alignment:
        e, f = english[i], french[j]
        carried = {
            "question": f == "est-ce",
            "negation": e in ("not", "never", "no") and f not in ("de", "d'"),
            "possessive": e in POSSESSIVES and (e != "her" or f not in CLITICS),
            "elision": f.endswith("'"),
            "contraction": f in CONTRACTED.values() and sources.count(j) > 1,
            "pronoun": e in OBJECTS and f in CLITICS,
            "agreement": e in ADJECTIVE_NAMES,
        }
        for name in NAMES:
            if carried[name]:
                found[name].add(j)
    return found


class Described(NamedTuple):
    """An English adjective before its noun, and where French has the two."""

    adjective: str  # in English
    adjective_place: int
    noun_place: int

    @property
    def noun_first(self) -> bool:
        """Whether French has the noun first: "chat noir", not "petit chat"."""
        return self.noun_place < self.adjective_place

    @property
    def first_place(self) -> int:
        """The place of the first of the two French words."""
        return min(self.adjective_place, self.noun_place)


def described_nouns(pair: SentencePair) -> Iterator[Described]:
    """Every English adjective that stands right before its noun, as "black cat"."""
    english, place = split_words(pair.source), dict(pair.alignment)
    for i, (word, following) in enumerate(pairwise(english)):
        if word in ADJECTIVE_NAMES and following in NOUN_OF:
            yield Described(word, place[i], place[i + 1])
