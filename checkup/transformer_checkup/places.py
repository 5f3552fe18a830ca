"""At which module a leak first shows: two runs compared, where they ought to agree."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from transformer_checkup.hooks import (
    ROUNDING,
    Same,
    along,
    close,
    first_difference_of,
    trace,
)
from transformer_checkup.measures import replace_word
from transformer_checkup.methods import first_function
from transformer_checkup.subject import Subject, named

Batch = tuple[Tensor | None, Tensor | None]
PIECES = (1, 2, 3)  # as many streams of one length may stand behind each other


class Place(NamedTuple):
    """A module's name, "" between modules, and the function in it; None: no module."""

    where: str | None
    method: str = ""


def first_to_see(subject: Subject, batch: Batch, position: int, bar: float) -> Place:
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

    def inside(one: Tensor, two: Tensor) -> bool | None:
        return equal(*(_cut(t, {length: position}) for t in (one, two)))

    return _place(subject, batch, (source, other), same, inside)


def _place(
    subject: Subject, one: Batch, other: Batch, same: Same, inside: Same
) -> Place:
    """Where two batches part: the module, and of the functions in it the first."""
    where = first_difference_of(trace(subject, *one), trace(subject, *other), same)
    if where is None:
        return Place(None)
    runs = (partial(subject.logits, *one), partial(subject.logits, *other))
    call = first_function(subject.module, runs, inside)
    fits = call is not None and f"{call.where}.".startswith(f"{where}.")
    return Place(where, call.name if fits or (call and not where) else "")


def _cut(tensor: Tensor, lengths: dict[int, int], start: int = 0) -> Tensor:
    """The tensor with the axes of these lengths, but the first, cut to others."""
    for axis in range(1, tensor.dim()):
        if tensor.size(axis) in lengths:
            tensor = tensor.narrow(axis, start, lengths[tensor.size(axis)])
    return tensor


def first_to_mind(
    subject: Subject, batch: Batch, padded: Batch, bar: float, *, in_front: bool
) -> Place:
    """The first module at which padding moves what stands at real tokens.

    Positions may all be later by one number where the padding is in front.
    """
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
                two = two.narrow(axis + 1, start, length)
                if in_front and not one.is_floating_point() and one.dtype != torch.bool:
                    two = two - (two - one).flatten()[0]
                return equal(one, two)
        return None

    def inside(one: Tensor, two: Tensor) -> bool | None:
        for length, longer in lengths.items():
            start = longer - length if in_front else 0
            two = _cut(two, {longer: length}, start) if length != longer else two
        return equal(one, two)

    return _place(subject, batch, padded, same, inside)


def first_to_mix(subject: Subject, batch: Batch, row: int, bar: float) -> Place:
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

    def inside(one: Tensor, two: Tensor) -> bool | None:
        two = two[row : row + 1] if two.dim() > 1 and len(two) == 4 else two
        return equal(_cut(one, real), _cut(two, real))

    return _place(subject, row_of(batch, row), batch, same, inside)


def row_of(batch: Batch, row: int) -> Batch:
    """A batch of one of its sentences."""
    return tuple(side if side is None else side[row : row + 1] for side in batch)


def first_in(place: Place) -> str:
    """The end of a sentence that names a module."""
    return f", first in {named(place.where)}" if place.where else ""
