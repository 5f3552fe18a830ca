"""The exercises of lesson 13: a byte-pair tokenizer, and the paired bootstrap."""

import math
from collections.abc import Callable, Sequence
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


FIRST = len(SPECIAL_TOKENS)  # the id of the first byte


def used(tokenizer: type) -> Callable:
    """What comes of a tokenizer's class: its size, ids, and the texts they spell."""

    def use(
        texts: list[str], vocab_size: int, sentences: list[str], spelt: Sequence = ()
    ) -> tuple:
        made = tokenizer.train(texts, vocab_size=vocab_size)
        if not isinstance(made, tokenizer):
            raise Wrong(f"`train` returns {made!r:.40}: let it return a tokenizer")
        sign = _plain(made.encode("~"))  # of which no merge was learnt
        if sign == [FIRST + ord("~")]:
            text = "cut each text with `spaced_words`, and keep that space"
            raise Wrong(f"the first word has lost its space: {text}")
        if sign[-1:] == [ord("~")]:
            raise Wrong("ids 0 to 3 are the special tokens: the bytes begin at 4")
        if len(made) > vocab_size:
            text = "`vocab_size` counts the 4 special tokens and the 256 bytes, too"
            raise Wrong(f"too many merges: {text}")
        rows = [_plain(made.encode(sentence)) for sentence in sentences]
        for sentence, row in zip(sentences, rows, strict=True):
            if "<eos>" in sentence and EOS in row:
                text = "`encode` reads the letters <eos> as the special token"
                raise Wrong(f"{text}: they are text like any other")
            if {BOS, EOS} & {*row[:1], *row[-1:]}:
                text = "`encode` adds <bos> or <eos>: it gives the text's ids alone"
                raise Wrong(text)
        decoded = [made.decode([BOS, *row, EOS]) for row in [*rows, *spelt]]
        return len(made), [*zip(sentences, rows, strict=True)], decoded

    use.__name__ = "BytePairs"
    return use


def _plain(ids: Any) -> list[int]:
    """Ids as a list of whole numbers, in whatever form they come."""
    if not hasattr(ids, "__iter__"):
        raise Wrong(f"`encode` returns {ids!r:.40}: let it return a list of ids")
    return [int(i) for i in ids]


class _OfAClass(Exercise):
    """An exercise whose answer is a class that is no module."""

    def findings(self, answer: Any) -> tuple[list[str], tuple]:
        """As of other answers; a class is tried by what it does."""
        if not isinstance(answer, type) and hasattr(answer, "train"):
            return ["✗ hand over the class itself, without parentheses"], ()
        if not isinstance(answer, type):
            return super().findings(answer)
        if not callable(getattr(answer, "train", None)):
            text = "✗ hand over a class that has `train(texts, *, vocab_size)`"
            return [text], ()
        if _is_stub(answer.train):
            return [UNTRIED], ()
        if issubclass(answer, BytePairs | SubwordTokenizer):
            return ["✗ this is the course's own, or inherits it: write it yourself"], ()
        return super().findings(partial(used(answer)))

    def _described(self, yours: Outcome, due: Outcome) -> str:
        """As of other answers; ids and texts that differ come with their sentence."""
        if yours.error or yours.output[0] != due.output[0]:
            return super()._described(yours, due)
        (_, rows, texts), (_, rows_due, texts_due) = yours.output, due.output
        for (sentence, ids), (_, ids_due) in zip(rows, rows_due, strict=True):
            if ids != ids_due:
                return f"`encode({sentence!r})` gives {[*ids]}, not {[*ids_due]}"
        n = next(n for n, text in enumerate(texts) if text != texts_due[n])
        what = f"the ids of {rows[n][0]!r}" if n < len(rows) else "bytes"
        return f"`decode` makes {texts[n]!r} of {what}, not {texts_due[n]!r}"


class _AcrossWords(BytePairs):
    @classmethod
    def train(cls, texts: list[str], *, vocab_size: int) -> BytePairs:
        return super().train(
            [x.replace(" ", "Ġ") for x in texts], vocab_size=vocab_size
        )

    def encode(self, text: str) -> list[int]:
        return super().encode(text.replace(" ", "Ġ"))

    def _bytes(self, word: str) -> list[int]:
        return super()._bytes(word.replace("Ġ", " "))


class _SplitAtSpaces(BytePairs):
    @classmethod
    def train(cls, texts: list[str], *, vocab_size: int) -> BytePairs:
        texts = [word for text in texts for word in text.split()]
        return super().train(texts, vocab_size=vocab_size)

    def encode(self, text: str) -> list[int]:
        return super().encode(" ".join(text.split()))


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
                ends = range(len(word), 0, -1)
                end = next(end for end in ends if word[:end] in self.pieces)
                found.append(self.pieces.index(word[:end]))
                word = word[end:]
        return found


class _EachAlone(BytePairs):
    def decode(self, ids: list[int]) -> str:
        pieces = (self.pieces[i].decode(errors="replace") for i in ids)
        return "".join(pieces).removeprefix(" ")


# As far as is asked, one pair alone is the most frequent at each time.
HUNDE = {"Hund": 6, "Hunde": 3, "Hündin": 1, "rund": 2, "Wunde": 2}
MAMA = {"mama": 9, "ama": 4, "papaya": 7, "ohm": 31, "oh": 3, "ob": 4}
MAMA |= {"über": 12, "grün": 9, "aaaa": 5, "ma!": 2}
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
        _probe(
            *(HUNDE, 261, "Hund"),
            spelt=[[4 + 0x20, 4 + 0xC3]],
            when='of bytes that spell no letter, with errors="replace": ',
        ),
    ],
    {
        "pairs are joined across words: cut each text with `spaced_words`, and count "
        "within its words": used(_AcrossWords),
        "the text is cut at spaces alone, and spaces are lost: cut it with "
        "`spaced_words`": used(_SplitAtSpaces),
        "each different word counts once: count its pairs as often as it occurs": used(
            _Unweighted
        ),
        "`encode` takes the longest piece, as WordPiece does, or joins first what was "
        "learnt last: join the pairs in the order in which they were learnt": used(
            _Longest
        ),
        "`decode` reads each piece alone: a letter such as ü has two bytes, so join "
        "all bytes first": used(_EachAlone),
    },
    results=("len(…)", "encode(…)", "decode(…)"),
    lesson="13",
)

# ------------------------------------------------------------ 13.2 the paired bootstrap

QUANTILES, ROUNDING = (0.025, 0.975), 1e-4


class _Plain(Probe):
    """Tensors that ask for no gradient, so that numpy's quantile may take them."""

    def leaves(self) -> tuple[list, dict]:
        """Copies of the arguments."""
        return [x.clone() for x in self.inputs], {}


def _two_systems(
    seed: int, sentences: int, resamples: int, skills: tuple[float, float], **said: Any
) -> Probe:
    """The counts of two systems that share their hard sentences, and draws of both."""
    chance = torch.Generator().manual_seed(seed)
    hard = torch.rand(sentences, generator=chance, dtype=torch.float64)
    lengths = torch.randint(8, 16, (sentences,), generator=chance).double()
    said_ngrams = lengths[:, None] - torch.arange(4)

    def counts(skill: float) -> Tensor:
        share = skill * (0.4 + 0.6 * hard[:, None]) ** (1 + torch.arange(4) / 2)
        noise = torch.rand(sentences, 4, generator=chance, dtype=torch.float64)
        found = (said_ngrams * share + 2 * noise - 1).clamp(min=0).round()
        found = torch.minimum(found, said_ngrams)
        return torch.cat([found, said_ngrams, lengths[:, None].expand(-1, 2)], dim=1)

    ours, theirs = map(counts, skills)
    draws = torch.randint(sentences, (resamples, sentences), generator=chance)
    return _Plain(ours, theirs, draws, **said)


def _differences(ours: Tensor, theirs: Tensor, draws: Tensor) -> Tensor:
    return _scores(ours, draws) - _scores(theirs, draws)


def _ends(interval: Any, *inputs: Tensor) -> tuple[str, ...]:
    """The ends as text; one that another way of taking a quantile gives is ours."""
    try:
        ends = [torch.as_tensor(end).double().item() for end in interval]
        (_, _) = ends
    except (TypeError, ValueError, RuntimeError):
        raise Wrong("return two numbers: the lower end, the upper end") from None
    ordered, found = _differences(*inputs).detach().sort().values, []
    turned = [ordered.quantile(quantile).item() for quantile in QUANTILES[::-1]]
    if ends[0] > ends[1] and math.dist(ends, turned) < ROUNDING:
        raise Wrong("the ends are the right ones, swapped: return the lower end first")
    for quantile, end in zip(QUANTILES, ends, strict=True):
        place = quantile * (len(ordered) - 1)
        low = ordered[max(math.floor(place) - 1, 0)] - ROUNDING
        high = ordered[min(math.ceil(place) + 1, len(ordered) - 1)] + ROUNDING
        found.append(ordered.quantile(quantile) if low <= end <= high else end)
    return f"from {found[0]:.3f}", f"to {found[1]:.3f}"


def _scores(counts: Tensor, draws: Tensor) -> Tensor:
    return bleu_of(counts[draws].sum(dim=1))


def _middle(values: Tensor, out: float = 0.025) -> list[Tensor]:
    return [values.quantile(out), values.quantile(1 - out)]


def _of_each(a: Tensor, b: Tensor, draws: Tensor) -> list[Tensor]:
    return _middle((bleu_of(a[draws]) - bleu_of(b[draws])).mean(dim=1))


def _of_ends(a: Tensor, b: Tensor, draws: Tensor) -> list[Tensor]:
    both = (_middle(_scores(counts, draws)) for counts in (a, b))
    return [one - other for one, other in zip(*both, strict=True)]


def _by_deviation(a: Tensor, b: Tensor, draws: Tensor) -> list[Tensor]:
    values = _differences(a, b, draws)
    return [values.mean() + way * values.std() for way in (-1.96, 1.96)]


paired_interval = Exercise(
    bootstrap.paired_interval,
    [
        _two_systems(0, 60, 300, (0.9, 0.8), praise="60 sentences, 300 resamples"),
        _two_systems(1, 25, 80, (0.8, 0.9), praise="25 sentences; theirs is better"),
        _two_systems(2, 90, 61, (0.85, 0.85), praise="two systems that are alike"),
    ],
    {
        "BLEU is taken of each sentence and then averaged: add up the counts of a "
        "resample first, `counts[draws].sum(dim=1)`": _of_each,
        "the two systems get different sentences: both take the same draws": (
            lambda a, b, draws: _middle(
                _scores(a, draws) - _scores(b, draws.roll(1, 0))
            )
        ),
        "the ends of two intervals are subtracted: take the differences of the "
        "resamples first, then the quantiles of these": _of_ends,
        "each resample of the one meets every resample of the other: both take the "
        "same one, `our_scores - their_scores`": (
            lambda a, b, draws: _middle(
                (_scores(a, draws)[:, None] - _scores(b, draws)).flatten()
            )
        ),
        "the difference is turned round: ours less theirs": (
            lambda *inputs: _middle(-_differences(*inputs))
        ),
        "5 % of the differences lie below the interval, and 5 % above: leave out "
        "2.5 % on each side": lambda *inputs: _middle(_differences(*inputs), 0.05),
        "the mean and 1.96 standard deviations stand for the quantiles: take the "
        "quantiles themselves": _by_deviation,
        "the smallest and the largest difference are returned: leave out 2.5 % on "
        "each side": lambda *inputs: _middle(_differences(*inputs), 0),
    },
    read=_ends,
    lesson="13",
)
