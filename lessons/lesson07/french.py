"""French numbers in words: what the writer of lesson 07 learns to write."""

from collections.abc import Sequence

import torch
from torch import Tensor

from helpers import BOS, EOS, PAD

SMALL = ["zéro", "un", "deux", "trois", "quatre", "cinq", "six", "sept", "huit"]
SMALL += ["neuf", "dix", "onze", "douze", "treize", "quatorze", "quinze", "seize"]
TENS = ["vingt", "trente", "quarante", "cinquante", "soixante"]
VALUES = {word: value for value, word in enumerate(SMALL)}
VALUES |= {word: 10 * (2 + i) for i, word in enumerate(TENS)}
VALUES |= {"vingts": 20, "cent": 100, "cents": 100}


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


def gloss(n: int) -> str:
    """What the words of a number say: 497 gives "4·100 + 4·20 + 10 + 7"."""
    said = ""
    for before, word in zip(["", *french(n)], french(n), strict=False):
        if word == "et":
            continue
        times = before == "quatre" and word.startswith("vingt")
        times |= word.startswith("cent") and bool(said)
        said += ("·" if times else " + " if said else "") + str(VALUES[word])
    return said


WORDS = sorted({word for n in range(1000) for word in french(n)})
WORDS = ["<pad>", "<unk>", "<bos>", "<eos>", *WORDS]
IDS = {word: i for i, word in enumerate(WORDS)}


def split_numbers() -> tuple[list[int], list[int]]:
    """800 of the numbers below 1000 for training, and the 200 that are held out."""
    generator = torch.Generator().manual_seed(0)
    shuffled = torch.randperm(1000, generator=generator).tolist()
    return shuffled[:800], shuffled[800:]


def _padded(rows: Sequence[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def batch_of(numbers: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Ids of the source (digit + 4), of what is read, and of what is to be said."""
    source = [[4 + int(digit) for digit in str(n)] for n in numbers]
    target = [[IDS[word] for word in french(n)] for n in numbers]
    read, say = [[BOS, *row] for row in target], [[*row, EOS] for row in target]
    return _padded(source), _padded(read), _padded(say)


def unshifted(numbers: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """As batch_of, but what is read and what is said are both <bos> … <eos>."""
    source, read, say = batch_of(numbers)
    whole = torch.cat([read[:, :1], say], dim=1)
    return source, whole, whole


def beginnings(numbers: Sequence[int], *, wrong: bool) -> Tensor:
    """<bos> and the first word (batch, 2) of numbers from 200; `wrong`: another one.

    The other one is the word of another hundred from two to nine, drawn at random.
    """
    generator = torch.Generator().manual_seed(0)
    steps = torch.randint(1, 8, (len(numbers),), generator=generator).tolist()
    hundreds = [n // 100 for n in numbers]
    if wrong:
        hundreds = [
            2 + (digit - 2 + step) % 8
            for digit, step in zip(hundreds, steps, strict=True)
        ]
    return torch.tensor([[BOS, IDS[SMALL[digit]]] for digit in hundreds])


def in_words(ids: Tensor) -> list[str]:
    """A row of ids as words, up to the first <eos>."""
    row = [WORDS[i] for i in ids.tolist()]
    return row[: row.index("<eos>") + 1] if "<eos>" in row else row


def share_right(written: Tensor, numbers: Sequence[int], *, begun: int = 0) -> float:
    """The share of rows (batch, steps) that hold all words of their number.

    So many words were `begun` with, and are not in the rows.
    """
    due = [[*french(n), "<eos>"][begun:] for n in numbers]
    pairs = zip(map(in_words, written), due, strict=True)
    return sum(row == wanted for row, wanted in pairs) / len(due)
