"""Writers of French numbers: who can write, and what does a wrong word do to them?

Each is trained on 800 numbers below 1000 and measured on the 200 others: the loss on
rows like those of its training, and the share written right. `stops` is the share of
true beginnings after which it says <eos>, though a word is due. `swapped` is the share
of words said right in one pass over the true words, where the digits to read are those
of another number. For numbers from 200 whose tens are at least 2 and differ from the
hundreds: the share of rests written right after the true first word, and after that of
another hundred; and the share whose tens are the hundreds digit again, after the word
of another hundred, of the tens digit, and of the ones digit (where this is at least 2
and differs from the hundreds).

One writer without the causal mask gets every prefix as a row, in four times the steps.
In training, a tenth of the words are replaced by random ones, or a tenth of those
behind the first are hidden as <unk>.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from helpers import EOS, PAD, UNK
from helpers.masks import decoder_mask, padding_mask
from lessons.lesson07.french import (
    WORDS,
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


def replaced(ids: Tensor, *, hidden: bool = True, after: int = 0) -> Tensor:
    """Replace a tenth of ids (batch, length), those in front of `after` excepted.

    By <unk> or, if not `hidden`, by random words.
    """
    random_words = torch.randint(4, len(WORDS), ids.shape)
    hit = (torch.rand(ids.shape) < 0.1) & (ids >= 4)  # no <bos>, no <pad>
    hit &= torch.arange(ids.size(1), device=ids.device) >= after
    return torch.where(hit, UNK if hidden else random_words, ids)


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


class Changed(NumberWriter):
    """A writer whose words to read are changed in training."""

    def __init__(
        self,
        mask_of: Callable = decoder_mask,
        change: Callable[[Tensor], Tensor] = lambda read: read,
    ):
        super().__init__(mask_of)
        self.change = change

    def forward(self, source: Tensor, read: Tensor) -> Tensor:
        """Shapes as in NumberWriter.forward."""
        return super().forward(source, self.change(read) if self.training else read)


KINDS = {
    "as it should be": {},
    "without the shift": {"data_of": unshifted},
    "without the mask": {"mask_of": padding_mask},
    "each prefix a row": {
        "mask_of": padding_mask,
        "data_of": prefixes,
        "steps": 1200,
    },
    "random words": {"change": partial(replaced, hidden=False)},
    "hidden later words": {"change": partial(replaced, after=2)},
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
def own_loss(writer: NumberWriter, source: Tensor, read: Tensor, say: Tensor) -> float:
    """The loss on rows like those of its training."""
    return next_word_loss(writer(source, read), say).item()


@torch.no_grad()
def measure(
    seed: int, *, data_of: Callable = shifted, steps: int = 300, **changes: Callable
) -> dict:
    """Train one writer, and what is measured of it."""
    trained, held_out = split_numbers()
    torch.manual_seed(seed)
    writer = Changed(**changes)
    with torch.enable_grad():
        train_writer(writer, data_of(trained), steps=steps)
    own_rows = data_of(held_out)
    source, read, say = shifted(held_out)
    written = greedy_decode(writer, source, max_length=8)
    found = {
        "loss": own_loss(writer, *own_rows),
        "right": share_right(written, held_out),
    }
    ends = range(1, read.size(1) + 1)
    last = [writer(source, read[:, :end])[:, -1].argmax(-1) for end in ends]
    words = (say != PAD) & (say != EOS)
    stops = (torch.stack(last, dim=1) == EOS)[words].float().mean()
    found["stops"] = stops.item()
    given = own_rows[0].roll(1, dims=0)
    said = writer(given, own_rows[1]).argmax(-1)
    words = own_rows[2] != PAD
    found["swapped"] = (said == own_rows[2])[words].float().mean().item()
    some = [n for n in held_out if n >= 200 and n // 10 % 10 not in (0, 1, n // 100)]
    for first in ("true", "another", "tens", "ones"):
        if first == "ones":
            some = [n for n in some if n % 10 not in (0, 1, n // 100)]
        written = go_on(writer, digits_of(some), beginnings(some, first))
        if first in ("true", "another"):
            found[f"after_{first}"] = share_right(written, some, begun=1)
        if first != "true":
            twice = [n + 10 * (n // 100 - n // 10 % 10) for n in some]
            found[f"repeats_{first}"] = share_right(written, twice, begun=1)
    return {name: round(value, 4) for name, value in found.items()}
