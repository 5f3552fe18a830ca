"""What is in a pair: combinations of words, grammatical phenomena (lesson 10)."""

from itertools import pairwise

from helpers.corpus.alignments import CONTRACTED, SentencePair
from helpers.corpus.words import ADJECTIVES, NOUNS, POSSESSIVES, PRONOUNS, VERBS
from helpers.text import split_words

NOUN_OF = {form: noun.english for noun in NOUNS for form in noun.english_forms}
VERB_OF = {form: v.english for v in VERBS for form in (v.english, v.third)}
ADJECTIVE_NAMES = frozenset(adjective.english for adjective in ADJECTIVES)


def lemmas_of(english: list[str]) -> list[str]:
    """The dictionary form of each noun, verb and adjective, "" for the other words."""
    pairs = zip(english, [*english[1:], ""], strict=True)
    return [
        NOUN_OF.get(word)
        or VERB_OF.get(word)
        or VERB_OF.get(f"{word} {following}")
        or (word if word in ADJECTIVE_NAMES else "")
        for word, following in pairs
    ]


def combinations(pair: SentencePair) -> frozenset[tuple[str, str]]:
    """The (adjective, noun) and (subject noun, verb) of the English sentence.

    In their dictionary forms: ("black", "cat"), ("dog", "look for"). A predicate
    counts: "the cat is black".
    """
    found, noun = set(), ""
    english = split_words(pair.source)
    lemmas = [*lemmas_of(english), ""]
    for word, lemma, following in zip(english, lemmas, lemmas[1:], strict=False):
        if word in ("and", "but", "because"):
            noun = ""
        elif word in NOUN_OF:
            noun = lemma
        elif word in ADJECTIVE_NAMES:
            described = following or noun
            found |= {(lemma, described)} if described else set()
        elif lemma:
            found |= {(noun, lemma)} if noun else set()
            noun = ""
    return frozenset(found)


PHENOMENA = (
    "agreement",  # an adjective takes the gender and number of what it describes
    "adjective order",  # and stands after its noun
    "vowel form",  # "bel", "vieil", "nouvel", "cet"; "mon" with a feminine noun
    "elision",  # "l'", "j'", "n'", …
    "contraction",  # "du", "des", "au", "aux" for two English words
    "negation",
    "denied article",  # "de" for "a", "any" or "no"
    "pronoun",  # an object pronoun, before its verb
    "possessive",  # agrees with what is owned: "her brother" is "son frère"
    "question",
    "antecedent",  # "it", "he", "she" or "they" takes its gender from a noun before it
)
CLITICS = frozenset(
    ("me", "m'", "te", "t'", "le", "la", "l'", "lui", "nous", "les", "leur")
)
OWNED_FEMININE = frozenset(noun.french for noun in NOUNS if noun.gender == "f")


def phenomena(pair: SentencePair) -> frozenset[str]:
    """Which of PHENOMENA, the differences between the languages, the pair shows."""
    english, french = split_words(pair.source), split_words(pair.target)
    place = dict(pair.alignment)
    links = [(english[i], french[j]) for i, j in pair.alignment]
    adjectives = [i for i, word in enumerate(english) if word in ADJECTIVE_NAMES]
    partners = [j for _, j in pair.alignment if french[j] in CONTRACTED.values()]
    objects = {row[4] for row in PRONOUNS}
    shown = {
        "agreement": adjectives,
        "adjective order": any(
            english[i + 1] in NOUN_OF and place[i] > place[i + 1] for i in adjectives
        ),
        "vowel form": {"bel", "vieil", "nouvel", "cet"} & set(french)
        or any(
            first in ("mon", "ton", "son") and second in OWNED_FEMININE
            for first, second in pairwise(french)
        ),
        "elision": any(word.endswith("'") for word in french),
        "contraction": len(partners) > len(set(partners)),
        "negation": {"not", "never", "no"} & set(english),
        "denied article": any(
            e in ("a", "an", "any", "no") and f in ("de", "d'") for e, f in links
        )
        and {"pas", "jamais"} & set(french),
        "pronoun": any(e in objects and f in CLITICS for e, f in links),
        "possessive": any(
            e in POSSESSIVES and (e != "her" or f not in CLITICS) for e, f in links
        ),
        "question": english[-1] == "?",
        "antecedent": "because" in english
        and any(word in NOUN_OF for word in english[: english.index("because")]),
    }
    return frozenset(name for name, is_shown in shown.items() if is_shown)
