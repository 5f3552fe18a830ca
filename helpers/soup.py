"""Sentences about "some soup", changed in one word at a time (lesson 10)."""

import re
from collections.abc import Sequence

from helpers.corpus import SentencePair

TextPair = tuple[str, str]
ENGLISH = re.compile(r"\b(some|any) (?:soup|bread|cheese)\b")
FRENCH = re.compile(r"\b(?:de la soupe|du pain|du fromage)\b")
# What stands in the place of "some soup" and of "de la soupe".
FOODS = {
    "some soup": (r"\1 soup", "de la soupe"),
    "some good soup": (r"\1 good soup", "de la bonne soupe"),
    "some beautiful soup": (r"\1 beautiful soup", "de la belle soupe"),
    "some good bread": (r"\1 good bread", "du bon pain"),
    "the good soup": (r"the good soup", "la bonne soupe"),
}


def food_sentences(pairs: Sequence[SentencePair]) -> list[SentencePair]:
    """Those with "some" or "any" soup, bread or cheese; not those with "there is"."""
    return [
        pair
        for pair in pairs
        if ENGLISH.search(pair.source)
        and FRENCH.search(pair.target)
        and "there" not in pair.source
    ]


def with_food(pairs: Sequence[SentencePair], food: str) -> list[TextPair]:
    """The same sentences with another food, one of FOODS; each sentence once."""
    english, french = FOODS[food]
    changed = (
        (ENGLISH.sub(english, pair.source), FRENCH.sub(french, pair.target))
        for pair in pairs
    )
    return [*dict.fromkeys(changed)]
