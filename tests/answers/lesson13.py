"""Answers to the exercises of lesson 13: right ones in other styles, and wrong ones."""

import math
import random
import re
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import sacrebleu
import torch

from lessons.lesson13.bootstrap import bleu_of

# ------------------------------------------------------------ 13.1 learn the merges


def with_lists(words, count):
    """Parallel lists, counts in a defaultdict, pairs as lists."""
    pieces, times = [[*word] for word in words], [*words.values()]
    merges = []
    while len(merges) < count:
        found = defaultdict(int)
        for parts, n in zip(pieces, times, strict=True):
            for i in range(len(parts) - 1):
                found[parts[i], parts[i + 1]] += n
        if len(found) == 0:
            return merges
        (left, right), _ = sorted(found.items(), key=lambda item: -item[1])[0]
        merges.append([left, right])
        for parts in pieces:
            i = 0
            while i < len(parts) - 1:
                if parts[i] == left and parts[i + 1] == right:
                    parts[i : i + 2] = [left + right]
                i += 1
    return merges


def kept_apart(words, count):
    """Each word's pieces are kept under the word."""
    split = {word: list(word) for word in words}
    merges = ()
    for _ in range(count):
        pairs = {}
        for word, n in words.items():
            for pair in zip(split[word], split[word][1:], strict=False):
                pairs[pair] = pairs.get(pair, 0) + n
        if not pairs:
            break
        most = max(pairs.values())
        best = next(pair for pair, n in pairs.items() if n == most)
        merges += (best,)
        for word, parts in split.items():
            out, i = [], 0
            while i < len(parts):
                hit = tuple(parts[i : i + 2]) == best
                out.append("".join(best) if hit else parts[i])
                i += 2 if hit else 1
            split[word] = out
    return merges


def all_at_once(words, count):
    """The most frequent pairs of letters, counted once and for all."""
    pairs = defaultdict(int)
    for word, times in words.items():
        for pair in pairwise(word):
            pairs[pair] += times
    return sorted(pairs, key=lambda pair: -pairs[pair])[:count]


def joined_text(words, count):
    return ["".join(pair) for pair in with_lists(words, count)]


def in_one_alphabet(words, count):
    """Whatever is no letter from a to z is thrown away."""
    words = {re.sub("[^▁a-zA-Z]", "", word): n for word, n in words.items()}
    return with_lists(words, count)


def split_at_signs(words, count):
    """Only runs of letters are words."""
    apart = defaultdict(int)
    for word, n in words.items():
        for part in re.findall("▁?[a-zäöüß]+", word, re.IGNORECASE):
            apart[part] += n
    return with_lists(apart, count)


def of_frequent_pairs(words, count):
    """It gives up where no pair occurs twice."""
    merges = with_lists(words, count)
    times = sum(words.values())
    return merges if times > 1 else []


def without_twins(words, count):
    """Equal neighbours are skipped."""
    parts, merges = {word: [*word] for word in words}, []
    for _ in range(count):
        found = Counter()
        for word, n in words.items():
            for left, right in pairwise(parts[word]):
                if left != right:
                    found[left, right] += n
        if not found:
            break
        merges.append(found.most_common(1)[0][0])
        for pieces in parts.values():
            i = 0
            while i + 1 < len(pieces):
                if (pieces[i], pieces[i + 1]) == merges[-1]:
                    pieces[i : i + 2] = ["".join(merges[-1])]
                i += 1
    return merges


def without_end(words, count):
    """It goes on where no pair is left."""
    found = with_lists(words, count)
    return found + [("", "")] * (count - len(found))


def seven_at_most(words, count):
    return with_lists(words, min(count, 7))


def of_eight_letters_at_most(words, count):
    """Longer pieces are never made."""
    pieces, merges = {word: [*word] for word in words}, []
    while len(merges) < count:
        found = Counter()
        for word, n in words.items():
            for pair in pairwise(pieces[word]):
                found[pair] += n * (len("".join(pair)) <= 8)
        if not +found:
            break
        merges.append(found.most_common(1)[0][0])
        pieces = {word: [*in_place_from(x, merges[-1:])] for word, x in pieces.items()}
    return merges


def never_stops_at_the_end(words, count):
    found = with_lists(words, count)
    if len(found) < count:
        raise ValueError("max() arg is an empty sequence")
    return found


# ------------------------------------------------------------ 13.2 cut by the merges


def by_rank(word, merges):
    """The pair that was learnt first, again and again, until there is none."""
    ranks, pieces = {tuple(pair): i for i, pair in enumerate(merges)}, [*word]
    while True:
        pairs = [*pairwise(pieces)]
        known = [pair for pair in pairs if pair in ranks]
        if not known:
            return pieces
        best, out, i = min(known, key=ranks.get), [], 0
        while i < len(pieces):
            hit = tuple(pieces[i : i + 2]) == best
            out.append("".join(best) if hit else pieces[i])
            i += 2 if hit else 1
        pieces = out


def in_place(word, merges):
    return in_place_from(word, merges)


def in_place_from(pieces, merges):
    pieces = list(pieces)
    for left, right in merges:
        i = 0
        while i + 1 < len(pieces):
            if pieces[i] == left and pieces[i + 1] == right:
                pieces[i : i + 2] = [left + right]
            else:
                i += 1
    return tuple(pieces)


def between_zeros(word, merges):
    """A text whose pieces stand between signs that no word holds, one hit at a time."""
    text = f"\0{chr(0).join(word)}\0"
    for left, right in merges:
        while f"\0{left}\0{right}\0" in text:
            text = text.replace(f"\0{left}\0{right}\0", f"\0{left}{right}\0", 1)
    return text.strip("\0").split("\0")


def until_one_does_nothing(word, merges):
    """After a hit, the first merge without one ends it."""
    pieces = (*word,)
    for pair in merges:
        joined = in_place_from(pieces, [pair])
        if joined == pieces and len(pieces) < len(word):
            break
        pieces = joined
    return pieces


def of_six_letters_at_most(word, merges):
    return in_place(word, [pair for pair in merges if len("".join(pair)) <= 6])


def to_a_text(word, merges):
    return " ".join(in_place(word, merges))


def without_the_sign(word, merges):
    return [*in_place(word.strip("▁"), merges)]


def beyond_the_end(word, merges):
    pieces = [*word]
    for pair in merges:
        for i in range(len(pieces)):
            if (pieces[i], pieces[i + 1]) == pair:
                pieces[i : i + 2] = ["".join(pair)]
    return pieces


# ------------------------------------------------------------ 13.3 the paired bootstrap


def resample_by_resample(ours, theirs, draws):
    """A loop, sacreBLEU's own formula, numpy's quantiles."""

    def score(counts):
        numbers = counts.sum(0).long().tolist()
        return sacrebleu.BLEU.compute_bleu(
            numbers[:4], numbers[4:8], numbers[8], numbers[9]
        ).score

    found = [score(ours[rows]) - score(theirs[rows]) for rows in draws]
    return np.quantile(found, [0.025, 0.975])


def with_counts(ours, theirs, draws):
    """How often each sentence was drawn, times its counts; floats come back."""
    often = torch.zeros(len(draws), len(ours), dtype=torch.float64)
    often.scatter_add_(1, draws, torch.ones_like(draws, dtype=torch.float64))
    gap = bleu_of(often @ ours) - bleu_of(often @ theirs)
    low, high = gap.quantile(torch.tensor([0.025, 0.975], dtype=gap.dtype)).tolist()
    return [low, high]


def means_of_counts(ours, theirs, draws):
    """BLEU is the same of sums and of means."""
    gap = bleu_of(ours[draws].mean(1)) - bleu_of(theirs[draws].mean(1))
    return torch.quantile(gap, torch.tensor([0.025, 0.975], dtype=gap.dtype))


def differences(ours, theirs, draws):
    return bleu_of(ours[draws].sum(1)) - bleu_of(theirs[draws].sum(1))


def ordered_list(ours, theirs, draws):
    """Places in the ordered list, without a number between two."""
    found = sorted(differences(ours, theirs, draws).tolist())
    return found[int(0.025 * len(found))], found[int(0.975 * len(found))]


def left_out(ours, theirs, draws):
    """So many left out on each side."""
    found = differences(ours, theirs, draws).sort().values
    out = int(0.025 * len(found))
    return found[out], found[-out - 1]


def by_count(ours, theirs, draws):
    """The 25th of a thousand, and the 975th."""
    found = sorted(differences(ours, theirs, draws).tolist())
    return [found[math.ceil(q * len(found)) - 1] for q in (0.025, 0.975)]


def another_quantile(method):
    def interval(ours, theirs, draws):
        found = differences(ours, theirs, draws).numpy()
        return np.percentile(found, [2.5, 97.5], method=method)

    return interval


def by_rank_of(low, high):
    """Other quantiles than those that are asked for."""

    def interval(ours, theirs, draws):
        found = sorted(differences(ours, theirs, draws).tolist())
        return found[int(low * len(found))], found[int(high * len(found))]

    return interval


def of_half_the_draws(ours, theirs, draws):
    return with_counts(ours, theirs, draws[::2])


def draws_of_its_own(ours, theirs, draws):
    return with_counts(ours, theirs, torch.randint(len(ours), draws.shape))


def drawn_by_python(ours, theirs, draws):
    rows = [[random.randrange(len(ours)) for _ in ours] for _ in draws]
    return with_counts(ours, theirs, torch.tensor(rows))


def whole_set(ours, theirs, draws):
    gap = bleu_of(ours.sum(0)) - bleu_of(theirs.sum(0))
    return gap, gap


def constant(ours, theirs, draws):
    return 1.0, 2.0


RIGHT = {
    "merges": [with_lists, kept_apart],
    "cut": [by_rank, in_place, between_zeros],
    "paired": [
        resample_by_resample,
        with_counts,
        means_of_counts,
        ordered_list,
        left_out,
        by_count,
        *map(another_quantile, ("lower", "higher", "nearest", "midpoint", "weibull")),
    ],
}
WRONG = {
    "merges": [
        (all_at_once, "nothing is joined"),
        (in_one_alphabet, "characters such as é"),
        (split_at_signs, "merge 1 is"),
        (of_frequent_pairs, "a rare pair is joined, too"),
        (without_twins, "a pair of two equal pieces"),
        (joined_text, "a merge is a pair of pieces"),
        (without_end, "merge"),
        (seven_at_most, "merge 8 is missing, due is"),
        (of_eight_letters_at_most, "merge 8 is f+f, due is"),
        (never_stops_at_the_end, "your code stopped with ValueError"),
        (lambda words, count: {("n", "d"): 14}, "in a list of pairs, not a dict"),
        (lambda words, count: [], "merge 1 is missing, due is n+d"),
        (lambda words, count: [("n", "d")] * count, "nothing is joined"),
        (lambda words, count: [14] * count, "a merge is a pair of pieces, not 14"),
        (
            lambda words, count: with_lists(dict.fromkeys(words, 1), count),
            "each word counts once",
        ),
    ],
    "cut": [
        (to_a_text, "return the pieces in a list"),
        (without_the_sign, "letters are lost"),
        (beyond_the_end, "your code stopped with IndexError"),
        (
            lambda word, merges: [word],
            "the pieces are ▁Hundehunde, due are ▁Hunde·h·und·e",
        ),
        (lambda word, merges: list(word), "still in single letters"),
        (lambda word, merges: [1, 2], "return the pieces in a list"),
        (lambda word, merges: in_place(word, merges[1:]), "the pieces are"),
        *[
            (lambda word, merges, end=end: in_place(word, merges[:end]), "the pieces")
            for end in (6, 7, 10, 19, -1)
        ],
        *[
            (lambda word, merges, end=end: in_place(word, merges[:end]), "left out")
            for end in (5, 8, 20)
        ],
        (lambda word, merges: in_place(word, merges[-6:]), "the pieces are"),
        (lambda word, merges: in_place(word, merges[: len(word)]), "left out"),
        (until_one_does_nothing, "left out"),
        (of_six_letters_at_most, "left out"),
    ],
    "paired": [
        (draws_of_its_own, "something random"),
        (drawn_by_python, "something random"),
        (differences, "two numbers: the lower end and the upper end"),
        (by_rank_of(0.05, 0.95), "due is from"),
        (by_rank_of(0.025, 0.95), "due is from"),
        (by_rank_of(0.005, 0.995), "due is from"),
        (by_rank_of(0.03, 0.97), "due is from"),
        (by_rank_of(0.02, 0.98), "due is from"),
        (of_half_the_draws, "due is from"),
        (whole_set, "added up without the draws"),
        (constant, "from 1.00 to 2.00, due is from"),
        (lambda a, b, draws: with_counts(b, a, draws), "the difference is turned"),
        (lambda a, b, draws: with_counts(a, a, draws), "from 0.00 to 0.00"),
        (lambda a, b, draws: (a[0], b[0]), "each end is one number"),
        (lambda a, b, draws: 3.0, "return two numbers"),
    ],
}
