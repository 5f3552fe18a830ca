"""Answers to lesson 10's exercises that no table holds: right ones, and wrong ones."""

from collections import Counter
from itertools import pairwise
from unicodedata import normalize

import numpy as np
import torch

from helpers.corpus.phenomena import phenomena
from helpers.text import split_words
from lessons.lesson10.other_outputs import somebodys_outputs

# ------------------------------------------------------------ 10.1 count the matches


def crossing_out(hypothesis, reference, n):
    left = [reference[i : i + n] for i in range(len(reference) - n + 1)]
    matched, total = 0, 0
    for start in range(len(hypothesis) - n + 1):
        run = hypothesis[start : start + n]
        total += 1
        if run in left:
            left.remove(run)
            matched += 1
    return matched, total


def with_zip(hypothesis, reference, n):
    ours, theirs = (
        [*zip(*(side[i:] for i in range(n)), strict=False)]
        for side in (hypothesis, reference)
    )
    return sum(min(ours.count(x), theirs.count(x)) for x in {*ours}), len(ours)


def as_text(hypothesis, reference, n):
    ours, theirs = (
        Counter(" ".join(side[i : i + n]) for i in range(len(side) - n + 1))
        for side in (hypothesis, reference)
    )
    return [sum((ours & theirs).values()), max(0, len(hypothesis) - n + 1)]


def as_numbers(hypothesis, reference, n):
    matched, total = crossing_out(hypothesis, reference, n)
    return np.int64(matched), torch.tensor(total)


def in_an_array(hypothesis, reference, n):
    return np.array(crossing_out(hypothesis, reference, n))


def negative_total(hypothesis, reference, n):
    return crossing_out(hypothesis, reference, n)[0], len(hypothesis) - n + 1


def the_share(hypothesis, reference, n):
    matched, total = crossing_out(hypothesis, reference, n)
    return matched / max(total, 1)


def of_the_shorter(hypothesis, reference, n):
    matched, _ = crossing_out(hypothesis, reference, n)
    return matched, max(0, min(len(hypothesis), len(reference)) - n + 1)


def without_order(hypothesis, reference, n):
    ours, theirs = (
        Counter(tuple(sorted(side[i : i + n])) for i in range(len(side) - n + 1))
        for side in (hypothesis, reference)
    )
    return (ours & theirs).total(), ours.total()


def substring(hypothesis, reference, n):
    runs = [" ".join(hypothesis[i : i + n]) for i in range(len(hypothesis) - n + 1)]
    return sum(run in " ".join(reference) for run in runs), len(runs)


def counted_in_the_text(hypothesis, reference, n):
    runs = Counter(
        " ".join(hypothesis[i : i + n]) for i in range(len(hypothesis) - n + 1)
    )
    text = " ".join(reference)
    return sum(min(c, text.count(x)) for x, c in runs.items()), runs.total()


def without_spaces(hypothesis, reference, n):
    ours, theirs = (
        Counter("".join(side[i : i + n]) for i in range(len(side) - n + 1))
        for side in (hypothesis, reference)
    )
    return (ours & theirs).total(), ours.total()


def by_first_letters(hypothesis, reference, n):
    return crossing_out([x[0] for x in hypothesis], [x[0] for x in reference], n)


def by_three_letters(hypothesis, reference, n):
    return crossing_out([x[:3] for x in hypothesis], [x[:3] for x in reference], n)


def without_case(hypothesis, reference, n):
    return crossing_out(
        [x.casefold() for x in hypothesis], [x.casefold() for x in reference], n
    )


def without_marks(hypothesis, reference, n):
    ours, theirs = ([x for x in s if x not in ".?"] for s in (hypothesis, reference))
    return crossing_out(ours, theirs, n)


def letters_only(hypothesis, reference, n):
    ours, theirs = ([x for x in s if x.isalpha()] for s in (hypothesis, reference))
    return crossing_out(ours, theirs, n)


def without_accents(hypothesis, reference, n):
    return crossing_out(
        *([normalize("NFD", x)[0] + x[1:] for x in s] for s in (hypothesis, reference)),
        n,
    )


def without_apostrophes(hypothesis, reference, n):
    ours, theirs = ([x.rstrip("'") for x in s] for s in (hypothesis, reference))
    return crossing_out(ours, theirs, n)


def up_to_three(hypothesis, reference, n):
    return crossing_out(hypothesis, reference, min(n, 3))


def using_up(hypothesis, reference, n):
    hypothesis.reverse()
    return crossing_out(hypothesis, reference, n)


# ------------------------------------------------------------ 10.2 the control


def with_a_list(said, phrases, nouns, noun_first):
    chosen = [
        (row, pair)
        for row, pairs in enumerate(phrases)
        for pair in pairs
        if (pair[1] < pair[0]) is noun_first
    ]
    return np.mean([said[row][min(pair)] in nouns for row, pair in chosen])


def by_kind(said, phrases, nouns, noun_first):
    hits, total = 0, 0
    for words, pairs in zip(said, phrases, strict=True):
        for adjective, noun in pairs:
            place = noun if noun_first else adjective
            if (noun < adjective) == noun_first:
                total += 1
                hits += words[place] in nouns
    return hits / total


def in_a_tensor(said, phrases, nouns, noun_first):
    hits = []
    for words, pairs in zip(said, phrases, strict=True):
        for adjective, noun in pairs:
            first, second = sorted((adjective, noun))
            assert first < second
            if noun_first == (first == noun):
                hits.append(float(words[first] in nouns))
    return torch.tensor(hits).mean()


def mean_of_sentences(said, phrases, nouns, noun_first):
    shares = []
    for words, pairs in zip(said, phrases, strict=True):
        hits = [words[min(p)] in nouns for p in pairs if (p[1] < p[0]) == noun_first]
        if hits:
            shares.append(sum(hits) / len(hits))
    return sum(shares) / len(shares)


def first_phrase_only(said, phrases, nouns, noun_first):
    cut = [[p for p in pairs if (p[1] < p[0]) == noun_first][:1] for pairs in phrases]
    return with_a_list(said, cut, nouns, noun_first)


def either_place(said, phrases, nouns, noun_first):
    hits = [
        words[a] in nouns or words[b] in nouns
        for words, pairs in zip(said, phrases, strict=True)
        for a, b in pairs
        if (b < a) == noun_first
    ]
    return sum(hits) / len(hits)


def each_sentence_once(said, phrases, nouns, noun_first):
    rows = {
        (tuple(words), tuple(pairs)): (words, pairs)
        for words, pairs in zip(said, phrases, strict=True)
    }
    return with_a_list(*zip(*rows.values(), strict=True), nouns, noun_first)


def share_of_all_words(said, phrases, nouns, noun_first):
    words = [word for row in said for word in row]
    return sum(word in nouns for word in words) / len(words)


def last_sentence_only(said, phrases, nouns, noun_first):
    for words, pairs in zip(said, phrases, strict=True):
        hits = [words[min(p)] in nouns for p in pairs if (p[1] < p[0]) == noun_first]
    return sum(hits) / max(len(hits), 1)


# ------------------------------------------------------------ 10.3 an error analysis


def by_the_alignment(pair):
    english, french = split_words(pair.source), split_words(pair.target)
    links = {(english[i], french[j]) for i, j in pair.alignment}
    owner = links & {("his", "sa"), ("her", "son")}
    clitic = "pronoun" in phenomena(pair) and "negation" in phenomena(pair)
    return owner or clitic


def by_words(pair):
    english, french = pair.source.strip(".?").split(), split_words(pair.target)
    denied = {"not", "never"} & {*english}
    clitics = {"me", "m'", "te", "t'", "le", "la", "l'", "lui", "nous", "les", "leur"}
    after = [b for a, b in pairwise(french) if a in ("ne", "n'")]
    owner = ("his" in english and "sa" in french) or (
        "her" in english and "son" in french
    )
    return bool(owner or (denied and clitics & {*after}))


def half(pair):
    return {"negation", "pronoun"} <= phenomena(pair)


def other_half(pair):
    english, french = pair.source.split(), split_words(pair.target)
    return ("his" in english and "sa" in french) or (
        "her" in english and "son" in french
    )


def not_alone(pair):
    return other_half(pair) or (
        "not" in split_words(pair.source) and "pronoun" in phenomena(pair)
    )


def short_ones(pair):
    return by_the_alignment(pair) and len(split_words(pair.source)) <= 9


def asks_the_translator(pair):
    return somebodys_outputs([pair])[0] != pair.target


def sees_nothing(pair):
    return False


RIGHT = {
    "matches": [crossing_out, with_zip, as_text, as_numbers, in_an_array],
    "control": [with_a_list, by_kind, in_a_tensor],
    "analysis": [by_the_alignment, by_words, lambda pair: int(by_words(pair))],
}
WRONG = {
    "matches": [
        (negative_total, "0 of -1 are given, 0 of 0 are due. Here n = 3: *oui*"),
        (the_share, "return two counts, `matched, total`, not: float"),
        (of_the_shorter, "count the runs of the hypothesis"),
        (without_order, "the order of the words in a run counts"),
        (substring, "a run counts more often"),
        (counted_in_the_text, "where *le* stands in *elle*, too"),
        (without_spaces, "*a bc* then equals *ab c*"),
        (by_first_letters, "only the first letters"),
        (by_three_letters, "only the first letters"),
        (without_case, "upper and lower case"),
        (without_marks, "punctuation marks are left out"),
        (letters_only, "punctuation marks are left out"),
        (without_accents, "accents are left out"),
        (without_apostrophes, "are given"),
        (up_to_three, "are given"),
        (using_up, "changes its inputs in place"),
        (lambda *x: (11, 12), "the result is always the same, (11, 12)"),
        (lambda *x: (2, 3), "the result is always the same, (2, 3)"),
        (lambda *x: "4 of 6", "return two counts"),
        (lambda *x: (4.0, 6.0, 0.0), "return two counts"),
    ],
    "control": [
        (mean_of_sentences, "put all phrases together"),
        (first_phrase_only, "only one phrase of a sentence"),
        (each_sentence_once, "are given where the noun and where the adjective comes"),
        (last_sentence_only, "only the last sentence counts"),
        (lambda *x: round(with_a_list(*x), 2), "the share is rounded"),
        (lambda *x: 0.5, "the result is always the same, 0.5"),
        (share_of_all_words, "are given where the noun and where the adjective comes"),
        (either_place, "a noun at either of the two places"),
        (lambda *x: [0.5, 0.5], "return one number, the share, not a list"),
        (lambda *x: "0.5", "return one number, the share, not a str"),
    ],
    "analysis": [
        (half, "fresh sentences that go wrong"),
        (other_half, "fresh sentences that go wrong"),
        (not_alone, "90 are found, and at least 98 %"),
        (short_ones, "89 are found, and at least 98 %"),
        (asks_the_translator, "your rule asks the translator itself"),
        (sees_nothing, "0 are found"),
        (lambda pair: True, "a false alarm, for example"),
        (lambda pair: "pronoun" in phenomena(pair) or by_words(pair), "false alarm"),
        (lambda pair: "her" in pair.source or by_words(pair), "false alarm"),
        (lambda pair: pair.no_such_thing, "AttributeError"),
    ],
}
