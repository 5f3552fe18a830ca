"""Byte-pair encoding in plain Python (lesson 13)."""

import re
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from helpers import SPECIAL_TOKENS

_WORD = re.compile(r" ?\w+| ?[^\w\s]+|\s")


def spaced_words(text: str) -> list[str]:
    """The words, each with the space before it: "a dog." -> [" a", " dog", "."].

    Joined, they are the text again, with a space in front.
    """
    return _WORD.findall(f" {text}")


class BytePairs:
    """Byte-pair encoding: text is bytes, and frequent neighbours are joined.

    Ids are the special tokens, then the 256 bytes, then the joined pairs as learnt.
    Sennrich et al. 2016, section 3.2, from letters; bytes: Radford et al. 2019.
    """

    def __init__(self) -> None:
        self.merges: dict[tuple[int, int], int] = {}  # two ids -> the id of both
        self.known: dict[str, list[int]] = {}  # the ids of words that were cut before
        self.pieces = [b""] * len(SPECIAL_TOKENS) + [bytes([i]) for i in range(256)]

    def __len__(self) -> int:
        return len(self.pieces)

    @classmethod
    def train(cls, texts: Iterable[str], *, vocab_size: int) -> "BytePairs":
        """Join the most frequent pair again and again, until there are so many ids."""
        self, counts = cls(), Counter(w for text in texts for w in spaced_words(text))
        words = {word: self._bytes(word) for word in counts}
        while len(self) < vocab_size:
            pairs = Counter()
            for word, ids in words.items():
                for pair in pairwise(ids):
                    pairs[pair] += counts[word]
            if not pairs:
                break
            best = max(pairs, key=pairs.get)
            self.merges[best] = len(self)
            self.pieces.append(self.pieces[best[0]] + self.pieces[best[1]])
            words = {word: self._join(ids, best) for word, ids in words.items()}
        return self

    def encode(self, text: str) -> list[int]:
        """The ids of a text; a pair that was learnt earlier is joined earlier."""
        found = []
        for word in spaced_words(text):
            if word not in self.known:
                ids = self._bytes(word)
                while pairs := {*pairwise(ids)} & self.merges.keys():
                    ids = self._join(ids, min(pairs, key=self.merges.get))
                self.known[word] = ids
            found += self.known[word]
        return found

    def decode(self, ids: Iterable[int]) -> str:
        """The text that the ids spell; special tokens are left out."""
        spelt = b"".join(self.pieces[i] for i in ids)
        return spelt.decode(errors="replace").removeprefix(" ")

    def _bytes(self, word: str) -> list[int]:
        return [len(SPECIAL_TOKENS) + byte for byte in word.encode()]

    def _join(self, ids: list[int], pair: tuple[int, int]) -> list[int]:
        """The ids, with the pair joined wherever it stands, from left to right."""
        joined = []
        for i in ids:
            if joined and (joined[-1], i) == pair:
                joined[-1] = self.merges[pair]
            else:
                joined.append(i)
        return joined
