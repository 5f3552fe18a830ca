"""A way to align the words of two sentences without a model (lesson 12)."""

from collections import Counter
from collections.abc import Sequence

from helpers.corpus import SentencePair
from helpers.text import split_words

Links = list[list[tuple[int, int]]]


def by_counting(train: Sequence[SentencePair], pairs: Sequence[SentencePair]) -> Links:
    """Link each French word to the English word with which it goes most often.

    2 n(e, f) / (n(e) + n(f)), where n(e, f) training pairs hold both words, n(e) the
    English one and n(f) the French one.
    """
    ours, theirs, both = Counter(), Counter(), Counter()
    for pair in train:
        english, french = set(split_words(pair.source)), set(split_words(pair.target))
        ours.update(english)
        theirs.update(french)
        both.update((e, f) for e in english for f in french)

    def together(e: str, f: str) -> float:
        return 2 * both[e, f] / (ours[e] + theirs[f])

    found = []
    for pair in pairs:
        english, french = split_words(pair.source), split_words(pair.target)
        best = [
            max(range(len(english)), key=lambda i: together(english[i], f))
            for f in french
        ]
        found.append([(i, j) for j, i in enumerate(best)])
    return found
