"""From a phrase to two spelled sentences and their alignment (lesson 10).

Alignment: an index pair (i, j) says that English word i and French word j express the
same thing. Beyond the obvious:
- both words of "look at", "wait for", … belong to the French verb, as in "regarde";
- "not" belongs to "ne" and "pas", "never" to "ne" and "jamais", the "no" of "there is
  no" to "ne", "pas" and "de"; the "do" of a negation to nothing;
- the word that a question opens with ("do", "is") belongs to "est-ce" and "que", and
  "is" to its verb as well; "what" is the first word of "qu'est-ce que";
- a contraction belongs to both its parts: "du" to "from" and "the";
- "there is" is "il y" + "a"; both words of "près de" belong to "near", both of "parce
  que" to "because", and both of the partitive "de la" to "some".
"""

from dataclasses import dataclass

from helpers.corpus.phrases import Phrase, Word
from helpers.corpus.words import elides
from helpers.text import join_words

ELIDED = {"le": "l'", "la": "l'", "je": "j'", "ne": "n'", "de": "d'", "que": "qu'"}
ELIDED |= {"me": "m'", "te": "t'"}
BEFORE_VOWEL = {**ELIDED, "ma": "mon", "ta": "ton", "sa": "son", "ce": "cet"}
CONTRACTED = {("de", "le"): "du", ("de", "les"): "des"}
CONTRACTED |= {("à", "le"): "au", ("à", "les"): "aux"}


def spell_french(sentence: tuple[Word, ...]) -> list[Word]:
    """Elide and contract, from the end, since each word depends on the one after."""
    spelled: list[Word] = []
    for text, names in reversed(sentence):
        following = spelled[-1][0] if spelled else ""
        if text == "ce" and following == "est":
            text = "c'"
        elif elides(following):
            text = BEFORE_VOWEL.get(text, text)
        if (text, following) in CONTRACTED:
            text = CONTRACTED[text, following]
            names = tuple(dict.fromkeys(names + spelled.pop()[1]))
        spelled.append((text, names))
    return spelled[::-1]


def spell_english(sentence: tuple[Word, ...]) -> list[Word]:
    """Write "an" for "a" before a vowel."""
    nexts = [text for text, _ in sentence[1:]] + [""]
    return [
        ("an" if text == "a" and following[:1] in tuple("aeiou") else text, names)
        for (text, names), following in zip(sentence, nexts, strict=True)
    ]


@dataclass(frozen=True)
class SentencePair:
    """An English sentence, its French translation, and which word renders which.

    `alignment` holds sorted (source index, target index) into `split_words` of the two.
    """

    source: str
    target: str
    alignment: tuple[tuple[int, int], ...]


def sentence_pair(sentence: Phrase) -> SentencePair:
    """Spell both sides and align the words that share a name."""
    english = spell_english(sentence.english)
    french = spell_french(sentence.french)
    named: dict[str, list[int]] = {}
    for j, (_, names) in enumerate(french):
        for name in names:
            named.setdefault(name, []).append(j)
    alignment = {
        (i, j)
        for i, (_, names) in enumerate(english)
        for name in names
        for j in named.get(name, ())
    }
    return SentencePair(
        join_words(text for text, _ in english),
        join_words((text for text, _ in french), space_before="?"),
        tuple(sorted(alignment)),
    )
