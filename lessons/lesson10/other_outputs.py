"""The outputs of somebody's translator, which has faults (lesson 10, exercise 3)."""

from collections.abc import Sequence

from helpers.corpus import SentencePair
from helpers.corpus.phenomena import CLITICS
from helpers.corpus.words import elides
from helpers.text import join_words, split_words

OBJECTS = {"me", "you", "him", "her", "it", "us", "them"}


def somebodys_outputs(pairs: Sequence[SentencePair]) -> list[str]:
    """What the translator says to each source."""
    return [_output(pair) for pair in pairs]


def _output(pair: SentencePair) -> str:
    english, french = split_words(pair.source), split_words(pair.target)
    words = list(french)
    for i, j in pair.alignment:
        if (english[i], french[j]) in (("his", "sa"), ("her", "son")):
            words[j] = "son" if french[j] == "sa" else "sa"
        denied = j and french[j - 1] in ("ne", "n'")
        if english[i] in OBJECTS and french[j] in CLITICS and denied:
            words[j - 1] = "n'" if elides(french[j + 1]) else "ne"
            words[j] = ""
    return join_words(filter(None, words), space_before="?")
