"""What must not matter: the future, padding, the other sentences."""

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from .drawing import draw_changes
from .hooks import ROUNDING, Place, close, parting
from .measures import FAINT, change, exactly, replace_word, spread
from .state import kept_buffers
from .subject import Batch, Fails, Subject, Suspect, Unknown
from .suspects import REMEMBERS, of_leak
from .verdict import BASIS, DECODES, property_check


@property_check(*BASIS, kinds=DECODES, rouse=True)
def causal(subject: Subject) -> str:
    """No logit depends on a target token after its position.

    Does not hold for a prefix language model, whose first tokens see each other; nor
    within the window of a model that writes several tokens at once. It is asked in
    double precision, where a masked token moves nothing at all: a billionth of the
    logits' spread passes for rounding, more in a model that `exactly` gives more.
    """
    batch = subject.sentences()
    with exactly(subject) as bar:
        changes = changes_by_word(subject, *batch)
        leaks = changes.triu(1)  # outputs before the changed position
        if not changes.any():
            raise Unknown("no token moves any logits, so that none could be seen early")
        if leaks.max() <= bar:
            return "no position's logits move when a later target token changes"
        changed, output = divmod(int(leaks.T.argmax()), len(leaks))
        place = _first_to_see(subject, batch, changed, bar)
    title = "Above the diagonal, outputs see the future"
    labels = "position of the logits", "changed target position"
    raise Fails(
        f"a new token at position {changed} moves the logits of position {output} by "
        f"{spread(leaks.max().item())}: it sees the future{place.first}",
        of_leak(subject, place, "future"),
        partial(
            draw_changes, changes, [str(i) for i in range(len(leaks))], title, *labels
        ),
    )


def _first_to_see(subject: Subject, batch: Batch, position: int, bar: float) -> Place:
    """The first module that lets a new token move what stands before it.

    bar is what passes for rounding in the logits, in their spread.
    """
    *source, target = batch
    before = {target.size(1): position}

    def same(one: Tensor, two: Tensor) -> bool | None:
        return close(_cut(one, before), _cut(two, before), min(bar, ROUNDING))

    other = *source, replace_word(subject, target, position)
    return parting(subject, batch, other, same)


def changes_by_word(subject: Subject, *batch: Tensor) -> Tensor:
    """Change of each position's logits (row) by a new token at each other (column)."""
    *source, target = batch
    before, length = subject.logits(*batch), target.size(1)
    changes = torch.zeros(length, length)  # output position × changed position
    for position in range(1, length):
        other = replace_word(subject, target, position)
        changes[:, position] = change(before, subject.logits(*source, other))[0].cpu()
    return changes


@property_check(*BASIS, rouse=True)
def padding_invariant(subject: Subject) -> str:
    """Padding on either side leaves the logits of the real tokens alone.

    PADs stand *behind* the words. In front of them they give every word a later
    position, and a model that counts positions from the start of the row must then
    answer otherwise, however good its masks are. A model that claims to bear them all
    the same, because its positions are relative or counted from the first word, is held
    to it: `left_padding=True`. It is asked in double precision; a hundred-thousandth of
    the logits' spread passes for rounding, a ten-thousandth where it does not run so.
    """
    batch, places = subject.sentences(), {"behind": (0, 3)}
    if subject.left_padding:
        places["before"] = (3, 0)
    with exactly(subject) as exact:
        before, moved, bar = subject.logits(*batch), {}, max(exact, FAINT)
        for place, pads in places.items():
            for name, side in zip(subject.sides, batch, strict=True):
                longer = F.pad(side, pads, value=subject.pad)
                padded = tuple(longer if s is side else s for s in batch)
                first = pads[0] if side is batch[-1] else 0
                after = subject.logits(*padded)[:, first : first + before.size(1)]
                moved[f"{place} the {name}"] = padded, change(before, after).cpu()
        for where, (padded, changes) in moved.items():
            if changes.max() <= bar:
                continue
            front = where.startswith("before")
            place = _first_to_mind(subject, batch, padded, in_front=front)
            raise Fails(
                f"three PADs {where} move the logits of real tokens by up to "
                f"{spread(changes.max().item())}{place.first}",
                of_leak(subject, place, "front" if front else "padding"),
                partial(
                    draw_changes,
                    torch.cat([found for _, found in moved.values()]),
                    [
                        f"{pads}, sentence {row}"
                        for pads in moved
                        for row in (1, 2, 3, 4)
                    ],
                    "Padding moves the logits of real tokens",
                    "where the PADs are",
                ),
            )
    sides = " or ".join(subject.sides)
    tried = " or ".join(sorted(places))
    return f"PADs {tried} {sides} do not move the logits of real tokens"


def _first_to_mind(
    subject: Subject, batch: Batch, padded: Batch, *, in_front: bool
) -> Place:
    """The first module at which padding moves what stands at real tokens.

    Positions may all be later by one number where the padding is in front.
    """
    sizes = {(a.size(1), b.size(1)) for a, b in zip(batch, padded, strict=True)}
    lengths = [(short, long) for short, long in sizes if short < long]

    def same(one: Tensor, two: Tensor) -> bool | None:
        for axis, (few, many) in enumerate(zip(one.shape, two.shape, strict=False)):
            for short, long in lengths:
                if few % short == 0 and few * long == many * short:
                    # As many streams of this length may stand behind each other.
                    streams = two.unflatten(axis, (-1, long))
                    start = long - short if in_front else 0
                    two = streams.narrow(axis + 1, start, short).flatten(axis, axis + 1)
        counts = not one.is_floating_point() and one.dtype != torch.bool
        if in_front and counts and one.shape == two.shape and one.numel():
            two = two - (two - one).flatten()[0]
        return close(one, two)

    return parting(subject, batch, padded, same)


@property_check(*BASIS, rouse=True)
def independent_of_neighbours(subject: Subject) -> str:
    """A sentence's logits do not depend on the words of the others in its batch.

    The sentences have different lengths: one whose mask is mixed up with another's is
    found only so. Alone, each keeps its PADs: whether those matter, `padding_invariant`
    asks. Does not hold for models that share capacity within a batch, as mixtures of
    experts that drop tokens. Precision and tolerance are those of `padding_invariant`.
    """
    batch = _of_four_lengths(subject)
    with exactly(subject) as exact:
        bar = max(exact, FAINT)
        with kept_buffers(subject.module):
            alone = torch.cat([subject.logits(*_row_of(batch, i)) for i in range(4)])
            together, again = (subject.logits(*batch) for _ in range(2))
        changes = change(alone, together)
        real = batch[-1] != subject.pad
        moved = changes.masked_fill(~real, 0.0)
        if moved.max() <= bar:
            return (
                "padded to one length, a sentence has the same logits alone and among "
                "others"
            )
        row = int(moved.amax(1).argmax())
        place = _first_to_mix(subject, batch, row)
        # `again` had the same batch before it, `fresh` none: does that matter?
        fresh = subject.logits(*_row_of(batch, row))
        late = change(together, again).max(), change(fresh, alone[row][None]).max()
        suspects = of_leak(subject, place, "batch")
        if max(late) > bar:
            suspects = [Suspect(place.where or "", REMEMBERS, place.method)]
    raise Fails(
        "the logits of a sentence alone and among others differ by "
        f"{spread(moved.max().item())}: sentences leak into each other{place.first}",
        suspects,
        partial(
            draw_changes,
            changes.masked_fill(~real, math.nan).cpu(),
            _lengths_in_words(subject, batch),
            "Its neighbours move a sentence's logits",
            "tokens of the sentence",
        ),
    )


def _first_to_mix(subject: Subject, batch: Batch, row: int) -> Place:
    """The first module at which the neighbours move a sentence."""
    words = {side.size(1): int((side[row] != subject.pad).sum()) for side in batch}

    def same(one: Tensor, two: Tensor) -> bool | None:
        sizes = zip(one.shape, two.shape, strict=False)
        for axis, (few, many) in enumerate(sizes):
            if many == len(batch[0]) * few:
                two = two.narrow(axis, row * few, few)
        return close(_cut(one, words), _cut(two, words))

    return parting(subject, _row_of(batch, row), batch, same)


def _of_four_lengths(subject: Subject) -> Batch:
    """A batch in which no two sentences have one length."""
    batch = subject.sentences()
    for name, side in zip(subject.sides, batch, strict=True):
        for row in range(4):
            side[row, 9 - row if name == "source" else 5 + row :] = subject.pad
    return batch


def _lengths_in_words(subject: Subject, batch: Batch) -> list[str]:
    """Each sentence's lengths, as "source 9, target 5"."""
    lengths = torch.stack([(side != subject.pad).sum(1) for side in batch], 1).tolist()
    return [
        ", ".join(f"{name} {n}" for name, n in zip(subject.sides, row, strict=True))
        for row in lengths
    ]


# --- Where two runs part --------------------------------------------------------------


def _row_of(batch: Batch, row: int) -> Batch:
    """A batch of one of its sentences."""
    return tuple(side[row : row + 1] for side in batch)


def _cut(tensor: Tensor, lengths: dict[int, int]) -> Tensor:
    """The tensor with the axes of these lengths cut to others."""
    for axis, size in enumerate(tensor.shape):
        tensor = tensor.narrow(axis, 0, lengths.get(size, size))
    return tensor
