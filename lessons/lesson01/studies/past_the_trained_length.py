"""Does a reader know who comes first at positions at which it was not trained?

Lesson 01's reader learns who comes first, a dog or a man, at positions below `trained`.
Then both stand beyond, as far again. The positions are sinusoids of 32 features, with
training on 6 to 28 positions; and, on 12 positions, binary digits, a learnt table and
the position itself in every feature.
The readers of sinusoids also answer with one clock hand, a pair of features, `held`:
beyond the trained positions it stops. No training follows.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call

from helpers.positions import positional_encoding
from lessons.lesson01.first_word import TRAINED, Reader, train_reader, who_is_first

RANGES, D_MODEL, HANDS = range(6, 29), 32, range(7)
SEEDS, MANY = range(5), range(24)  # MANY on TRAINED positions


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each table, range, seed and held hand; `tiny` takes 5 steps for one."""
    steps = 5 if tiny else 300
    for trained in [6] if tiny else RANGES:
        waves = positional_encoding(2 * trained, D_MODEL)
        for seed in [0] if tiny else MANY if trained == TRAINED else SEEDS:
            reader = train(waves, trained, seed, steps=steps)
            which = {"table": "waves", "trained": trained, "seed": seed}
            yield which | {"held": "none"} | right(reader, waves, trained)
            for hand in HANDS:
                table = held(waves, hand, trained)
                yield which | {"held": hand} | right(reader, table, trained)
    number = torch.arange(2.0 * TRAINED)[:, None].repeat(1, D_MODEL)
    tables = {"digits": digits(2 * TRAINED), "learnt": None, "number": number}
    for name, table in tables.items():
        for seed in [0] if tiny else MANY:
            reader = train(table, TRAINED, seed, steps=steps)
            which = {"table": name, "trained": TRAINED, "seed": seed, "held": "none"}
            yield which | right(reader, reader.positions.weight, TRAINED)


def digits(length: int) -> Tensor:
    """The binary digits of each position, ones first, and zeros behind them."""
    table = torch.zeros(length, D_MODEL)
    table[:, :7] = ((torch.arange(length)[:, None] >> torch.arange(7)) & 1).float()
    return table


def train(table: Tensor | None, trained: int, seed: int, *, steps: int) -> Reader:
    """A reader that has learnt who comes first, at positions below `trained`."""
    torch.manual_seed(seed)
    places = nn.Embedding(2 * trained, D_MODEL)
    if table is not None:
        places = nn.Embedding.from_pretrained(table)
    reader = Reader(nn.Embedding(2, D_MODEL), places, n_answers=2)
    return train_reader(reader, lambda: who_is_first(trained), steps=steps)


def held(waves: Tensor, hand: int, trained: int) -> Tensor:
    """The waves, with one hand that stops at the last trained position."""
    table, pair = waves.clone(), slice(2 * hand, 2 * hand + 2)
    table[trained:, pair] = table[trained - 1, pair]
    return table


@torch.no_grad()
def right(reader: Reader, table: Tensor, trained: int) -> dict[str, float]:
    """Shares of right answers by the number of words beyond the trained positions."""
    words, places, answers = who_is_first(2 * trained)
    scores = functional_call(reader, {"positions.weight": table}, (words, places))
    hits = (scores.argmax(dim=1) == answers).float()
    beyond = (places >= trained).sum(dim=1)
    names = ("within", "one_beyond", "beyond")
    shares = {name: hits[beyond == i].mean().item() for i, name in enumerate(names)}
    return {name: round(share, 4) for name, share in shares.items()}
