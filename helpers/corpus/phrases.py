"""Phrases and clauses in both languages at once, word by word (lesson 10)."""

from dataclasses import dataclass, replace
from functools import cache

from helpers.corpus.words import BE, DETERMINERS, THEY, THIRD, Adjective, Noun, Verb

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


@cache
def phrase(english: str, french: str, name: str, **features) -> Phrase:
    """Texts all of whose words share one name; features are those of Phrase."""
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
