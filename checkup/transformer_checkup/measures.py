"""How changes are measured and said, and the batches that are compared."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from transformer_checkup.state import converted
from transformer_checkup.subject import Fails, Subject
from transformer_checkup.verdict import TOLERANCE

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


def about(values: Tensor) -> str:
    """The largest of some values, in words."""
    return f"≈ {values.max().item():.2f}"


def replace_word(subject: Subject, target: Tensor, position: int) -> Tensor:
    """The target with another word at `position` of the first sentence."""
    other, words = target.clone(), target[:1, position]
    other[0, position] = subject.next_words(words, subject.target_vocab)[0]
    return other


def other_words(subject: Subject, side: Tensor, vocab: int) -> Tensor:
    """Other words in all places but the first."""
    return torch.cat([side[:, :1], subject.next_words(side[:, 1:], vocab)], 1)


def loss_of(logits: Tensor, tokens: Tensor) -> Tensor:
    """Mean cross-entropy against the next token of each; the first follows the last.

    As an end mark any fixed id will do. States that are no logits are read by a fixed
    random vector, so that they have a gradient at all.
    """
    if not _are_logits(logits, tokens):
        weights = torch.linspace(-1, 1, logits.size(-1), device=logits.device)
        return (logits.float() * weights.cos()).square().mean()
    labels = tokens.roll(-1, dims=1)
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def _are_logits(logits: Tensor, tokens: Tensor) -> bool:
    return logits.size(-1) > int(tokens.max())


def written(subject: Subject, batch: tuple[Tensor | None, Tensor | None]) -> Tensor:
    """The side at whose positions the logits stand."""
    return batch[0] if subject.kind == "encoder" else batch[1]


@contextmanager
def in_double(subject: Subject) -> Iterator[None]:
    """A block in which the model computes in double precision, if it can."""
    if subject.module is None or not _runs_in_double(subject):
        yield
        return
    with converted(subject.module, to_double):
        yield


@contextmanager
def exactly(subject: Subject) -> Iterator[float]:
    """A block as exact as the model computes; gives what passes for rounding in it.

    In double precision throughout that is a billionth of the logits' spread. A model
    that takes smaller numbers on the way, as some do in a norm or a softmax, is given
    a hundred-thousandth, one that does not run in double a ten-thousandth.
    """
    if subject.module is None or not _runs_in_double(subject):
        yield TOLERANCE
        return
    with converted(subject.module, to_double):
        with Numbers() as numbers:
            subject.logits(*subject.sentences())
        yield EXACT if numbers.seen <= {torch.float64} else FAINT


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


def to_double(tensor: Tensor) -> Tensor:
    """A tensor of floating-point numbers in double precision, any other as it is."""
    return tensor.double() if tensor.is_floating_point() else tensor


def _runs_in_double(subject: Subject) -> bool:
    with converted(subject.module, to_double):
        try:
            return bool(subject.logits(*subject.sentences()).isfinite().all())
        except Fails:
            return False
