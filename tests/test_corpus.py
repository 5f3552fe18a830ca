"""The toy corpus: grammar, alignments, splits. Tables here are written out again, so
that a slip in the lexicon does not excuse itself."""

import hashlib
import re
from collections import Counter
from functools import cache
from itertools import islice, pairwise
from random import Random

import pytest

from helpers.corpus import SentencePair, toy_corpus
from helpers.corpus.grammar import sentences
from helpers.corpus.phenomena import PHENOMENA, combinations, phenomena
from helpers.corpus.words import ADJECTIVES, HELD_OUT, NOUNS, VERBS
from helpers.text import split_words

SPLITS = ("train", "validation", "test", "compositional")
# Whatever changes the default corpus changes this, knowingly, and the lessons' numbers.
DEFAULT_SHA256 = "50eb62ca21f693aabbb9e4c9ef23b1899b24c4b43eb827098c35dc59136a2c6a"

# --- What French and English demand, as tables ---------------------------------------

HE, SHE, ONE, MANY = {"ms"}, {"fs"}, {"ms", "fs"}, {"mp", "fp"}
DETERMINERS = {
    **dict.fromkeys(("le", "un", "ce", "cet", "du", "au", "mon", "ton", "son"), HE),
    **dict.fromkeys(("la", "une", "cette", "ma", "ta", "sa"), SHE),
    **dict.fromkeys(("l'", "notre", "leur"), ONE),
    **dict.fromkeys(("les", "des", "aux", "ces", "mes", "tes", "ses", "nos"), MANY),
    **dict.fromkeys(("leurs", "deux", "trois"), MANY),
    **dict.fromkeys(("de", "d'"), ONE | MANY),
}
SUBJECTS = {
    "je": (0, ONE), "j'": (0, ONE), "tu": (1, ONE), "il": (2, {"ms"}),
    "elle": (2, {"fs"}), "nous": (3, MANY), "ils": (4, {"mp"}), "elles": (4, {"fp"}),
    "qui": (2, ONE),
}  # fmt: skip
CLITICS = {"me", "m'", "te", "t'", "le", "la", "l'", "lui", "nous", "les", "leur", "y"}
FULL_BEFORE_VOWEL = {"le", "la", "je", "ne", "de", "que", "me", "te", "ce", "ma", "ta"}
FULL_BEFORE_VOWEL |= {"sa"}
ONLY_BEFORE_VOWEL = {"cet", "bel", "nouvel", "vieil"}
H_ASPIRE = {"hibou", "hiboux", "héros"}
BEFORE_NOUN = ("petit", "grand", "beau", "vieux", "nouveau", "jeune", "bon")
ETRE = {"suis": {0}, "es": {1}, "est": {2}, "sommes": {3}, "sont": {4}}
FEMININE = """femme fille sœur reine vache souris pomme soupe eau lettre histoire
chemise écharpe clé boîte table chaise porte fenêtre voiture fleur maison cuisine école
gare forêt"""
PLURALS = {
    "cheval": "chevaux", "journal": "journaux", "oiseau": "oiseaux", "hibou": "hiboux",
    "gâteau": "gâteaux", "chapeau": "chapeaux", "manteau": "manteaux",
    "souris": "souris", "héros": "héros",
    "man": "men", "woman": "women", "child": "children", "mouse": "mice",
    "hero": "heroes", "story": "stories", "scarf": "scarves", "box": "boxes",
}  # fmt: skip

NOUN_FORMS, ADJECTIVE_FORMS, VERB_FORMS = {}, {}, dict(ETRE)
ENGLISH_NOUNS, ENGLISH_VERBS = {}, {"am", "is", "are"}  # {form: (number, noun)}
ENGLISH_ADJECTIVES = {adjective.english: adjective for adjective in ADJECTIVES}
for noun in NOUNS:
    for number, form in enumerate(noun.french_forms):
        NOUN_FORMS.setdefault(form, set()).add(noun.gender + "sp"[number])
        ENGLISH_NOUNS[noun.english_forms[number]] = number, noun
for adjective in ADJECTIVES:
    forms = *adjective.french.split(), adjective.vowel
    for form, feature in zip(forms, ("ms", "fs", "mp", "fp", "ms"), strict=True):
        ADJECTIVE_FORMS.setdefault(form, set()).add(feature)
for verb in VERBS:
    for person, form in enumerate(verb.french.split()):
        VERB_FORMS.setdefault(form, set()).add(person)
    ENGLISH_VERBS |= {verb.english.split()[0], verb.third.split()[0]}


def starts_with_vowel(word):
    return word == "y" or (word[:1] in "aàeéêiîoôœuh" and word not in H_ASPIRE)


# --- Faults: what an examiner would mark in one pair ---------------------------------


class Marked:
    """A pair, split; what each French word renders says what it is: noun, verb, …"""

    def __init__(self, pair):
        self.pair = pair
        self.english, self.french = split_words(pair.source), split_words(pair.target)
        self.links = [(self.english[i], self.french[j]) for i, j in pair.alignment]
        self.partners = [set() for _ in self.french]
        for i, j in pair.alignment:
            self.partners[j].add(self.english[i])

    def among(self, j, french, english):
        inside = 0 <= j < len(self.french) and self.french[j] in french
        return inside and not self.partners[j].isdisjoint(english)

    def is_noun(self, j):
        return self.among(j, NOUN_FORMS, ENGLISH_NOUNS)

    def is_verb(self, j):
        return self.among(j, VERB_FORMS, ENGLISH_VERBS)

    def is_adjective(self, j):
        return self.among(j, ADJECTIVE_FORMS, ENGLISH_ADJECTIVES)

    def noun_phrase(self, j):
        """The genders and numbers that all words around the noun at j allow."""
        features, start = NOUN_FORMS[self.french[j]], j - 1
        for k in (j - 1, j + 1):
            if self.is_adjective(k):
                features = features & ADJECTIVE_FORMS[self.french[k]]
                start -= k < j
        word, following = self.french[start], self.french[start + 1]
        allowed = DETERMINERS.get(word, set())
        if word in ("mon", "ton", "son") and starts_with_vowel(following):
            allowed = ONE
        return features & allowed

    def subject(self, j):
        """Person, genders and numbers of the subject of the verb at j."""
        k = j - 1
        while k >= 0 and self.french[k] in CLITICS | {"ne", "n'"}:
            if self.french[k] == "nous" and not self.partners[k] & {"us"}:
                break
            k -= 1
        if k >= 0 and self.french[k] in SUBJECTS:
            return SUBJECTS[self.french[k]]
        if self.french[k] in ("ce", "c'", "où"):  # "où sont mes livres"
            k = next(filter(self.is_noun, range(j, len(self.french))))
        k -= self.is_adjective(k)
        features = self.noun_phrase(k)
        return (2 if features <= ONE else 4), features


def faults(pair):
    marked = Marked(pair)
    checks = (nouns, verbs, order, vowels, negation, alignment)
    return {check.__name__ for check in checks if not check(marked)}


def nouns(m):
    """Determiner, adjective and noun agree, and the two languages in number."""
    fine = True
    for i, j in m.pair.alignment:
        if m.is_noun(j) and m.english[i] in ENGLISH_NOUNS:
            number, noun = ENGLISH_NOUNS[m.english[i]]
            fine &= m.french[j] == noun.french_forms[number]
            fine &= bool(m.noun_phrase(j) & (MANY if number else ONE))
    for j, (word, following) in enumerate(pairwise(m.french)):
        if word == "des" and following in ADJECTIVE_FORMS and m.is_noun(j + 2):
            fine &= not m.partners[j] & {"some", "any"}  # "de petits chiens"
    return fine


def verbs(m):
    """A verb agrees with its subject, and so does an adjective after "est"."""
    fine = True
    for j in filter(m.is_verb, range(len(m.french))):
        person, features = m.subject(j)
        fine &= person in VERB_FORMS[m.french[j]]
        k = j + 1 + (m.french[j + 1] in ("pas", "jamais", "souvent"))
        if m.french[j] in ETRE and m.is_adjective(k) and not m.is_noun(k + 1):
            # After "je" the form must do for both genders: nobody can tell which.
            fine &= features <= ADJECTIVE_FORMS[m.french[k]]
    return fine


def order(m):
    """petit, grand, … before the noun, the others after; object pronouns before."""
    fine = True
    for j in filter(m.is_adjective, range(len(m.french))):
        (adjective,) = filter(ENGLISH_ADJECTIVES.get, m.partners[j])
        front = ENGLISH_ADJECTIVES[adjective].french.split()[0] in BEFORE_NOUN
        fine &= not m.is_noun(j - 1 if front else j + 1)
    for j, partners in enumerate(m.partners):
        if partners & {"me", "him", "us", "them"}:
            fine &= m.is_verb(j + 1)
    return fine


def vowels(m):
    """Elision, contraction, forms before a vowel: always there and nowhere else."""
    fine = True
    for word, following in pairwise(m.french):
        if starts_with_vowel(following):
            fine &= word not in FULL_BEFORE_VOWEL
            fine &= word not in ("beau", "nouveau") or following == "et"
        else:
            fine &= not word.endswith("'") and word not in ONLY_BEFORE_VOWEL
        fine &= not (word in ("de", "à") and following in ("le", "les"))
    return fine


def negation(m):
    """ne, at most one pronoun, verb, pas or jamais; "de" for what is denied."""
    clitic = "(?:[mtl]'|(?:me|te|le|la|lui|nous|les|leur|y) )?"
    whole = re.findall(rf"\bn(?:e |'){clitic}\w+ (?:pas|jamais)\b", m.pair.target)
    denials = sum(word in ("not", "never", "no") for word in m.english)
    loose = sum(word in ("ne", "n'", "pas", "jamais") for word in m.french)
    fine = len(whole) == denials and loose == 2 * denials
    denied = [f for e, f in m.links if e == "any" and denials]
    return fine and {*denied} <= {"de", "d'"}


def alignment(m):
    """Sorted, the full stops one to one, words of like meaning, and none left out."""
    links, end = m.pair.alignment, (len(m.english) - 1, len(m.french) - 1)
    fine = links == tuple(sorted(set(links)))
    fine &= [link for link in links if end[0] == link[0] or end[1] == link[1]] == [end]
    fine &= {j for _, j in links} == set(range(len(m.french)))
    for i in set(range(len(m.english))) - {i for i, _ in links}:
        fine &= m.english[i] in ("do", "does") and m.english[i + 1] == "not"
    for e, f in m.links:
        if e in ENGLISH_ADJECTIVES:
            adjective = ENGLISH_ADJECTIVES[e]
            fine &= f in (*adjective.french.split(), adjective.vowel)
        elif e in ENGLISH_NOUNS:
            fine &= f in ENGLISH_NOUNS[e][1].french_forms
    return fine


# --- The whole corpus ----------------------------------------------------------------


def corpus_of(seed):
    return toy_corpus(seed=seed)


@cache
def pairs_of(seed):
    return [pair for name in SPLITS for pair in getattr(corpus_of(seed), name)]


@pytest.mark.slow
def test_no_pair_has_a_fault(seed):
    wrong = [(pair, found) for pair in pairs_of(seed) if (found := faults(pair))]
    assert not wrong, f"{len(wrong)} pairs, such as {wrong[:3]}"


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        ("le hibou", "l'hibou", "vowels"),
        ("mon école", "ma école", "vowels"),
        ("au marché", "à le marché", "vowels"),
        ("ma voiture", "mon voiture", "nouns"),
        ("petite table", "petit table", "nouns"),
        ("de petits", "des petits", "nouns"),
        ("elle est heureuse", "elle est heureux", "verbs"),
        ("je suis triste", "je suis heureux", "verbs"),
        ("les enfants dansent", "les enfants danse", "verbs"),
        (" pas ", " ", "negation"),
        ("pas de lait", "pas du lait", "negation"),
        ("two dogs", "two dog", "nouns"),
    ],
)
def test_the_examiner_sees_a_fault(right, wrong, fault):
    pair = next(p for p in pairs_of(0) if right in p.source or right in p.target)
    source, target = (x.replace(right, wrong) for x in (pair.source, pair.target))
    sizes = len(split_words(source)), len(split_words(target))
    links = tuple((i, j) for i, j in pair.alignment if i < sizes[0] and j < sizes[1])
    assert fault in faults(SentencePair(source, target, links))


# A sentence, its translation, and its alignment in words, read by hand.
READ_BY_HAND = """
the man sleeps. = l'homme dort. = the-l' man-homme sleeps-dort .-.
they do not look at them. = ils ne les regardent pas. = they-ils not-ne not-pas look-regardent at-regardent them-les .-.
do you see me? = est-ce que tu me vois ? = do-est-ce do-que you-tu see-vois me-me ?-?
I go to the market. = je vais au marché. = I-je go-vais to-au the-au market-marché .-.
we listen to you. = nous t'écoutons. = we-nous listen-écoutons to-écoutons you-t' .-.
what does she eat? = qu'est-ce qu'elle mange ? = what-qu' does-est-ce does-qu' she-elle eat-mange ?-?
"""  # noqa: E501


def test_alignments_are_those_read_by_hand():
    by_source = {pair.source: pair for pair in pairs_of(0)}
    for line in READ_BY_HAND.strip().splitlines():
        source, target, links = line.split(" = ")
        pair = by_source[source]
        named = [f"{e}-{f}" for e, f in Marked(pair).links]
        assert (pair.target, sorted(named)) == (target, sorted(links.split()))


def test_an_english_sentence_has_one_translation_and_one_alignment(seed):
    known = {pair.source: pair for pair in pairs_of(seed)}
    for pair in islice(sentences(Random(5)), 10_000):
        assert known.setdefault(pair.source, pair) == pair


def test_nothing_stands_in_two_splits_or_twice(seed):
    for side in ("source", "target"):
        texts = [getattr(pair, side) for pair in pairs_of(seed)]
        assert len(set(texts)) == len(texts)


# --- The words, against tables of their own -------------------------------------------


def test_genders_plurals_and_endings():
    for noun in NOUNS:
        assert (noun.gender == "f") == (noun.french in FEMININE.split()), noun
        for one, many in (noun.french_forms, noun.english_forms):
            assert noun.always_one or many == PLURALS.get(one, one + "s"), noun
    for verb in VERBS:
        je, tu, il, nous, ils = verb.french.split()
        assert tu[-1] in "sx" and nous.endswith("ons"), verb
        assert ils.endswith("ent") or ils in ("ont", "vont"), verb
        if je.endswith("e"):
            assert (tu, il, ils) == (je + "s", je, je + "nt"), verb
        elif je not in ("ai", "vais"):
            assert tu == je and il[-1] in "td", verb
    for adjective in ADJECTIVES:
        masculine, feminine, masculines, feminines = adjective.french.split()
        assert feminine.endswith("e") and feminines == feminine + "s", adjective
        ending = "x" if masculine.endswith("eau") else "s" * (masculine[-1] not in "sx")
        assert masculines == masculine + ending, adjective


def test_every_word_is_frequent_in_training_and_of_one_kind():
    for side in ("source", "target"):
        texts = [split_words(getattr(pair, side)) for pair in corpus_of(0).train]
        count = Counter(word for words in texts for word in words)
        assert 150 <= len(count) <= 400 and max(map(len, texts)) <= 14
        for pair in pairs_of(0):
            assert all(count[w] >= 30 for w in split_words(getattr(pair, side))), pair
    used = {word for pair in pairs_of(0) for word in split_words(pair.target)}
    for noun in NOUNS:
        assert {*noun.french_forms[: 2 - noun.always_one]} <= used
    for verb in VERBS:
        assert {*verb.french.split()} <= used
    kinds = [{*ENGLISH_NOUNS}, ENGLISH_VERBS, {*ENGLISH_ADJECTIVES}]
    assert len(set.union(*kinds)) == sum(map(len, kinds))


# --- Compositional, phenomena ---------------------------------------------------------


def test_held_out_combinations_are_in_compositional_alone_and_their_parts_elsewhere():
    splits = corpus_of(0)
    for name in SPLITS[:3]:
        assert not any(combinations(p) & HELD_OUT for p in getattr(splits, name))
    held_out = [combinations(pair) & HELD_OUT for pair in splits.compositional]
    assert all(held_out) and set().union(*held_out) == HELD_OUT
    seen = Counter(pair for p in splits.train for pair in combinations(p))
    for first, second in HELD_OUT:
        assert sum(n for pair, n in seen.items() if pair[0] == first) >= 30
        assert sum(n for pair, n in seen.items() if pair[1] == second) >= 30
        if first in ENGLISH_ADJECTIVES:  # its form with other nouns of the gender
            gender = ENGLISH_NOUNS[second][1].gender
            nouns = Counter({b: n for (a, b), n in seen.items() if a == first})
            alike = [b for b in nouns if ENGLISH_NOUNS[b][1].gender == gender]
            assert sum(nouns[b] for b in alike) >= 30, (first, second)


def test_combinations():
    source = "does the old man look for the sad girls?"
    expected = {("old", "man"), ("sad", "girl"), ("man", "look for")}
    assert combinations(SentencePair(source, "", ())) == expected
    source = "the house is old but the heavy boxes are green."
    expected = {("old", "house"), ("heavy", "box"), ("green", "box")}
    assert combinations(SentencePair(source, "", ())) == expected


def test_phenomena_agree_with_what_the_sentences_show_and_are_frequent():
    """Each told again in another way, from the French alone where that is possible."""
    for split, least in (("train", 300), ("test", 10), ("compositional", 10)):
        count = Counter()
        for pair in getattr(corpus_of(0), split):
            m, shown = Marked(pair), phenomena(pair)
            count.update(shown)
            place = range(len(m.french))
            after = any(m.is_noun(j) and m.is_adjective(j + 1) for j in place)
            fused = any("the" in words and len(words) > 1 for words in m.partners)
            negated = re.search(r"\bne\b|\bn'(?!est-ce)", pair.target)
            assert ("elision" in shown) == ("'" in pair.target), pair
            assert ("question" in shown) == pair.target.endswith(" ?"), pair
            assert ("negation" in shown) == bool(negated), pair
            assert ("adjective order" in shown) == after, pair
            assert ("contraction" in shown) == fused, pair
        assert {*count} == {*PHENOMENA} and min(count.values()) >= least, count


# --- One seed, one corpus ------------------------------------------------------------


def digest(splits):
    lines = [
        f"{name}\t{pair.source}\t{pair.target}\t{pair.alignment}\n"
        for name in SPLITS
        for pair in getattr(splits, name)
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def test_the_same_seed_gives_the_same_corpus_on_any_machine_and_another_another():
    assert digest(corpus_of(0)) == DEFAULT_SHA256
    sizes = {"train_size": 9, "validation_size": 1, "test_size": 2}
    few, others = (toy_corpus(seed=s, **sizes, compositional_size=0) for s in (0, 1))
    assert [len(getattr(few, name)) for name in SPLITS] == [9, 1, 2, 0]
    assert digest(few) != digest(others)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"train_size": 0}, "train_size must be at least 1: 0"),
        ({"test_size": -2}, "a size cannot be negative: -2"),
        ({"train_size": 200_000}, "202,000 sentences asked .* are at most 60,000"),
        ({"compositional_size": 5_000}, "5,000 .* compositional: .* at most 3,000"),
    ],
)
def test_impossible_sizes(sizes, message):
    with pytest.raises(ValueError, match=message):
        toy_corpus(**sizes)
