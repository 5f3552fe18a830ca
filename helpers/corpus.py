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

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from random import Random

from helpers.lexicon import (
    ADJECTIVES,
    BE,
    DESCRIBABLE,
    DETERMINER_GROUPS,
    DETERMINERS,
    FIRST,
    GIVE,
    GO,
    HELD_OUT,
    INDEFINITE,
    INTRANSITIVE,
    LIVE,
    NOUNS,
    PLACES,
    POSSESSIVES,
    PRONOUNS,
    REASONS,
    SECOND,
    STATE_MOODS,
    THEY,
    THIRD,
    TRANSITIVE,
    VERB,
    VERBS,
    WAYS,
    WE,
    WITH_PERSONS,
    Adjective,
    Noun,
    Verb,
    elides,
)
from helpers.text import join_words, split_words

# --- Phrases: words of both languages, each with the names of what it expresses -----

Word = tuple[str, tuple[str, ...]]


@cache
def words(text: str, *names: str) -> tuple[Word, ...]:
    """Each word of the text, expressing what the names say; no names: unaligned."""
    return tuple((word, names) for word in text.split())


@dataclass(frozen=True)
class Phrase:
    """English and French words; those that share a name are aligned.

    person, gender ("" if nobody can tell), plural and kinds are what the rest of the
    sentence agrees with, when the phrase is a subject.
    """

    english: tuple[Word, ...] = ()
    french: tuple[Word, ...] = ()
    person: int = THIRD
    gender: str = ""
    plural: bool = False
    kinds: str = "person"

    def __add__(self, other: "Phrase") -> "Phrase":
        return Phrase(self.english + other.english, self.french + other.french)

    def within(self, clause: str) -> "Phrase":
        """The same with other names, so that two clauses can stand in one sentence."""
        english, french = (
            tuple(
                (text, tuple(clause + name for name in names)) for text, names in side
            )
            for side in (self.english, self.french)
        )
        return replace(self, english=english, french=french)


NOTHING = Phrase()


def phrase(english: str, french: str, name: str, **features) -> Phrase:
    return Phrase(words(english, name), words(french, name), **features)


ADVERBS = {
    "statement": NOTHING,
    "question": NOTHING,
    "often": phrase("often", "souvent", "often"),
    "negative": phrase("not", "pas", "not"),
    "never": phrase("never", "jamais", "not"),
}


def noun_phrase(
    noun: Noun,
    determiner: str,
    role: str,
    *,
    plural: bool = False,
    adjective: Adjective | None = None,
) -> Phrase:
    """Determiner, adjective and noun, agreeing; each side in its own order."""
    feminine, following = noun.gender == "f", noun.french_forms[plural]
    chosen = DETERMINERS[determiner]
    article = chosen.french[2 if plural else feminine]
    if article == "des" and adjective and adjective.before:
        article = "de"  # "des chiens", but "de petits chiens"
    names = (role + ".determiner", *["not"] * (determiner == "no"))
    parts = [
        Phrase(words(chosen.english[plural], *names), words(article, *names)),
        phrase(noun.english_forms[plural], following, role + ".noun"),
    ]
    if adjective:
        form = adjective.form(noun.gender, plural, following)
        described = phrase(adjective.english, form, role + ".adjective")
        parts.insert(1, described)
    french = parts if not adjective or adjective.before else [*parts[::2], parts[1]]
    return Phrase(
        sum((part.english for part in parts), ()),
        sum((part.french for part in french), ()),
        THEY if plural else THIRD,
        noun.gender,
        plural,
        f"{noun.kinds} {noun.english}",
    )


def clause(
    subject: Phrase,
    verb: Verb,
    rest: Phrase = NOTHING,
    mood: str = "statement",
    pronoun: Phrase = NOTHING,
) -> Phrase:
    """Subject, verb, object pronoun and rest, in each language's order.

    mood: "statement", "often", "negative", "never" or "question".
    """
    english = _english_clause(subject, verb, mood) + pronoun.english
    french = _french_clause(subject, verb, mood, pronoun)
    return Phrase(english, french) + rest


def _english_clause(subject: Phrase, verb: Verb, mood: str) -> tuple[Word, ...]:
    adverb, who = ADVERBS[mood].english, subject.english
    if verb is BE:
        form = ("am", "are", "is", "are", "are")[subject.person]
        if mood == "question":
            return words(form, "verb", "ask") + who
        return who + words(form, "verb") + adverb
    helper, form = "do", verb.english
    if subject.person == THIRD:
        helper, form = "does", verb.third
    if mood == "question":
        return words(helper, "ask") + who + words(verb.english, "verb")
    if mood == "negative":
        return who + words(helper) + adverb + words(verb.english, "verb")
    return who + adverb + words(form, "verb")


def _french_clause(
    subject: Phrase, verb: Verb, mood: str, pronoun: Phrase
) -> tuple[Word, ...]:
    opening = words("est-ce que", "ask") if mood == "question" else ()
    ne = words("ne", "not") if mood in ("negative", "never") else ()
    form = words(verb.french.split()[subject.person], "verb")
    adverb = ADVERBS[mood].french
    return opening + subject.french + ne + pronoun.french + form + adverb


# --- Spelling: what words do to their neighbours ------------------------------------

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


# --- Sentences: chance decides, sense and grammar constrain -------------------------


def pick(rng: Random, options):
    """One of the options. Only rng.random() is promised to be alike everywhere."""
    return options[int(rng.random() * len(options))]


@cache
def nouns_of(kinds: str) -> tuple[Noun, ...]:
    """The nouns of any of these kinds."""
    wanted = set(kinds.split())
    return tuple(n for n in NOUNS if wanted & {n.english, *n.kinds.split()})


@cache
def adjectives_for(kinds: str) -> tuple[Adjective, ...]:
    """The adjectives that can describe what is of these kinds."""
    mine = set(kinds.split())
    return tuple(a for a in ADJECTIVES if mine & set(a.nouns.split()))


@cache
def determiners_for(noun: Noun, group: str, counted: bool) -> tuple[str, ...]:
    """Those of the group that suit the noun; counted: "two", "three" may be there."""
    kinds = noun.kinds.split()
    if "related" in kinds and group not in ("indefinite", "a"):
        return POSSESSIVES
    refused = () if "own" in kinds else POSSESSIVES
    if not counted or "mass" in kinds or "single" in kinds:
        refused += ("two", "three")
    options = [d for d in DETERMINER_GROUPS[group] if d not in refused]
    if "mass" in kinds:
        options = ["some" if d == "a" else d for d in options]
    return tuple(options or ["the"])


@cache
def predicates_for(kinds: str, gender: str) -> tuple[Adjective, ...]:
    """Those that can follow "is"; where the gender is unknown, that do not show it."""
    return tuple(
        adjective
        for adjective in adjectives_for(kinds)
        if adjective.predicate and (gender or adjective.one_gender)
    )


def random_noun_phrase(
    rng: Random,
    role: str,
    kinds: str,
    group: str,
    *,
    mood: str = "statement",
    adjectives: float = 0.35,
    one: bool = False,
) -> Phrase:
    """A noun of these kinds with a determiner of the group and, at times, an adjective.

    mood: of the clause, for an object: "some bread" is "any bread" when asked for or
    denied; one: in the singular.
    """
    noun = pick(rng, nouns_of(kinds))
    determiner = pick(rng, determiners_for(noun, group, mood == "statement"))
    one = one or noun.always_one
    plural = determiner in ("two", "three") or (not one and rng.random() < 0.35)
    if determiner in ("a", "some"):
        determiner = INDEFINITE[mood].format(determiner)
    options = adjectives_for(f"{noun.kinds} {noun.english}")
    adjective = pick(rng, options) if options and rng.random() < adjectives else None
    return noun_phrase(noun, determiner, role, plural=plural, adjective=adjective)


def random_subject(
    rng: Random,
    kinds: str,
    mood: str,
    group: str = "",
    *,
    pronouns: float = 0.55,
    adjectives: float = 0.25,
) -> Phrase:
    """A pronoun, where a person can be the subject, or a noun phrase.

    What is denied or asked is so of "the man", not of "a man".
    """
    if "person" not in kinds.split() or rng.random() >= pronouns:
        usual = "subject" if mood in ("statement", "often") else "definite"
        group = group or usual
        return random_noun_phrase(rng, "subject", kinds, group, adjectives=adjectives)
    # Twice those with verb forms of their own; but who asks what "I" do, or "we"?
    options = (*PRONOUNS, *(row for row in PRONOUNS if not row[2]))
    if mood == "question":
        options = tuple(row for row in options if row[3] not in (FIRST, WE))
    return subject_pronoun(*pick(rng, options)[:4])


def subject_pronoun(english: str, french: str, gender: str, person: int) -> Phrase:
    features = {"gender": gender, "plural": person in (WE, THEY)}
    kinds = "person adult pronoun"
    return phrase(english, french, "subject", person=person, kinds=kinds, **features)


def random_pronoun(rng: Random, subject: Phrase, *, receiver: bool = False) -> Phrase:
    """An object pronoun; not of the subject's own person, which would be "myself"."""
    groups = {FIRST: (FIRST, WE), WE: (FIRST, WE), SECOND: (SECOND,)}
    own = groups.get(subject.person, ())
    english, *french = pick(rng, [row[4:] for row in PRONOUNS if row[3] not in own])
    return phrase(english, french[receiver], "pronoun")


def random_place(rng: Random, subject: Phrase, verb: Verb) -> Phrase:
    """Where such a subject can do this: "under the table"; NOTHING if nowhere."""
    kinds = set(subject.kinds.split())
    options = [
        (english, french, where)
        for english, french, who, where, doing in PLACES
        if kinds & set(who.split()) and verb.english in doing.split()
    ]
    if not options:
        return NOTHING
    english, french, where = pick(rng, options)
    group = "definite" if where == "person" else "place"
    one = english not in ("near", "with") and where != "tree"
    place = random_noun_phrase(rng, "place", where, group, adjectives=0.15, one=one)
    return phrase(english, french, "where") + place


def random_object(rng: Random, subject: Phrase, verb: Verb, mood: str) -> Phrase:
    """What is done often or never is done to "a" thing, or "some"."""
    who = set(subject.kinds.split())
    kinds = next(objects for kind, objects in verb.frames.items() if kind in who)
    habit = mood in ("often", "never") and verb.objects in ("any", "unowned")
    group = "a" if habit else verb.objects
    return random_noun_phrase(rng, "object", kinds, group, mood=mood, one=verb.one)


# One function a construction. Each is given a mood and leaves the full stop to others.


def intransitive(rng: Random, mood: str) -> Phrase:
    """As "the cat sleeps under the table"."""
    verb = pick(rng, (*INTRANSITIVE, LIVE, LIVE))
    mood = verb.mood(mood)
    subject = random_subject(rng, " ".join(verb.frames), mood)
    there = verb is LIVE or rng.random() < 0.5
    place = random_place(rng, subject, verb) if there else NOTHING
    return clause(subject, verb, place, mood)


def transitive(rng: Random, mood: str) -> Phrase:
    """As "the baker does not buy any bread"."""
    verb = pick(rng, TRANSITIVE)
    mood = verb.mood(mood)
    subject = random_subject(rng, " ".join(verb.frames), mood)
    thing = random_object(rng, subject, verb, mood)
    place = random_place(rng, subject, verb) if rng.random() < 0.3 else NOTHING
    return clause(subject, verb, thing + place, mood)


def with_pronoun(rng: Random, mood: str) -> Phrase:
    """As "she does not see him"."""
    verb = pick(rng, WITH_PERSONS)
    mood = verb.mood(mood)
    subject = random_subject(rng, " ".join(verb.frames), mood)
    return clause(subject, verb, mood=mood, pronoun=random_pronoun(rng, subject))


def giving(rng: Random, mood: str) -> Phrase:
    """As "I give the key to the doctor" or "I give him the key"."""
    mood = GIVE.mood(mood)
    subject = random_subject(rng, "person", mood)
    gift = random_object(rng, subject, GIVE, mood)
    if rng.random() < 0.5:
        pronoun = random_pronoun(rng, subject, receiver=True)
        return clause(subject, GIVE, gift, mood, pronoun)
    receiver = random_noun_phrase(rng, "receiver", "person", "place", adjectives=0.15)
    return clause(subject, GIVE, gift + phrase("to", "à", "to") + receiver, mood)


def quality(rng: Random, mood: str, kinds: str = "", pronouns: float = 0.5) -> Phrase:
    """As "my sister is happy"."""
    kinds = kinds or pick(rng, DESCRIBABLE)
    subject = random_subject(
        rng, kinds, mood, "definite", pronouns=pronouns, adjectives=0
    )
    adjective = pick(rng, predicates_for(subject.kinds, subject.gender))
    if not adjective.passing:
        mood = STATE_MOODS.get(mood, mood)
    form = adjective.form(subject.gender or "m", subject.plural)
    return clause(subject, BE, phrase(adjective.english, form, "quality"), mood)


def whereabouts(rng: Random, mood: str) -> Phrase:
    """As "the letter is on the table"."""
    kinds = pick(rng, ("person", "animal", "thing food"))
    subject = random_subject(rng, kinds, mood, "definite")
    return clause(subject, BE, random_place(rng, subject, BE), mood)


def introduction(rng: Random, mood: str) -> Phrase:
    """As "this is my brother", "these are not our books"."""
    if rng.random() < 0.3:
        noun = pick(rng, [n for n in nouns_of("own") if not n.always_one])
        these = phrase("these", "ce", "this", person=THEY)
        whose = noun_phrase(noun, pick(rng, POSSESSIVES), "object", plural=True)
        return clause(these, BE, whose, mood)
    this, group = phrase("this", "ce", "this"), pick(rng, ("a", "possessive"))
    kinds = "thing food animal furniture car house garden" if group == "a" else "own"
    thing = random_noun_phrase(rng, "object", kinds, group, one=True)
    return clause(this, BE, thing, mood)


def existence(rng: Random, mood: str) -> Phrase:
    """As "there is no milk in the kitchen"."""
    denied, asked = mood == "negative", mood == "question"
    kinds = pick(rng, ("adult kid job", "animal", "thing food"))
    wanted = "no" if denied else mood
    thing = random_noun_phrase(rng, "object", kinds, "indefinite", mood=wanted)
    there, core = words("there", "there"), words("y", "there") + words("a", "verb")
    verb = words("are" if thing.plural else "is", "verb", *["ask"] * asked)
    if denied:
        core = words("ne", "not") + core + words("pas", "not")
    french = words("est-ce que", "ask") * asked + words("il", "there") + core
    opening = Phrase(verb + there if asked else there + verb, french)
    return opening + thing + random_place(rng, thing, BE)


def motion(rng: Random, mood: str) -> Phrase:
    """As "we come from the market"."""
    verb, english, french, kinds, group = pick(rng, WAYS)
    mood = verb.mood(mood)
    subject = random_subject(rng, " ".join(verb.frames), mood)
    place = random_noun_phrase(rng, "goal", kinds, group, adjectives=0.15)
    place = phrase(english, french, "to") + place
    if rng.random() < 0.3:
        place += random_place(rng, subject, verb)  # "with my brother"
    return clause(subject, verb, place, mood)


def reason(rng: Random, mood: str) -> Phrase:
    """As "the cat sleeps because it is tired"; the pronoun agrees with its noun."""
    mood, verbs, adjectives = pick(rng, REASONS)
    verb = VERB[pick(rng, verbs.split())]
    subject = random_subject(
        rng, " ".join(verb.frames), mood, "definite", adjectives=0.1
    )
    options = predicates_for(subject.kinds, subject.gender)
    options = [a for a in options if a.english in adjectives.split()]
    if not options:  # "I" and "happy": heureux or heureuse?
        return reason(rng, mood)
    adjective = pick(rng, options)
    form = adjective.form(subject.gender or "m", subject.plural)
    because = clause(again(subject), BE, phrase(adjective.english, form, "quality"))
    link = phrase("because", "parce que", "because")
    return clause(subject, verb, mood=mood) + link + because.within("because")


def again(subject: Phrase) -> Phrase:
    """The pronoun for a subject just named."""
    if "pronoun" in subject.kinds:
        return subject
    english = {"m": "he", "f": "she"}[subject.gender]
    french = {"m": "il", "f": "elle"}[subject.gender]
    if subject.plural:
        return subject_pronoun("they", french + "s", subject.gender, THEY)
    english = "it" if "animal" in subject.kinds else english
    return subject_pronoun(english, french, subject.gender, THIRD)


def contrast(rng: Random, mood: str) -> Phrase:
    """As "I work but you sleep", "the house is old and the garden is beautiful".

    Two pronouns or two nouns: "they" could else be a noun of the first clause.
    """
    link = pick(rng, (phrase("and", "et", "link"), phrase("but", "mais", "link")))
    kinds, pronouns = pick(rng, DESCRIBABLE), pick(rng, (0, 1))
    if rng.random() < 0.6:
        first, second = (action(rng, pronouns) for _ in "12")
    else:
        first, second = (quality(rng, mood, kinds, pronouns) for _ in "12")
    if pronouns and first.english[0] == second.english[0]:
        return contrast(rng, mood)  # not "he works but he sleeps"
    return first.within("first") + link + second


def action(rng: Random, pronouns: float) -> Phrase:
    """As "the dog runs": one of two clauses."""
    verb = pick(rng, INTRANSITIVE)
    kinds, mood = " ".join(verb.frames), "statement"
    subject = random_subject(
        rng, kinds, mood, "definite", pronouns=pronouns, adjectives=0
    )
    return clause(subject, verb)


def who_question(rng: Random, mood: str) -> Phrase:
    """As "who sees the cat"; no est-ce que, for nothing moves to the front."""
    who = phrase("who", "qui", "who")
    if rng.random() < 0.3:
        verb = pick(rng, INTRANSITIVE)
        return clause(who, verb, random_place(rng, who, verb))
    verb = pick(rng, TRANSITIVE)
    group = "a" if verb.objects == "indefinite" else "definite"
    kinds = verb.frames["person"]
    return clause(who, verb, random_noun_phrase(rng, "object", kinds, group, one=True))


def where_question(rng: Random, mood: str) -> Phrase:
    """As "where is my hat", "where does she live"."""
    where = phrase("where", "où", "where")
    if rng.random() < 0.5:
        kinds = pick(rng, ("person", "animal", "thing food"))
        missing = random_subject(rng, kinds, mood, pronouns=0)
        forms = ("are", "sont") if missing.plural else ("is", "est")
        return where + phrase(*forms, "verb") + missing
    verb = pick(rng, (*INTRANSITIVE, LIVE, GO))
    subject = random_subject(rng, " ".join(verb.frames), mood)
    return where + clause(subject, verb, mood=mood)


def what_question(rng: Random, mood: str) -> Phrase:
    """As "what does he eat"."""
    verb = VERB[
        pick(rng, ("eat", "drink", "buy", "read", "look at", "look for", "see"))
    ]
    subject = random_subject(rng, " ".join(verb.frames), mood)
    return phrase("what", "que", "what") + clause(subject, verb, mood=mood)


USUAL = ("statement",) * 8 + ("question",) * 4 + ("negative",) * 3 + ("often", "never")
SOBER = tuple(mood for mood in USUAL if mood not in STATE_MOODS)
CONSTRUCTIONS = (  # function, weight, moods
    (intransitive, 14, USUAL),
    (transitive, 38, USUAL),
    (with_pronoun, 12, USUAL),
    (giving, 7, SOBER),
    (quality, 12, USUAL),
    (whereabouts, 8, SOBER),
    (introduction, 5, SOBER),
    (existence, 6, SOBER),
    (motion, 8, USUAL),
    (reason, 5, ("statement",)),
    (contrast, 6, ("statement",)),
    (who_question, 4, ("question",)),
    (where_question, 4, ("question",)),
    (what_question, 3, ("question",)),
)
DRAWN = tuple(entry for entry in CONSTRUCTIONS for _ in range(entry[1]))


def sentences(rng: Random) -> Iterator[SentencePair]:
    """Pairs without end, not all distinct; no word of substance twice in a sentence."""
    while True:
        construction, _, moods = pick(rng, DRAWN)
        mood = pick(rng, moods)
        mark = "?" if mood == "question" else "."
        pair = sentence_pair(construction(rng, mood) + phrase(mark, mark, "end"))
        lemmas = [lemma for lemma in _lemmas(split_words(pair.source)) if lemma]
        if len(set(lemmas)) == len(lemmas):
            yield pair


# --- What is in a pair --------------------------------------------------------------

NOUN_OF = {form: noun.english for noun in NOUNS for form in noun.english_forms}
VERB_OF = {form: v.english for v in VERBS for form in (v.english, v.third)}
ADJECTIVE_NAMES = frozenset(adjective.english for adjective in ADJECTIVES)


def _lemmas(english: list[str]) -> list[str]:
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
    lemmas = [*_lemmas(english), ""]
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


# --- The corpus ---------------------------------------------------------------------

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


def toy_corpus(
    *,
    train_size: int = 24_000,
    validation_size: int = 1_000,
    test_size: int = 1_000,
    compositional_size: int = 1_000,
    seed: int = 0,
) -> ToyCorpus:
    """Draw a corpus; the same seed gives the same pairs on any machine.

    ValueError if train_size is below 1, another size negative, or more is asked for
    than MOST_SENTENCES (compositional: MOST_COMPOSITIONAL).
    """
    ordinary_size = train_size + validation_size + test_size
    _check_sizes(train_size, validation_size, test_size, compositional_size)
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


def _check_sizes(train: int, validation: int, test: int, compositional: int) -> None:
    if train < 1:
        raise ValueError(f"train_size must be at least 1: {train}")
    smallest = min(validation, test, compositional)
    if smallest < 0:
        raise ValueError(f"a size cannot be negative: {smallest}")
    for asked, most, what in (
        (train + validation + test, MOST_SENTENCES, "train, validation and test"),
        (compositional, MOST_COMPOSITIONAL, "compositional"),
    ):
        if asked > most:
            raise ValueError(
                f"{asked:,} sentences asked for {what}: there are at most {most:,}"
            )
