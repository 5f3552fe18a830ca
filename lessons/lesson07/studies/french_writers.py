"""Writers of French numbers: who can write, and what does a wrong word do to them?

Each is trained on 800 numbers below 1000 and measured on the 200 others: the loss on
rows like those of its training, and the share written right. `stops` is the share of
true beginnings after which it says <eos>, though a word is due. For numbers from 200
whose tens are at least 2 and differ from the hundreds: the share of rests written right
after the true first word, and after that of another hundred; and the share whose tens
are then the hundreds digit again.

One writer without the causal mask gets every prefix as a row, in four times the steps;
another gets these steps alone.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from helpers import EOS, PAD
from helpers.masks import padding_mask
from lessons.lesson07.french import (
    digits_of,
    share_right,
    shifted,
    split_numbers,
    unshifted,
)
from lessons.lesson07.writer import (
    NumberWriter,
    greedy_decode,
    next_word_loss,
    train_writer,
)
from lessons.lesson07.wrong_words import beginnings, go_on


def prefixes(numbers: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """As shifted, but a row for every prefix of what is read."""
    source, read, say = shifted(numbers)
    place = torch.arange(read.size(1))
    cut = [
        (source[long], read[long] * (place < end), say[long] * (place < end))
        for end in range(1, read.size(1) + 1)
        for long in [read[:, end - 1] != PAD]  # PAD is 0
    ]
    source, read, say = map(torch.cat, zip(*cut, strict=True))
    return source, read, say


KINDS = {
    "as it should be": {},
    "without the shift": {"data_of": unshifted},
    "without the mask": {"mask_of": padding_mask},
    "without it, 1,200 steps": {"mask_of": padding_mask, "steps": 1200},
    "each prefix a row": {"mask_of": padding_mask, "data_of": prefixes, "steps": 1200},
}
SEEDS = range(3)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each kind and seed; `tiny`: one seed of a few steps."""
    torch.set_num_threads(1)
    for seed in SEEDS[:1] if tiny else SEEDS:
        for kind, options in KINDS.items():
            steps = {"steps": 3} if tiny else {}
            yield {"kind": kind, "seed": seed} | measure(seed, **(options | steps))


@torch.no_grad()
def measure(
    seed: int, *, data_of: Callable = shifted, steps: int = 300, **options: Callable
) -> dict:
    """Train one writer, and what is measured of it."""
    trained, held_out = split_numbers()
    torch.manual_seed(seed)
    writer = NumberWriter(**options)
    with torch.enable_grad():
        train_writer(writer, data_of(trained), steps=steps)
    given, own_read, own_say = data_of(held_out)
    source, read, say = shifted(held_out)
    written = greedy_decode(writer, source, max_length=8)
    found = {
        "loss": next_word_loss(writer(given, own_read), own_say).item(),
        "right": share_right(written, held_out),
    }
    ends = range(1, read.size(1) + 1)
    last = [writer(source, read[:, :end])[:, -1].argmax(-1) for end in ends]
    words = (say != PAD) & (say != EOS)
    stops = (torch.stack(last, dim=1) == EOS)[words].float().mean()
    found["stops"] = stops.item()
    some = [n for n in held_out if n >= 200 and n // 10 % 10 not in (0, 1, n // 100)]
    twice = [n + 10 * (n // 100 - n // 10 % 10) for n in some]
    for first, true in (("true", True), ("another", False)):
        written = go_on(writer, digits_of(some), beginnings(some, true=true))
        found[f"after_{first}"] = share_right(written, some, begun=1)
    found["repeats_another"] = share_right(written, twice, begun=1)
    return {name: round(value, 4) for name, value in found.items()}
