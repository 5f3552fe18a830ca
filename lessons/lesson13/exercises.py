"""The exercises of lesson 13: a byte-pair tokenizer, and the paired bootstrap."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from helpers import BOS, EOS, SPECIAL_TOKENS
from helpers.exercise import UNTRIED, Exercise, Outcome, Probe, Wrong, _is_stub
from helpers.text import SubwordTokenizer
from lessons.lesson13 import bootstrap
from lessons.lesson13.bootstrap import bleu_of
from lessons.lesson13.byte_pairs import BytePairs, spaced_words

# ------------------------------------------------------------ 13.1 a tokenizer


def used(tokenizer: type) -> Callable:
    """What comes of a tokenizer's class: its size, ids, and the texts they spell."""

    def use(texts: list[str], vocab_size: int, sentences: list[str]) -> list[tuple]:
        made = tokenizer.train(texts, vocab_size=vocab_size)
        if not isinstance(made, tokenizer):
            raise Wrong(f"`train` returns {made!r:.40}: let it return a tokenizer")
        sign = _plain(made.encode("~"))  # of which no merge was learnt
        if sign == [len(SPECIAL_TOKENS) + ord("~")]:
            text = "cut each text with `spaced_words`, and keep that space"
            raise Wrong(f"the first word has lost its space: {text}")
        if sign[-1:] == [ord("~")]:
            raise Wrong("ids 0 to 3 are the special tokens: the bytes begin at 4")
        rows = {x: _plain(made.encode(x)) for x in sentences}
        found = [("`len` of the tokenizer", len(made))]
        found += [(f"`encode({x!r})`", row) for x, row in rows.items()]
        for name, ids in [*rows.items(), ("two bytes, no letter", [36, 199])]:
            found.append((f"`decode` of {name!r}", made.decode([BOS, *ids, EOS])))
        return found

    use.__name__ = "BytePairs"
    return use


def _plain(ids: Any) -> list[int]:
    """Ids as a list of whole numbers, in whatever form they come."""
    try:
        return [int(i) for i in ids]
    except TypeError:
        raise Wrong(f"`encode` returns {ids!r:.40}: not a list of ids") from None


class _OfAClass(Exercise):
    """An exercise whose answer is a class that is no module."""

    def findings(self, answer: Any) -> tuple[list[str], tuple]:
        """As of other answers; a class is tried by what it does."""
        if not isinstance(answer, type):
            return super().findings(answer)
        if _is_stub(getattr(answer, "train", None)):
            return [UNTRIED], ()
        if issubclass(answer, BytePairs | SubwordTokenizer):
            return ["✗ this is the course's own, or inherits it: write it yourself"], ()
        return super().findings(partial(used(answer)))

    def _described(self, yours: Outcome, due: Outcome) -> str:
        """As of other answers; what differs is named."""
        pairs = zip(yours.output, due.output, strict=True)
        (name, found), (_, right) = next(pair for pair in pairs if pair[0] != pair[1])
        return f"{name} gives {found!r}, not {right!r}"


class _Unweighted(BytePairs):
    @classmethod
    def train(cls, texts: list[str], *, vocab_size: int) -> BytePairs:
        words = {word for text in texts for word in spaced_words(text)}
        words = sorted(word.removeprefix(" ") for word in words)
        return super().train(words, vocab_size=vocab_size)


class _Longest(BytePairs):
    def encode(self, text: str) -> list[int]:
        found = []
        for word in map(str.encode, spaced_words(text)):
            while word:
                known = [
                    i for i, x in enumerate(self.pieces) if x and word[: len(x)] == x
                ]
                found.append(max(known, key=lambda i: len(self.pieces[i])))
                word = word[len(self.pieces[found[-1]]) :]
        return found


class _EachAlone(BytePairs):
    def decode(self, ids: list[int]) -> str:
        pieces = (self.pieces[i].decode(errors="replace") for i in ids)
        return "".join(pieces).removeprefix(" ")


# As far as is asked, one pair alone is the most frequent at each time.
HUNDE = {"Hund": 6, "Hunde": 3, "Hündin": 1, "rund": 2, "Wunde": 2}
MAMA = {"mama": 9, "ama": 4, "papaya": 7, "ohm": 31, "oh": 3, "über": 12, "grün": 9}
MAMA |= {"ob": 4, "aaaa": 5, "ma!": 2}
CATS = {"the cat": 17, "the hat": 8, "that chat": 5, "catch the cat": 3, "to eat": 4}
CATS |= {"then": 2, "chat!": 1}


def _probe(words: dict[str, int], size: int, *sentences: str, **said: Any) -> Probe:
    texts = [text for text, times in words.items() for _ in range(times)]
    return Probe(texts, size, [*sentences], **said)


byte_pairs = _OfAClass(
    used(BytePairs),
    [
        _probe(HUNDE, 265, "Hund", "Mund", "zwei runde Hunde", praise="five merges"),
        _probe(
            *(MAMA, 267, "mamama paa", "oh, mama: aaaaa!", "Übermama", "日本 über 🐈"),
            praise="double letters, new letters, and signs of several bytes",
        ),
        _probe(
            *(CATS, 270, "that hatch", "two  spaces", "", " a", "a ", "<eos>"),
            praise="words stay apart; the text comes back as it was",
        ),
        _probe({"ab": 1, "a": 1}, 300, "ab", when="if few pairs are left: "),
    ],
    {
        "each different word counts once: count its pairs as often as it occurs": used(
            _Unweighted
        ),
        "`encode` takes the longest piece, as WordPiece does: join the pairs in the "
        "order in which they were learnt": used(_Longest),
        "`decode` reads each piece alone: ü has two bytes, so join all bytes "
        "first": used(_EachAlone),
    },
    lesson="13",
)

# ------------------------------------------------------------ 13.2 the paired bootstrap


class _Plain(Probe):
    """Tensors that ask for no gradient, so that numpy's quantile may take them."""

    def leaves(self) -> tuple[list, dict]:
        """Copies of the arguments."""
        return [x.clone() for x in self.inputs], {}


def _two_systems(
    sentences: int, resamples: int, skills: tuple[float, float], **said: Any
) -> Probe:
    """The counts of two systems that share their hard sentences, and draws of both."""
    chance = torch.Generator().manual_seed(sentences)
    hard = torch.rand(sentences, 1, generator=chance, dtype=torch.float64)
    lengths = torch.randint(8, 16, (sentences, 1), generator=chance).double()
    ngrams = lengths - torch.arange(4)

    def counts(skill: float) -> Tensor:
        luck = torch.rand(sentences, 4, generator=chance, dtype=torch.float64)
        share = skill * (0.3 + 0.4 * hard + 0.3 * luck) ** (1 + torch.arange(4) / 2)
        return torch.cat([(ngrams * share).round(), ngrams, lengths, lengths], dim=1)

    draws = torch.randint(sentences, (resamples, sentences), generator=chance)
    return _Plain(*map(counts, skills), draws, **said)


def _ends(interval: Any, *inputs: Tensor) -> Tensor:
    """The two ends; one that another way of taking a quantile gives is ours."""
    try:
        ends = torch.tensor([float(end) for end in interval])
        (_, _) = ends
    except (TypeError, ValueError, RuntimeError):
        raise Wrong("return two numbers: the lower end, the upper end") from None
    ordered = _differences(*inputs).sort().values
    for i, due in enumerate((0.025, 0.975)):
        place = due * (len(ordered) - 1)
        near = ordered[max(math.floor(place) - 1, 0) : math.ceil(place) + 2]
        if near[0] - 1e-4 <= ends[i] <= near[-1] + 1e-4:
            ends[i] = ordered.quantile(due)
    return ends


def _scores(counts: Tensor, draws: Tensor) -> Tensor:
    return bleu_of(counts[draws].sum(dim=1))


def _differences(ours: Tensor, theirs: Tensor, draws: Tensor) -> Tensor:
    return _scores(ours, draws) - _scores(theirs, draws)


def _middle(values: Tensor) -> list[Tensor]:
    return [values.quantile(0.025), values.quantile(0.975)]


def _of_each(a: Tensor, b: Tensor, draws: Tensor) -> list[Tensor]:
    return _middle((bleu_of(a[draws]) - bleu_of(b[draws])).mean(dim=1))


def _unpaired(a: Tensor, b: Tensor, draws: Tensor) -> list[Tensor]:
    return _middle(_scores(a, draws) - _scores(b, draws.roll(1, 0)))


paired_interval = Exercise(
    bootstrap.paired_interval,
    [
        _two_systems(60, 300, (0.9, 0.8), praise="60 sentences, 300 resamples"),
        _two_systems(25, 80, (0.8, 0.9), praise="25 sentences; theirs is better"),
        _two_systems(90, 61, (0.85, 0.85), praise="two systems that are alike"),
    ],
    {
        "BLEU is taken of each sentence: add up the counts of a resample first": (
            _of_each
        ),
        "the two systems get different sentences: both take the same draws": _unpaired,
        "the difference is turned round: ours less theirs": (
            lambda *inputs: _middle(-_differences(*inputs))
        ),
    },
    read=_ends,
    lesson="13",
)
