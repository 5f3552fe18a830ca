"""Writers of French numbers: which can write, and what does a wrong word do to them?

Each is trained on 800 numbers below 1000 and measured on the 200 others: the loss with
true words to read, the share written right, and the share of rests written right after
a true first word and after a wrong one. `stops` is the share of true beginnings after
which it says <eos>; `last` and `one_more` are the shares of right words at the last
place of each beginning, and at the same place once one more true word can be read.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from helpers import EOS, PAD
from helpers.french import batch_of, beginnings, share_right, split_numbers, unshifted
from helpers.masks import decoder_mask, padding_mask
from helpers.writer import (
    NumberWriter,
    next_word_loss,
    train_writer,
    with_wrong_words,
    write_words,
)

KINDS = {
    "as it should be": {},
    "without the shift": {"data_of": unshifted},
    "without the mask": {"mask_of": padding_mask},
    "five times the steps": {"steps": 1500},
    "dropout 0.1": {"dropout": 0.1},
    "wrong words": {"change": with_wrong_words},
}
SEEDS = range(5)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each kind and seed; `tiny`: one seed of a few steps."""
    torch.set_num_threads(1)
    for seed in SEEDS[:1] if tiny else SEEDS:
        for kind, options in KINDS.items():
            steps = {"steps": 3} if tiny else {}
            yield {"kind": kind, "seed": seed} | measure(seed, **(options | steps))


@torch.no_grad()
def measure(
    seed: int,
    *,
    data_of: Callable = batch_of,
    mask_of: Callable = decoder_mask,
    dropout: float = 0.0,
    **options: Any,
) -> dict:
    """Train one writer, and what is measured of it."""
    trained, held_out = split_numbers()
    torch.manual_seed(seed)
    writer = NumberWriter(mask_of, dropout=dropout)
    with torch.enable_grad():
        train_writer(writer, data_of(trained), **options)
    source, read, say = batch_of(held_out)
    found = {
        "loss": next_word_loss(writer, data_of(held_out)).item(),
        "right": share_right(write_words(writer, source), held_out),
    }
    long = [n for n in held_out if n >= 200]
    for name, wrong in (("after_true", False), ("after_wrong", True)):
        start = beginnings(long, wrong=wrong)
        rest = write_words(writer, batch_of(long)[0], start=start)
        found[name] = share_right(rest, long, begun=1)
    ends = range(1, read.size(1) + 1)
    passes = [writer(source, read[:, :end]).argmax(-1) for end in ends]
    last = torch.stack([said[:, -1] for said in passes], dim=1)
    one_more = torch.stack([said[:, -2] for said in passes[1:]], dim=1)
    words = (say != PAD) & (say != EOS)
    found |= {
        "stops": _share(last == EOS, words),
        "last": _share(last == say, words),
        "one_more": _share(one_more == say[:, :-1], words[:, :-1]),
    }
    return {name: round(value, 4) for name, value in found.items()}


def _share(right: Tensor, where: Tensor) -> float:
    return right[where].float().mean().item()
