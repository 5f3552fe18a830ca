"""Which clock hand misleads a reader beyond the positions at which it was trained?

Lesson 01's reader learns who comes first, from sinusoids of 32 features, at positions
below 6, 12, 20 or 34. Then both words stand beyond, as far again. Each of the hands 0
to 6, a pair of features, is once absent from training and test.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from helpers.first_word import Reader, train_reader, who_is_first
from helpers.positions import positional_encoding

TRAINED, SEEDS = (6, 12, 20, 34), range(3)
REMOVED = ("none", 0, 1, 2, 3, 4, 5, 6)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each range, hand and seed; `tiny` takes 5 steps for one of each."""
    for trained in TRAINED[:1] if tiny else TRAINED:
        for removed in REMOVED[:1] if tiny else REMOVED:
            for seed in SEEDS[:1] if tiny else SEEDS:
                table = positional_encoding(2 * trained, 32)
                if removed != "none":
                    table[:, 2 * removed : 2 * removed + 2] = 0
                reader = train(table, trained, seed, steps=5 if tiny else 300)
                shares = right(reader, trained)
                yield {"trained": trained, "removed": removed, "seed": seed, **shares}


def train(table: Tensor, trained: int, seed: int, *, steps: int) -> Reader:
    """A reader that has learnt who comes first, at positions below `trained`."""
    torch.manual_seed(seed)
    places = nn.Embedding.from_pretrained(table)
    reader = Reader(nn.Embedding(2, table.size(1)), places, n_answers=2)
    return train_reader(reader, lambda: who_is_first(trained), steps=steps)


@torch.no_grad()
def right(reader: Reader, trained: int) -> dict[str, float]:
    """Shares of right answers with both words below `trained`, and both beyond."""
    words, places, answers = who_is_first(2 * trained)
    hits = (reader(words, places).argmax(dim=1) == answers).float()
    beyond = (places >= trained).sum(dim=1)
    shares = {"within": hits[beyond == 0].mean(), "beyond": hits[beyond == 2].mean()}
    return {name: round(share.item(), 4) for name, share in shares.items()}
