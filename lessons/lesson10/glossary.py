"""French sentences with English below each word, and what is wrong in them (lesson 10).

A line that says what a trained model wrote begins with a vertical bar.
"""

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from helpers.corpus import SentencePair
from helpers.text import join_words, split_words


class Glossary:
    """English words for French ones, from the alignments of a corpus."""

    def __init__(self, pairs: Sequence[SentencePair]):
        counts = defaultdict(Counter)
        for pair in pairs:
            french = split_words(pair.target)
            for word, gloss in zip(french, aligned_words(pair), strict=True):
                counts[word][gloss] += 1
        self.usual = {
            word: found.most_common(1)[0][0] for word, found in counts.items()
        }

    def show(self, pair: SentencePair) -> None:
        """Print a pair: English, French, and English below each French word."""
        print(pair.source)
        for line in columns(split_words(pair.target), aligned_words(pair)):
            print(f"   {line}")

    def show_attempt(self, label: str, output: str, pair: SentencePair) -> None:
        """Print a translation; [ ] holds what differs from the reference's words."""
        words, glosses, truth = [], [], aligned_words(pair)
        for kind, ours, theirs in differences(output, pair.target):
            if kind == "equal":
                words += split_words(output)[ours]
                glosses += truth[theirs]
                continue
            said = split_words(output)[ours] or [""] * bool(output)
            words += [f"[{word}]" for word in said]
            glosses += [f" {self.usual.get(word, '')}" for word in said]
        first, second = columns(words, glosses)
        lines = f"│ {label:9}{first or '(nothing)'}", f"│ {'':9}{second}"
        print(*(line.rstrip() for line in lines), sep="\n")


def dictionary(pairs: Sequence[SentencePair]) -> dict[str, str]:
    """For each English word the French one that it is most often aligned with."""
    counts = defaultdict(Counter)
    for pair in pairs:
        english, french = split_words(pair.source), split_words(pair.target)
        for i, j in pair.alignment:
            counts[english[i]][french[j]] += 1
    return {word: found.most_common(1)[0][0] for word, found in counts.items()}


def word_by_word(sentence: str, words: Mapping[str, str]) -> str:
    """The sentence with each word replaced; words that are not there are left out."""
    french = [words[word] for word in split_words(sentence) if word in words]
    return join_words(french, space_before="?")


def aligned_words(pair: SentencePair) -> list[str]:
    """For each French word the English ones that it stands for, or a mark itself."""
    english, french = split_words(pair.source), split_words(pair.target)
    found = [
        " ".join(english[i] for i, j in pair.alignment if j == place)
        for place in range(len(french))
    ]
    return [gloss or "-" for gloss in found]


def differences(output: str, reference: str) -> list[tuple[str, slice, slice]]:
    """(kind, where in the output, where in the reference), word by word, in order."""
    sides = split_words(output), split_words(reference)
    matcher = difflib.SequenceMatcher(None, *sides, autojunk=False)
    return [
        (kind, slice(a, b), slice(c, d)) for kind, a, b, c, d in matcher.get_opcodes()
    ]


def mended(output: str, reference: str) -> str:
    """The output's words, and [said → due] where the reference has others."""
    ours, theirs, parts = split_words(output), split_words(reference), []
    for kind, said, due in differences(output, reference):
        if kind == "equal":
            parts += ours[said]
        else:
            both = (" ".join(side) or "–" for side in (ours[said], theirs[due]))
            parts.append("[{} → {}]".format(*both))
    return re.sub(r"' (?=[\w\[])", "'", " ".join(parts))


def show_errors(errors: Sequence[tuple[SentencePair, str]], most: int) -> None:
    """Print the first errors, (pair, output), two lines each; blank if none is left."""
    for place in range(most):
        lines = "", ""
        if place < len(errors):
            pair, output = errors[place]
            lines = pair.source, f"   {mended(output, pair.target)}"
        print(*(f"│ {line}".rstrip() for line in lines), sep="\n")


def columns(words: Sequence[str], glosses: Sequence[str]) -> tuple[str, str]:
    """Two lines in which each word stands above its gloss."""
    widths = [max(len(w), len(g)) for w, g in zip(words, glosses, strict=True)]
    lines = (
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        for row in (words, glosses)
    )
    first, second = (line.rstrip() for line in lines)
    return first, second
