"""Which half of the swapped cross mask leaves its mark on the weights?

The swapped mask of lesson 15 hides words of the source where the target is shorter, and
shows padding of the source where the target is longer. A small translator is trained
with neither, with both, and with one half alone; then the mask is mended, and the
weights stay. At last it writes with the mask that it was trained with, which a
translation's length decides before its first word is written.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from helpers import PAD
from helpers.batching import make_batch
from helpers.decoding import greedy_decode, until_end
from helpers.evaluation import exact_match
from helpers.training import evaluate_loss
from helpers.transformer import Transformer
from lessons.lesson15.patients import (
    OneLength,
    SidesSwapped,
    share_right,
    short_sentences,
    train_short,
    visible,
)

SEEDS = range(5)
LONGEST = 20  # tokens of a translation


class HidesWords(OneLength):
    """Hides what the swapped mask hides, and shows no padding of the source."""

    def cross_mask(self, target: Tensor, source: Tensor) -> Tensor:
        """True where source and target both have a word."""
        return visible(source, target) & visible(target, source)


class ShowsPadding(OneLength):
    """Shows what the swapped mask shows, and hides no word of the source."""

    def cross_mask(self, target: Tensor, source: Tensor) -> Tensor:
        """True where source or target has a word."""
        return visible(source, target) | visible(target, source)


MASKS = {
    "nothing changed": OneLength,
    "both halves": SidesSwapped,
    "hides words": HidesWords,
    "shows padding": ShowsPadding,
}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """Rows for each mask and seed; `tiny`: one epoch with one mask."""
    for seed in [0] if tiny else SEEDS:
        for mask in ["shows padding"] if tiny else MASKS:
            yield learn(mask, seed, epochs=1 if tiny else 4)


def learn(mask: str, seed: int, epochs: int) -> dict:
    """Train with this mask, and measure before the mend and after it.

    `right` is the share of held-out sentences that are translated exactly, `loss` that
    of each of 100 in a batch of its own, in nats per token. `right_as_trained` is the
    share with the mask of training, see there.
    """
    model = train_short(MASKS[mask], seed=seed, epochs=epochs).model
    found = {"mask": mask, "seed": seed}
    found |= {"right": round(share_right(model), 3), "loss": loss_alone(model)}
    found |= {"right_as_trained": round(right_as_trained(model), 3)}
    model.__class__ = OneLength
    found |= {"right_mended": round(share_right(model), 3)}
    return found | {"loss_mended": loss_alone(model)}


def loss_alone(model: Transformer) -> float:
    """The loss of single sentences: of padding, only what a longer target adds."""
    unseen = short_sentences().held_out[:100]
    tokens = [len(target) + 1 for _, target in unseen]
    losses = [evaluate_loss(model, [pair]) for pair in unseen]
    total = sum(n * loss for n, loss in zip(tokens, losses, strict=True))
    return round(total / sum(tokens), 3)


def right_as_trained(model: OneLength) -> float:
    """The share that is right if the cross mask is that of training, at every step.

    It is made from the source and the translation that is due: of this, its length.
    """
    held_out = short_sentences().held_out
    source = make_batch(held_out).source
    source = F.pad(source, (0, LONGEST - source.size(1)), value=PAD)
    lengths = torch.tensor([len(target) + 1 for _, target in held_out])
    due = torch.where(torch.arange(LONGEST) < lengths[:, None], PAD + 1, PAD)
    kind = type(model)

    class Foretold(kind):
        def cross_mask(self, target: Tensor, source: Tensor) -> Tensor:
            return super().cross_mask(due, source)

    model.__class__ = Foretold
    written = greedy_decode(model, source, max_length=LONGEST)
    model.__class__ = kind
    said = [until_end(ids) for ids in written.tolist()]
    return exact_match(said, [target for _, target in held_out])
