"""At which module a leak first shows: two runs compared, where they ought to agree."""

from functools import partial

from torch import Tensor

from transformer_checkup.hooks import ROUNDING, along, close, first_difference_of, trace
from transformer_checkup.measures import replace_word
from transformer_checkup.subject import Subject, named

Batch = tuple[Tensor | None, Tensor | None]
PIECES = (1, 2, 3)  # as many streams of one length may stand behind each other


def first_to_see(
    subject: Subject, batch: Batch, position: int, bar: float
) -> str | None:
    """The first module that lets a new token move what stands before it.

    bar is what passes for rounding in the logits, in their spread.
    """
    source, target = batch
    other = replace_word(subject, target, position)
    length, equal = target.size(1), partial(close, rounding=min(bar, ROUNDING))

    def same(one: Tensor, two: Tensor) -> bool | None:
        if one.shape != two.shape:
            return None
        axis = 1 if one.dim() == 2 and one.size(1) == length else along(one, length)
        if axis is None:
            return None
        return equal(one.narrow(axis, 0, position), two.narrow(axis, 0, position))

    runs = trace(subject, source, target), trace(subject, source, other)
    return first_difference_of(*runs, same)


def first_to_mind(
    subject: Subject, batch: Batch, padded: Batch, bar: float, *, in_front: bool
) -> str | None:
    """The first module at which padding moves what stands at real tokens."""
    equal = partial(close, rounding=min(bar, ROUNDING))
    lengths = {
        s.size(1): p.size(1)
        for s, p in zip(batch, padded, strict=True)
        if s is not None
    }

    def same(one: Tensor, two: Tensor) -> bool | None:
        if one.dim() != two.dim() or one.dim() not in (2, 3):
            return None
        for axis in (1, 0) if one.dim() == 3 else (1,):
            sizes = one.size(axis), two.size(axis)
            for length, longer in lengths.items():
                if sizes not in [(n * length, n * longer) for n in PIECES]:
                    continue
                start = longer - length if in_front else 0
                one, two = (
                    t.unflatten(axis, (-1, n))
                    for t, n in ((one, length), (two, longer))
                )
                return equal(one, two.narrow(axis + 1, start, length))
        return None

    return first_difference_of(trace(subject, *batch), trace(subject, *padded), same)


def first_to_mix(subject: Subject, batch: Batch, row: int, bar: float) -> str | None:
    """The first module at which the neighbours move a sentence."""
    equal = partial(close, rounding=min(bar, ROUNDING))
    real = {
        side.size(1): int((side[row] != subject.pad).sum())
        for _, side in subject.sides(*batch)
    }

    def same(one: Tensor, two: Tensor) -> bool | None:
        if one.dim() == 2 and one.size(1) in real and len(one) == 1 and len(two) == 4:
            return equal(one, two[row : row + 1])
        axis = next((a for n in real if (a := along(one, n)) is not None), None)
        if axis is None or two.dim() != 3:
            return None
        length, rows = one.size(axis), one.size(1 - axis)
        if two.size(1 - axis) == 4 * rows:
            two = two.narrow(1 - axis, row * rows, rows)
        if one.shape != two.shape:
            return None
        words = real[length]
        return equal(one.narrow(axis, 0, words), two.narrow(axis, 0, words))

    runs = trace(subject, *row_of(batch, row)), trace(subject, *batch)
    return first_difference_of(*runs, same)


def row_of(batch: Batch, row: int) -> Batch:
    """A batch of one of its sentences."""
    return tuple(side if side is None else side[row : row + 1] for side in batch)


def first_in(where: str | None) -> str:
    """The end of a sentence that names a module."""
    return f", first in {named(where)}" if where else ""
