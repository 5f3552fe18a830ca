"""New sentences about food that differ in one word or two (lesson 10)."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from helpers.corpus import SentencePair
from helpers.corpus.words import ADJECTIVES
from helpers.text import split_words

TextPair = tuple[str, str]
ENGLISH = re.compile(r"\b(some|any) (?:soup|bread|cheese)\b")
FRENCH = re.compile(r"\b(?:de la soupe|du pain|du fromage)\b")
# What stands in the place of "some soup", and of "de la soupe".
FOODS = {
    "some good soup": "de la bonne soupe",
    "some soup": "de la soupe",
    "the good soup": "la bonne soupe",
    "some red soup": "de la soupe rouge",
    "some beautiful soup": "de la belle soupe",
    "some beautiful bread": "du beau pain",
    "some old bread": "du vieux pain",
    "some beautiful cakes": "de beaux gâteaux",
}
# The adjectives that stand before their noun in French, and all their French forms.
BEFORE = [adjective for adjective in ADJECTIVES if adjective.before]
BEFORE_ENGLISH = {adjective.english for adjective in BEFORE}
BEFORE_FRENCH = {form for a in BEFORE for form in (*a.french.split(), a.vowel) if form}


def put_in(food: str, pair: SentencePair) -> TextPair:
    """The sentences with this food in the place of theirs; "any" stays "any"."""
    english = food.replace("some", r"\1")
    return ENGLISH.sub(english, pair.source), FRENCH.sub(FOODS[food], pair.target)


def new_sentences(train: Sequence[SentencePair]) -> dict[str, list[TextPair]]:
    """{food: sentences}: training sentences about food, with each food put in.

    Only those of which training has none, with whatever food.
    """
    known, found = {pair.source for pair in train}, {food: [] for food in FOODS}
    for pair in train:
        if not has_food(pair):
            continue
        changed = {food: put_in(food, pair) for food in FOODS}
        if known.isdisjoint(english for english, _ in changed.values()):
            for food, new in changed.items():
                found[food] += [new] * (new not in found[food])
    return found


def has_food(pair: SentencePair) -> bool:
    """Whether food can be put in; not with "there is", whose French depends on it."""
    both = ENGLISH.search(pair.source) and FRENCH.search(pair.target)
    return bool(both) and "there" not in pair.source


def articles_before_adjectives(pairs: Sequence[SentencePair]) -> Counter:
    """What French has for "some" or "any" where the adjective precedes its noun."""
    found = Counter()
    for pair in pairs:
        english, french = split_words(pair.source), split_words(pair.target)
        place = dict(pair.alignment)
        for i, (word, following) in enumerate(pairwise(english)):
            if word in ("some", "any") and following in BEFORE_ENGLISH:
                found[" ".join(french[place[i] : place[i + 1]])] += 1
    return found


def has_adjective_before(french: str) -> bool:
    """Whether an adjective of those that precede their noun is there at all."""
    return not BEFORE_FRENCH.isdisjoint(split_words(french))


def has_de_adjective(french: str) -> bool:
    """Whether "de" stands right before such an adjective: "de bons gâteaux"."""
    words = split_words(french)
    return any(a == "de" and b in BEFORE_FRENCH for a, b in pairwise(words))
