"""Pairs of short sentences that differ in one fact about one noun (lesson 12).

All are of five words, as in "he sees the dog." and "il voit le chien.", and the words
of both languages stand at the same places.
"""

from random import Random

from helpers.corpus.alignments import SentencePair, sentence_pair
from helpers.corpus.grammar import nouns_of, pick, subject_pronoun
from helpers.corpus.phrases import clause, noun_phrase, phrase
from helpers.corpus.words import PRONOUNS, TRANSITIVE, Noun, Verb, elides
from helpers.text import split_words

ARTICLE, NOUN = 2, 3  # the places in the sentences of `noun_pairs`
FACTS = ("gender", "first sound", "number")
SEEN = "see hear love help know buy read open"
VERBS = tuple(verb for verb in TRANSITIVE if verb.english in SEEN.split())
Pairs = list[tuple[SentencePair, SentencePair]]


def noun_pairs(fact: str, count: int, seed: int) -> Pairs:
    """Sentences whose objects differ in one of FACTS, half of them either way round.

    Other gender: "the dog", "the cow" (le chien, la vache). Other first sound: "the
    dog", "the bird" (le chien, l'oiseau), of one gender. Other number: "the dog", "the
    dogs" (le chien, les chiens). No two pairs begin with the same sentence.
    """
    rng, found = Random(seed), {}
    while len(found) < count:
        verb = pick(rng, VERBS)
        subject = subject_pronoun(*pick(rng, PRONOUNS)[:4])
        first = pick(rng, objects_of(verb))
        others = [noun for noun in objects_of(verb) if differ(first, noun, fact)]
        if not others:
            continue
        nouns, plurals = (first, pick(rng, others)), (False, fact == "number")
        objects = [
            noun_phrase(noun, "the", "object", plural=plural)
            for noun, plural in zip(nouns, plurals, strict=True)
        ]
        end = phrase(".", ".", "end")
        pair = [sentence_pair(clause(subject, verb, x) + end) for x in objects]
        pair = pair if rng.random() < 0.5 else pair[::-1]
        if len({len(split_words(p.target)) for p in pair}) == 1:
            found.setdefault(pair[0].source, tuple(pair))
    return [*found.values()]


def objects_of(verb: Verb) -> list[Noun]:
    """What a person can do this to, if "the" can stand before it in the singular."""
    nouns = nouns_of(verb.frames["person"])
    return [n for n in nouns if not {"mass", "related"} & {*n.kinds.split()}]


def differ(one: Noun, other: Noun, fact: str) -> bool:
    """Whether two nouns differ in this fact, and not in another that an article shows.

    For the number: whether a noun shows it, and has "le" or "la" in the singular.
    """
    vowels = elides(one.french), elides(other.french)
    if fact == "number":
        shown = one.french_forms[0] != one.french_forms[1]
        return one is other and shown and not one.always_one and not vowels[0]
    if fact == "gender":
        return one.gender != other.gender and not any(vowels)
    return one.gender == other.gender and vowels == (False, True)
