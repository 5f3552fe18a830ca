"""Sentences: chance decides, sense and grammar constrain (lesson 10)."""

from collections.abc import Iterator, Sequence
from functools import cache
from random import Random
from typing import TypeVar

from helpers.corpus.alignments import SentencePair, sentence_pair
from helpers.corpus.phenomena import lemmas_of
from helpers.corpus.phrases import NOTHING, Phrase, clause, noun_phrase, phrase, words
from helpers.corpus.words import (
    ADJECTIVES,
    BE,
    DESCRIBABLE,
    DETERMINER_GROUPS,
    FIRST,
    GIVE,
    GO,
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
    WAYS,
    WE,
    WITH_PERSONS,
    Adjective,
    Noun,
    Verb,
)
from helpers.text import split_words

T = TypeVar("T")


def pick(rng: Random, options: Sequence[T]) -> T:
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
    """A pronoun as the subject; `gender` is "" where nobody can tell it."""
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
        lemmas = [lemma for lemma in lemmas_of(split_words(pair.source)) if lemma]
        if len(set(lemmas)) == len(lemmas):
            yield pair
