"""The exercises of lesson 13, real sentences: reference answers and known mistakes."""

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from lessons.checking.comparing import plain
from lessons.checking.engine import Exercise, Part
from lessons.checking.findings import Stop, wrong
from lessons.lesson13.bootstrap import bleu_of, paired_interval

USES = {"Counter": Counter, "pairwise": pairwise}

# ------------------------------------------------------------ 13.1 learn the merges

# As far as is asked, one pair alone is the most frequent at each time.
HUNDE = {"▁Hund": 6, "▁Hunde": 3, "▁Hündin": 1, "▁rund": 2, "▁Wunde": 2}
REPEATS = {"▁mama": 9, "▁ama": 4, "▁papaya": 7, "▁hm": 30, "▁ohm": 2, "▁ma": 3}
ONE_OFTEN = {"▁so": 40, "▁also": 2, "▁as": 3, "▁was": 4, "▁has": 5, "▁oslo": 6}
APART = {"▁undan": 5, "▁da": 8, "▁dund": 3, "▁an": 12}
DOUBLES = {"▁und": 34, "▁adnu": 37, "▁an": 53, "▁ndnnnnn": 48}
INSIDE = {"▁aaana": 10, "▁na": 37, "▁nudnadn": 2, "▁nuanaa": 9}
SHORT = {"▁ab": 2, "▁a": 1}
EQUAL = {"▁ball": 5, "▁elle": 4, "▁ella": 3, "▁hell": 1}
SIGNS = {"▁'é": 20, "▁a'é": 1, "▁ß9": 12, "▁aß9": 1, "▁-é": 5, "▁a-é": 1}
ONCE = {"▁a": 1}
LONG = "▁Donaudampfschifffahrt"
BEGINNINGS = {LONG[:end]: end + 1 for end in range(2, len(LONG) + 1)}


def _pairs(merges: Any, words: dict, count: int) -> Any:
    """The merges, as text that says which pieces were joined, one line each."""
    if not isinstance(merges, list | tuple):
        kind = type(merges).__name__
        raise Stop(wrong(f"return the merges in a list of pairs, not a {kind}"))
    if any(isinstance(pair, str) for pair in merges):
        raise Stop(
            wrong(
                "a merge is a pair of pieces, such as ('n', 'd'): joined text does not "
                "say which two they were"
            )
        )
    for pair in merges:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise Stop(wrong(f"a merge is a pair of pieces, not {pair!r}"))
    return "\n".join("+".join(map(str, pair)) for pair in merges)


def _first_wrong_merge(value: str, due: str) -> str:
    yours, theirs = value.split("\n"), due.split("\n")
    for number, pair in enumerate(theirs):
        if yours[number : number + 1] != [pair]:
            given = "".join(yours[number : number + 1]) or "missing"
            return f"merge {number + 1} is {given}, due is {pair}"
    return f"{len(yours)} merges, due are {len(theirs)}"


SPLIT = "{tuple(word): times for"
COUNT = "pairs[pair] += times"
START = """\
    for _ in range(count):
        pairs = Counter()
"""
A_TO_Z = "encode().isalpha()"
JOIN_IF = "joined and (joined[-1], piece) == best"
JOIN_ALL = """\
            joined = []
            for piece in pieces:
                if joined and (joined[-1], piece) == best:
                    joined[-1] += piece
                else:
                    joined.append(piece)
"""
BY_REPLACE = """\
            joined = " ".join(pieces).replace(" ".join(best), "".join(best)).split(" ")
"""
FROM_RIGHT = """\
            joined = []
            for piece in pieces[::-1]:
                if joined and (piece, joined[-1]) == best:
                    joined[-1] = piece + joined[-1]
                else:
                    joined.append(piece)
            joined = joined[::-1]
"""
merges = Exercise(
    """\
def learn_merges(words, count):
    words = {tuple(word): times for word, times in words.items()}
    merges = []
    for _ in range(count):
        pairs = Counter()
        for pieces, times in words.items():
            for pair in pairwise(pieces):
                pairs[pair] += times
        if not pairs:
            break
        best = max(pairs, key=pairs.get)
        merges.append(best)
        merged = {}
        for pieces, times in words.items():
            joined = []
            for piece in pieces:
                if joined and (joined[-1], piece) == best:
                    joined[-1] += piece
                else:
                    joined.append(piece)
            merged[tuple(joined)] = times
        words = merged
    return merges
""",
    Part(
        "learn_merges",
        {
            "each word counts once: a pair in a word that occurs six times counts six "
            "times": {COUNT: "pairs[pair] += 1"},
            "a pair counts once a word, even where it stands there twice": {
                "for pair in pairwise(pieces)": "for pair in {*pairwise(pieces)}"
            },
            "nothing is joined: after each merge the words are made of new pieces, and "
            "all pairs are counted again": [
                {"        words = merged\n": ""},
                {
                    "        pairs = Counter()": "        pairs = Counter("
                    "{pair: -1e9 for pair in merges})",
                    "        words = merged\n": "",
                },
            ],
            "the rarest pair is joined: take the one with the largest count": {
                "max(": "min("
            },
            "the longest pair is joined: take the one with the largest count": {
                "key=pairs.get": "key=lambda pair: (len(''.join(pair)), pairs[pair])"
            },
            "the pair that comes first in the alphabet is joined: take the one with "
            "the largest count": {"max(pairs, key=pairs.get)": "min(pairs)"},
            "a merge is applied once a word: join the pair wherever it stands": {
                JOIN_IF: f"{JOIN_IF} and ''.join(best) not in joined"
            },
            "pieces are joined inside a text with spaces, and `replace` finds “a n” in "
            "“aa n”, too: compare whole pieces": {
                JOIN_ALL: BY_REPLACE,
            },
            "pairs that overlap are joined from the right: go from left to right": {
                JOIN_ALL: FROM_RIGHT,
            },
            "a pair of two equal pieces is left out: “l l” counts like any other": {
                COUNT: "pairs[pair] += times * (pair[0] != pair[1])"
            },
            "characters such as é, ß, 9, ' or - are left out: each is a piece": [
                {old: new.format(kept)}
                for kept in ("isascii()", "isalpha()", "isalnum()", A_TO_Z)
                for old, new in (
                    (SPLIT, "{{tuple(c for c in word if c == '▁' or c.{}): times for"),
                    (
                        COUNT,
                        "pairs[pair] += times * all("
                        "c == '▁' or c.{} for c in ''.join(pair))",
                    ),
                )
            ],
            "capital letters are made small: H and h are two pieces": [
                {SPLIT: SPLIT.replace("word", f"word.{small}()")}
                for small in ("lower", "casefold")
            ],
            "it stops while pairs are left: a rare pair is joined, too": [
                {"if not pairs": f"if max(pairs.values(), default=0) < {least}"}
                for least in (2, 3)
            ],
            "one merge too few": {"range(count)": "range(count - 1)"},
            "one merge too many": {"range(count)": "range(count + 1)"},
            "counts of earlier rounds are kept: begin each round with an empty count": {
                START: "    pairs = Counter()\n    for _ in range(count):\n"
            },
            "the word's first sign, ▁, takes no part: it is a piece like any other": {
                "for pair in pairwise(pieces)": "for pair in pairwise("
                "[p for p in pieces if p != '▁'])"
            },
            "the two pieces of each merge are turned round: left one first": {
                "merges.append(best)": "merges.append(best[::-1])"
            },
            "the list of merges is turned round: the first one learnt comes first": {
                "return merges": "return merges[::-1]"
            },
        },
        lambda seed: [
            (HUNDE, 5),
            (REPEATS, 6),
            (ONE_OFTEN, 3),
            (APART, 3),
            (DOUBLES, 3),
            (INSIDE, 4),
            (EQUAL, 3),
            (SIGNS, 7),
            (SHORT, 9),
            (BEGINNINGS, 20),
            (ONCE, 2),
        ],
        praise=("each merge is the most frequent pair at its time",),
        others="it stops where no pair is left",
        doubt="",
        measure=_pairs,
        describe=_first_wrong_merge,
    ),
    uses=USES,
)

# ------------------------------------------------------------ 13.2 cut by the merges

LEARNT = [("n", "d"), ("u", "nd"), ("▁", "H"), ("▁H", "und"), ("▁Hund", "e")]
NESTED = [("n", "d"), ("u", "nd"), ("m", "und"), ("m", "u")]
OTHERS = [("s", "s"), ("u", "n"), ("e", "r"), ("n", "d"), ("t", "e"), ("u", "nd")]
# The long word needs all merges but the last two; these come long after "▁D".
MANY = [(LONG[:n], LONG[n]) for n in range(1, len(LONG))] + [("s", "t"), ("n", "st")]


def _pieces(pieces: Any, word: str, merges: list) -> Any:
    """The pieces, joined by "·"."""
    if not isinstance(pieces, list | tuple) or not all(
        isinstance(piece, str) for piece in pieces
    ):
        kind = type(pieces).__name__
        raise Stop(wrong(f"return the pieces in a list, such as ['▁H', 'und']: {kind}"))
    return "·".join(pieces)


def _wrong_pieces(value: str, due: str) -> str:
    lost = value.replace("·", "") != due.replace("·", "")
    return f"the pieces are {value}, due are {due}" + " (letters are lost)" * lost


PIECE = "joined and (joined[-1], piece) == pair"
IN_ORDER = "go through `merges` once, from the first to the last"
LOOP = f"""\
    for pair in merges:
        joined = []
        for piece in pieces:
            if {PIECE}:
                joined[-1] += piece
            else:
                joined.append(piece)
        pieces = joined
"""
REPLACED = """\
    for pair in merges:
        pieces = " ".join(pieces).replace(" ".join(pair), "".join(pair)).split(" ")
"""
LONGEST = """\
    known, pieces = {"".join(pair) for pair in merges}, []
    while word:
        ends = [n for n in range(len(word), 1, -1) if word[:n] in known]
        pieces.append(word[: ends[0] if ends else 1])
        word = word[len(pieces[-1]) :]
"""
LEFTMOST = """\
    while found := [i for i, pair in enumerate(pairwise(pieces)) if pair in merges]:
        pieces[found[0] : found[0] + 2] = ["".join(pieces[found[0] : found[0] + 2])]
"""
BY_FOUND_ONCE = """\
    for pair in merges:
        for i, found in enumerate(pairwise(pieces)):
            if found == pair:
                pieces[i : i + 2] = ["".join(pair)]
                break
"""
cut = Exercise(
    f"""\
def cut_word(word, merges):
    pieces = list(word)
{LOOP}    return pieces
""",
    Part(
        "cut_word",
        {
            f"the merges are applied in reverse order: {IN_ORDER}": {
                "for pair in merges": "for pair in merges[::-1]"
            },
            "only the first merge is applied: is there a `return` inside the loop?": {
                "for pair in merges": "for pair in merges[:1]"
            },
            "the last merges are left out: go through `merges` to the end": [
                {"for pair in merges": f"for pair in merges[:{end}]"}
                for end in (5, 8, 20, "len(word)")
            ],
            "each merge is applied in one place only: join the pair wherever it stands "
            "in the word": {LOOP: BY_FOUND_ONCE},
            "the longest known piece is taken from the left, whatever the order of the "
            f"merges: {IN_ORDER}, and “▁ter” keeps its “er”, learnt before “te”": {
                LOOP: LONGEST
            },
            "the leftmost pair is joined first, whatever the order of the merges: "
            f"{IN_ORDER}": {LOOP: LEFTMOST},
            "pieces are joined inside a text with spaces, and `replace` finds “n d” in "
            "“un d”, too: compare whole pieces, such as `(pieces[i], pieces[i + 1]) == "
            "pair`": {LOOP: REPLACED},
            "two pieces are joined if *together* they make the text of a merge, and "
            "“un” with “d” is taken for “u” with “nd”: compare each with its half of "
            "the pair": {PIECE: "joined and joined[-1] + piece == ''.join(pair)"},
            "the word is still in single letters: is the result of joining kept?": {
                "        pieces = joined\n": ""
            },
            "the merges are returned, joined: cut the *word* by them": {
                "return pieces": "return [''.join(pair) for pair in merges]"
            },
        },
        lambda seed: [
            ("▁Hundehunde", LEARNT),
            ("▁Hunde", LEARNT),
            ("▁Mund", LEARNT),
            ("▁Rad", LEARNT),
            ("▁mund", NESTED),
            ("▁ter", OTHERS),
            ("▁rund", OTHERS),
            ("▁psssst", OTHERS),
            ("▁pssst", OTHERS),
            (LONG, MANY),
            ("▁Dienst", MANY),
            ("▁e", []),
        ],
        praise=("the merges are applied in their order",),
        others="new words, double letters and a word of one letter are cut as well",
        doubt="",
        measure=_pieces,
        describe=_wrong_pieces,
    ),
    uses=USES,
)

# ------------------------------------------------------------ 13.3 the paired bootstrap

QUANTILES, ROUNDING = (0.025, 0.975), 1e-4


def _two_systems(
    seed: int,
    sentences: int,
    resamples: int,
    skills: tuple[float, float] = (0.9, 0.8),
    ordered: bool = False,
) -> tuple:
    """The counts of two systems that share their hard sentences, and draws of both.

    If they are to be ordered, the resample comes first in which ours does worst.
    """
    generator = torch.Generator().manual_seed(seed)
    length = torch.randint(6, 20, (sentences, 1), generator=generator)
    ease = torch.rand(sentences, 1, generator=generator)

    def counts(skill: float) -> Tensor:
        said = length - torch.arange(4)
        share = ease ** (1 + torch.arange(4) / 2) * skill
        noise = 0.9 + 0.1 * torch.rand(sentences, 4, generator=generator)
        found = (said * share * noise).ceil()
        lengths = torch.cat([length, length + (ease < 0.3)], dim=1)
        return torch.cat([found, said, lengths], dim=1).double()

    ours, theirs = map(counts, skills)
    draws = torch.randint(sentences, (resamples, sentences), generator=generator)
    if ordered:
        draws = draws[_differences(ours, theirs, draws).argsort()]
    return ours, theirs, draws


def _differences(ours: Tensor, theirs: Tensor, draws: Tensor) -> Tensor:
    """Ours less theirs in BLEU, of each resample."""
    return bleu_of(ours[draws].sum(dim=1)) - bleu_of(theirs[draws].sum(dim=1))


def _ends(interval: Any, ours: Tensor, theirs: Tensor, draws: Tensor) -> Tensor:
    """(low, high) as one tensor.

    There are several ways to take a quantile of so many differences. An end that
    another way may give, one difference further at most, is taken for the usual one.
    """
    ends = plain(interval)
    if isinstance(ends, Tensor) and ends.shape == (2,):
        # Nothing is learnt through an interval.
        ends, ordered = ends.detach(), _differences(ours, theirs, draws).detach().sort()
        low, high = (
            _usual(*x, ordered.values) for x in zip(QUANTILES, ends, strict=True)
        )
        return torch.stack([low, high])
    if isinstance(ends, Tensor) and ends.dim() > 1 and len(ends) == 2:
        raise Stop(wrong(f"each end is one number, not of shape {(*ends.shape[1:],)}"))
    raise Stop(wrong("return two numbers: the lower end and the upper end"))


def _usual(quantile: float, end: Tensor, ordered: Tensor) -> Tensor:
    """The usual quantile, if `end` lies between the places around it; else `end`."""
    place, end = quantile * (len(ordered) - 1), end.double()
    low = ordered[max(math.floor(place) - 1, 0)]
    high = ordered[min(math.ceil(place) + 1, len(ordered) - 1)]
    fits = low - ROUNDING <= end <= high + ROUNDING
    return ordered.quantile(quantile) if fits else end


def _bounds(value: Tensor, due: Tensor) -> str:
    low, high = (f"{end:.2f}" for end in value.tolist())
    return "from {} to {}, due is from {:.2f} to {:.2f}".format(
        low, high, *due.tolist()
    )


OURS, THEIRS = "bleu_of(ours[draws].sum(dim=1))", "bleu_of(theirs[draws].sum(dim=1))"
RETURN = "return difference.quantile(0.025), difference.quantile(0.975)"
paired = Exercise(
    f"""\
def my_paired_interval(ours, theirs, draws):
    our_scores = {OURS}
    their_scores = {THEIRS}
    difference = our_scores - their_scores
    {RETURN}
""",
    Part(
        "my_paired_interval",
        {
            "BLEU is taken of each sentence and then averaged: add up the counts of a "
            "resample first, `counts[draws].sum(dim=1)`": {
                OURS: "bleu_of(ours[draws]).mean(dim=1)",
                THEIRS: "bleu_of(theirs[draws]).mean(dim=1)",
            },
            "the two systems get different sentences: both take the same draws": [
                {"theirs[draws]": "theirs[draws.flip(0)]"},
                {"theirs[draws]": "theirs[draws.roll(1, 0)]"},
                {"theirs[draws]": "theirs[(draws + 1) % len(theirs)]"},
            ],
            "the ends of two intervals are subtracted: take the differences of the "
            "resamples first, then the quantiles of these": [
                {
                    RETURN: "return [our_scores.quantile(q) - their_scores.quantile(q) "
                    "for q in (0.025, 0.975)]"
                },
                {
                    RETURN: "return (our_scores.quantile(0.025) - "
                    "their_scores.quantile(0.975), our_scores.quantile(0.975) - "
                    "their_scores.quantile(0.025))"
                },
            ],
            "the sign of the differences is lost: it says which system is better": {
                "our_scores - their_scores": "(our_scores - their_scores).abs()"
            },
            "the difference is turned round: ours less theirs": {
                "our_scores - their_scores": "their_scores - our_scores"
            },
            "upper end and lower end are swapped": {
                RETURN: "return difference.quantile(0.975), difference.quantile(0.025)"
            },
            "5 % of the differences lie below the interval, and 5 % above: leave out "
            "2.5 % on each side": {
                RETURN: "return difference.quantile(0.05), difference.quantile(0.95)"
            },
            "the interval holds all differences: leave out 2.5 % on each side": {
                RETURN: "return difference.min(), difference.max()"
            },
            "the mean and 1.96 standard deviations stand for the quantiles: take the "
            "quantiles themselves": {
                RETURN: "return (difference.mean() - 1.96 * difference.std(), "
                "difference.mean() + 1.96 * difference.std())"
            },
            "the standard deviation is divided by the number of resamples: the spread "
            "of the resamples is what is asked, take their quantiles": {
                RETURN: "return [difference.mean() + way * 1.96 * difference.std() / "
                "len(draws) ** 0.5 for way in (-1, 1)]"
            },
            "the counts of all sentences are added up without the draws": {
                OURS: "bleu_of(ours.sum(dim=0)).expand(len(draws))",
                THEIRS: "bleu_of(theirs.sum(dim=0)).expand(len(draws))",
            },
            "each sentence is drawn once: one that a resample holds twice counts "
            "twice": {
                "ours[draws]": "torch.stack([ours * torch.isin(torch.arange(len(ours)),"
                " row)[:, None] for row in draws])",
                "theirs[draws]": "torch.stack([theirs * torch.isin(torch.arange("
                "len(theirs)), row)[:, None] for row in draws])",
            },
            "some of the draws are left out: all resamples count": [
                {"ours[draws]": f"ours[{some}]", "theirs[draws]": f"theirs[{some}]"}
                for some in ("draws[:100]", "draws[:300]", "draws[:1000]")
            ],
            "the sums run over the resamples: over the sentences of each, "
            "`sum(dim=1)`": {
                OURS: "bleu_of(ours[draws].sum(dim=0))",
                THEIRS: "bleu_of(theirs[draws].sum(dim=0))",
            },
        },
        lambda seed: [
            _two_systems(seed, 60, 300),
            _two_systems(seed + 100, 25, 80),
            _two_systems(seed + 500, 20, 1200, ordered=True),
            _two_systems(seed + 200, 7, 41),
            _two_systems(seed + 300, 60, 90, skills=(0.8, 0.9)),
            _two_systems(seed + 400, 50, 70, skills=(0.85, 0.85)),
        ],
        praise=("it is the interval of the differences, on the same resamples",),
        others="other numbers of sentences and resamples work too",
        shown=paired_interval,
        at_once=1,
        measure=_ends,
        describe=_bounds,
    ),
    uses={"bleu_of": bleu_of},
)
