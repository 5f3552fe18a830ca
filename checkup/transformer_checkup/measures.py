"""How changes are measured and said, and the batches that are compared."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from .subject import Batch, Subject
from .verdict import TOLERANCE, if_it_runs

# A model with faint weights moves its logits by order, or by a leak, far less than by
# words; double precision tells that from rounding.
FAINT = 1e-5
EXACT = 1e-9


def change(before: Tensor, after: Tensor) -> Tensor:
    """Largest change at each position (batch, length), in the logits' spread.

    NaN counts as infinite, so that it passes for no equality.
    """
    wide = torch.promote_types(before.dtype, torch.float32)
    before, after = before.to(wide), after.to(wide)
    moved = (after - before).abs().amax(-1) / before.std().clamp(min=1e-12)
    return moved.nan_to_num(nan=math.inf, posinf=math.inf)


def spread(moved: float) -> str:
    """A change in words."""
    return f"≈ {moved:.2g} of their spread"


def replace_word(subject: Subject, target: Tensor, position: int) -> Tensor:
    """The target with another word at `position` of the first sentence."""
    other, words = target.clone(), target[:1, position]
    other[0, position] = subject.next_words(words, subject.target_vocab)[0]
    return other


def other_words(subject: Subject, batch: Batch) -> Batch:
    """The batch with other words in all places but the first."""
    return tuple(
        torch.cat([side[:, :1], subject.next_words(side[:, 1:], size)], 1)
        for side, size in zip(batch, subject.sides.values(), strict=True)
    )


def loss_of(logits: Tensor, tokens: Tensor) -> Tensor:
    """Mean cross-entropy against the next token of each; the first follows the last.

    As an end mark any fixed id will do. States that are no logits are read by a fixed
    random vector, so that they have a gradient at all.
    """
    if logits.size(-1) <= tokens.max():
        weights = torch.linspace(-1, 1, logits.size(-1), device=logits.device)
        return (logits.float() * weights.cos()).square().mean()
    labels = tokens.roll(-1, dims=1)
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def with_padding(subject: Subject, batch: Batch) -> Batch:
    """The batch with two PADs at the end of all its sentences but the first."""
    padded = tuple(side.clone() for side in batch)
    for side in padded:
        side[1:, -2:] = subject.pad
    return padded


@contextmanager
def exactly(subject: Subject) -> Iterator[float]:
    """A block in double precision, if the model can; gives what passes for rounding.

    In double precision throughout that is a billionth of the logits' spread. A model
    that takes smaller numbers on the way, as some do in a norm or a softmax, is given
    a hundred-thousandth, one that does not run in double a ten-thousandth.
    """
    if subject.module is None:
        yield TOLERANCE
        return
    with if_it_runs(subject, to_dtype) as runs:
        with Numbers() as numbers:
            subject.logits(*subject.sentences())
        exact = EXACT if numbers.seen <= {torch.float64} else FAINT
        yield exact if runs else TOLERANCE


class Numbers(TorchFunctionMode):
    """Sees in which floating-point dtypes functions give their results."""

    def __init__(self):
        super().__init__()
        self.seen: set[torch.dtype] = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):  # noqa: ANN001
        given = function(*args, **(kwargs or {}))
        found = given if isinstance(given, list | tuple) else [given]
        tensors = [t for t in found if isinstance(t, Tensor) and t.is_floating_point()]
        self.seen |= {t.dtype for t in tensors}
        return given


def to_dtype(tensor: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """A tensor of floating-point numbers in this dtype, any other as it is."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
