"""A small world in English and French, with the true alignment of every word.

A synchronous grammar writes both sentences of a pair at once, so that the translation
is right by construction and it is known which word renders which (lesson 10).

What the two languages do differently here: determiners, adjectives and verbs agree in
gender, number and person; most adjectives follow their noun; "le", "je", "ne", "de",
"que" lose their vowel before another ("l'", "j'", …), but not before an h aspiré;
"de le" becomes "du", "à les" becomes "aux"; negation is "ne … pas"; object pronouns
stand before the verb; "some" under negation is "de"; questions begin with "est-ce que".

One English sentence has one translation. "you" is always one friend, "tu"; "they" is
"ils" unless a feminine noun has just been named; "it" stands only where its noun does.

`toy_corpus` draws a corpus. The words stand in `helpers.corpus.words`, what makes
sentences of them in `grammar`, how words are aligned in `alignments`, and what a
sentence holds in `phenomena`.
"""

from dataclasses import dataclass
from functools import cache
from random import Random

from helpers.corpus.alignments import SentencePair
from helpers.corpus.grammar import sentences
from helpers.corpus.phenomena import combinations
from helpers.corpus.words import HELD_OUT

MOST_SENTENCES, MOST_COMPOSITIONAL = 60_000, 3_000  # the language has far more


@dataclass(frozen=True)
class ToyCorpus:
    """Four lists of pairs without a common sentence, in either language.

    Every pair of `compositional` holds one of the HELD_OUT combinations of words, no
    other pair does.
    """

    train: list[SentencePair]
    validation: list[SentencePair]
    test: list[SentencePair]
    compositional: list[SentencePair]


@cache  # it takes seconds
def toy_corpus(
    *,
    train_size: int = 24_000,
    validation_size: int = 1_000,
    test_size: int = 1_000,
    compositional_size: int = 1_000,
    seed: int = 0,
) -> ToyCorpus:
    """Draw a corpus; the same seed gives the same pairs on any machine.

    A second call gives the very same lists: change a copy.

    ValueError if train_size is below 1, another size negative, or more is asked for
    than MOST_SENTENCES (compositional: MOST_COMPOSITIONAL).
    """
    ordinary_size = train_size + validation_size + test_size
    if train_size < 1:
        raise ValueError(f"train_size must be at least 1: {train_size}")
    if (smallest := min(validation_size, test_size, compositional_size)) < 0:
        raise ValueError(f"a size cannot be negative: {smallest}")
    for asked, most, what in (
        (ordinary_size, MOST_SENTENCES, "train, validation and test"),
        (compositional_size, MOST_COMPOSITIONAL, "compositional"),
    ):
        if asked > most:
            text = f"{asked:,} sentences asked for {what}"
            raise ValueError(f"{text}: there are at most {most:,}")
    rng, seen = Random(seed), set()
    ordinary: list[SentencePair] = []
    compositional: list[SentencePair] = []
    for pair in sentences(rng):
        if len(ordinary) >= ordinary_size and len(compositional) >= compositional_size:
            break
        if pair.source in seen or pair.target in seen:
            continue
        seen |= {pair.source, pair.target}
        held_out = combinations(pair) & HELD_OUT
        (compositional if held_out else ordinary).append(pair)
    # Short sentences run out early and so come first: mix before cutting.
    ordinary = sorted(ordinary[:ordinary_size], key=lambda _: rng.random())
    end = train_size + validation_size
    return ToyCorpus(
        ordinary[:train_size],
        ordinary[train_size:end],
        ordinary[end:],
        compositional[:compositional_size],
    )
