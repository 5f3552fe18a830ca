"""A language model without weights: it counts which letter comes next (lesson 18)."""

import math
from collections import Counter
from collections.abc import Sequence


def letter_nats(train: Sequence[str], texts: Sequence[str], *, before: int) -> float:
    """All nats of the texts, each letter from as many letters before it.

    P(letter | before) = (its count + share of one) / (the count of before + 1), where
    the share is 1 / the number of letters known; a text ends with a newline.
    """
    pairs, contexts, known = Counter(), Counter(), {"\n"}
    for text in train:
        for context, letter in _places(text, before):
            pairs[context, letter] += 1
            contexts[context] += 1
        known |= {*text}
    total = 0.0
    for text in texts:
        for context, letter in _places(text, before):
            count = pairs[context, letter] + 1 / len(known)
            total -= math.log(count / (contexts[context] + 1))
    return total


def _places(text: str, before: int) -> list[tuple[str, str]]:
    whole = "\n" * before + text + "\n"
    return [(whole[i - before : i], whole[i]) for i in range(before, len(whole))]
