"""Answers to lesson 10's exercises that no table holds: right ones, and wrong ones."""

from collections import Counter
from itertools import pairwise

import numpy as np
import torch

from helpers.corpus.phenomena import phenomena
from helpers.text import split_words

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


def sees_nothing(pair):
    return False


RIGHT = {
    "matches": [crossing_out, with_zip, as_text, as_numbers, in_an_array],
    "control": [with_a_list, by_kind, in_a_tensor],
    "analysis": [by_the_alignment, by_words, lambda pair: int(by_words(pair))],
}
WRONG = {
    "matches": [
        (negative_total, "0 of -1 are given in one of the cases, 0 of 0 are due"),
        (the_share, "where two are due"),
        (of_the_shorter, "count the runs of the hypothesis"),
        (without_order, "are due"),
        (substring, "a run counts more often"),
        (using_up, "changes its inputs in place"),
        (lambda *x: (11, 12), "11 of 12 are given"),
        (lambda *x: "4 of 6", "return two"),
        (lambda *x: (4.0, 6.0, 0.0), "return two"),
    ],
    "control": [
        (mean_of_sentences, "the result differs"),
        (first_phrase_only, "the result differs"),
        (lambda *x: 0.5, "the result differs"),
        (lambda *x: [0.5, 0.5], "return one number, the share, not a list"),
        (lambda *x: "0.5", "return one number, the share, not a str"),
    ],
    "analysis": [
        (half, "fresh sentences that go wrong"),
        (other_half, "fresh sentences that go wrong"),
        (sees_nothing, "0 are found"),
        (lambda pair: True, "a false alarm, for example"),
        (lambda pair: "pronoun" in phenomena(pair) or by_words(pair), "false alarm"),
        (lambda pair: "her" in pair.source or by_words(pair), "false alarm"),
        (lambda pair: pair.no_such_thing, "AttributeError"),
    ],
}
