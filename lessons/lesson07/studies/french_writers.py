"""Writers of French numbers: which can write, and what does a wrong word do to them?

Each is trained on 800 numbers below 1000 and measured on the 200 others: the loss with
true words to read, the share written right, and the share of rests written right after
a true first word and after a wrong one. `stops` is the share of true beginnings after
which it says <eos>. One without the mask is trained on every prefix as a row.

In training, a tenth of the words are replaced by random ones, or a tenth of words or
digits hidden as <unk>; the control hides a tenth of the words behind the first.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from helpers import EOS, PAD, UNK
from helpers.masks import decoder_mask, padding_mask
from lessons.lesson07.french import (
    WORDS,
    batch_of,
    beginnings,
    share_right,
    split_numbers,
    unshifted,
)
from lessons.lesson07.writer import (
    NumberWriter,
    next_word_loss,
    train_writer,
    write_words,
)


def replaced(ids: Tensor, *, hidden: bool = True, after: int = 0) -> Tensor:
    """Replace a tenth of ids (batch, length), those in front of `after` excepted.

    By <unk> or, if not `hidden`, by random words.
    """
    random_words = torch.randint(4, len(WORDS), ids.shape)
    hit = (torch.rand(ids.shape) < 0.1) & (ids >= 4)  # no <bos>, no <pad>
    hit &= torch.arange(ids.size(1), device=ids.device) >= after
    return torch.where(hit, UNK if hidden else random_words, ids)


def prefixes(numbers: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """As batch_of, but a row for every prefix of what is read."""
    source, read, say = batch_of(numbers)
    place = torch.arange(read.size(1))
    cut = [
        (source[long], read[long] * (place < end), say[long] * (place < end))
        for end in range(1, read.size(1) + 1)
        for long in [read[:, end - 1] != PAD]  # PAD is 0
    ]
    source, read, say = map(torch.cat, zip(*cut, strict=True))
    return source, read, say


class Changed(NumberWriter):
    """A writer whose source, or whose words to read, are changed in training."""

    def __init__(
        self,
        mask_of: Callable = decoder_mask,
        *,
        source: Callable[[Tensor], Tensor] = lambda source: source,
        read: Callable[[Tensor], Tensor] = lambda read: read,
    ):
        super().__init__(mask_of)
        self.changes = source, read

    def forward(self, source: Tensor, read: Tensor) -> Tensor:
        """Shapes as in NumberWriter.forward."""
        if self.training:
            source, read = self.changes[0](source), self.changes[1](read)
        return super().forward(source, read)


KINDS = {
    "as it should be": {},
    "without the shift": {"data_of": unshifted},
    "without the mask": {"mask_of": padding_mask},
    "each prefix a row": {"mask_of": padding_mask, "data_of": prefixes},
    "wrong words": {"read": partial(replaced, hidden=False)},
    "hidden words": {"read": replaced},
    "hidden digits": {"source": replaced},
    "hidden later words": {"read": partial(replaced, after=2)},
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
    seed: int, *, data_of: Callable = batch_of, steps: int = 300, **changes: Callable
) -> dict:
    """Train one writer, and what is measured of it."""
    trained, held_out = split_numbers()
    torch.manual_seed(seed)
    writer = Changed(**changes)
    with torch.enable_grad():
        train_writer(writer, data_of(trained), steps=steps)
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
    last = [writer(source, read[:, :end])[:, -1].argmax(-1) for end in ends]
    words = (say != PAD) & (say != EOS)
    stops = (torch.stack(last, dim=1) == EOS)[words].float().mean()
    found["stops"] = stops.item()
    return {name: round(value, 4) for name, value in found.items()}
