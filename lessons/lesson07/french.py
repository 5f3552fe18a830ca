"""French numbers in words: what the writer of lesson 07 learns to write."""

from collections.abc import Sequence

import torch
from torch import Tensor

from helpers import BOS, EOS
from helpers.batching import pad

SMALL = ["zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit"]
SMALL += ["neuf", "dix", "onze", "douze", "treize", "quatorze", "quinze", "seize"]
TENS = ["vingt", "trente", "quarante", "cinquante", "soixante"]


def french(n: int) -> list[str]:
    """The words of a number below 1000, without hyphens."""
    if n >= 100:
        hundreds = [] if n < 200 else [SMALL[n // 100]]
        if n % 100:
            return [*hundreds, "cent", *french(n % 100)]
        return [*hundreds, "cents" if hundreds else "cent"]
    if n <= 16:
        return [SMALL[n]]
    if n < 20:
        return ["dix", SMALL[n - 10]]
    if n >= 80:
        return ["quatre", "vingts"] if n == 80 else ["quatre", "vingt", *french(n - 80)]
    tens = min(n // 10, 6)  # 60 to 79 count on from soixante
    ones = n - 10 * tens
    joined = ["et"] if ones in (1, 11) else []
    return [TENS[tens - 2], *joined, *(french(ones) if ones else [])]


WORDS = sorted({word for n in range(1000) for word in french(n)})
WORDS = ["<pad>", "<unk>", "<bos>", "<eos>", *WORDS]
IDS = {word: i for i, word in enumerate(WORDS)}


def split_numbers() -> tuple[list[int], list[int]]:
    """800 of the numbers below 1000 for training, and the 200 that are held out."""
    generator = torch.Generator().manual_seed(0)
    shuffled = torch.randperm(1000, generator=generator).tolist()
    return shuffled[:800], shuffled[800:]


def digits_of(numbers: Sequence[int]) -> Tensor:
    """Ids of the digits (batch, 3), padded: a digit's id is its value + 4."""
    return pad([[4 + int(digit) for digit in str(n)] for n in numbers])


def words_of(numbers: Sequence[int]) -> list[list[int]]:
    """Ids of each number's words."""
    return [[IDS[word] for word in french(n)] for n in numbers]


def shifted(numbers: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """The source, what the decoder reads, and what it must say: one word ahead."""
    words = words_of(numbers)
    read = pad([[BOS, *row] for row in words])
    say = pad([[*row, EOS] for row in words])
    return digits_of(numbers), read, say


def unshifted(numbers: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """The source, and one row that is both read and to be said."""
    row = pad([[BOS, *row, EOS] for row in words_of(numbers)])
    return digits_of(numbers), row, row


def in_words(ids: Tensor) -> list[str]:
    """A row of ids as words, up to the first <eos>."""
    row = [WORDS[i] for i in ids.tolist()]
    return row[: row.index("<eos>") + 1] if "<eos>" in row else row


def share_right(written: Tensor, numbers: Sequence[int], *, begun: int = 0) -> float:
    """The share of rows (batch, length) that hold all words of their number.

    The first `begun` words of each number are not looked at.
    """
    due = [[*french(n), "<eos>"][begun:] for n in numbers]
    pairs = zip(map(in_words, written[:, begun:]), due, strict=True)
    return sum(row == wanted for row, wanted in pairs) / len(due)
