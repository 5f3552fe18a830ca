"""Does decoding, with caches and beams, say what the run of all tokens at once says?"""

from functools import partial

import torch
from torch import Tensor

from .hooks import Place, close, parting
from .leaks import changes_by_word
from .measures import change, spread
from .state import in_mode
from .subject import Batch, Fails, Subject, Suspect, Unknown
from .verdict import BASIS, DECODES, TOLERANCE, property_check

# From which row each goes on, before one step after the other, again and again.
PARENTS = ((0, 1, 2, 3), (1, 1, 0, 2), (3, 0, 0, 1), (2, 2, 3, 0))

ANEW = (
    "step by step it does otherwise: positions that start anew with the cache, a cache "
    "that is shifted or overwritten, or a mask that only one of the two runs gets"
)
FRONT = (
    "in the steps, positions are not counted from each row's first word, or a mask "
    "leaves the padding in front out: one position for all rows of a batch?"
)
BEAMS = (
    "when beams are reordered, its cache is not, or not all of it: each row must go on "
    "from the past of its parent (`index_select` on the batch's axis)"
)
FUTURE = "all at once it sees the future, which no step can"


@property_check(*BASIS, kinds=DECODES, rouse=True)
def steps_equal_parallel(subject: Subject) -> str:
    """Decoding token by token gives the logits of all tokens at once.

    Whoever claims to bear padding in front bears it in the steps, too. And `beams` give
    each row the logits of its own past, wherever that stood before: the batch is put in
    another order before each step. Holds for every model whose caches are right.
    """
    if subject.steps is None and subject.beams is None:
        raise Unknown("no `steps` given")
    batch = subject.sentences()
    if subject.steps is not None:
        _compare(subject, batch, "", ANEW)
        if subject.left_padding and subject.kind == "decoder":
            padded = batch[0].clone()
            for row in range(len(padded)):
                padded[row, :row] = subject.pad
            _compare(subject, (padded,), "padded in front, ", FRONT)
    if subject.beams is not None:
        _compare_beams(subject, *batch)
    return "step by step and all at once the logits are the same"


def _compare(subject: Subject, batch: Batch, when: str, cause: str) -> None:
    """Raise Fails if the steps give other logits at a word."""
    changes = _changes(subject, batch)
    wrong = (changes > TOLERANCE).any(0).nonzero()
    if len(wrong):
        if changes_by_word(subject, *subject.sentences()).triu(1).max() > TOLERANCE:
            suspects = [Suspect("", FUTURE)]
        else:
            where, method = _first_to_part(subject, batch, int(wrong[0]))
            suspects = [Suspect(where or "", cause, method), Suspect("", cause)]
        raise Fails(
            f"step by step, {when}the logits differ by up to "
            f"{spread(changes.max().item())}, first at position {int(wrong[0])}",
            list(dict.fromkeys(suspects)),
        )


def _changes(subject: Subject, batch: Batch) -> Tensor:
    """How far the steps' logits are from those of all tokens at once, at words."""
    moved = change(subject.logits(*batch), _run(subject, "steps", *batch))
    return moved.masked_fill(batch[-1] == subject.pad, 0.0)


def _run(subject: Subject, name: str, *batch: Tensor, more: Batch = ()) -> Tensor:
    """What `steps` or `beams` give, in eval mode."""
    function = getattr(subject, name)
    with in_mode(subject.module, training=False), torch.no_grad():
        try:
            return subject.call(lambda *sides: function(*sides, *more), *batch)
        except Fails as failure:
            said = str(failure).replace("the model", f"`{name}`", 1)
            raise Fails(said, failure.suspects) from failure


def _first_to_part(subject: Subject, batch: Batch, position: int) -> Place:
    """Where the last step parts from the run all at once, of the shortest beginning.

    A step has the last positions of what all tokens at once have.
    """
    *source, target = batch
    for length in range(position + 1, target.size(1) + 1):
        begun = *source, target[:, :length]
        if _changes(subject, begun).max() > TOLERANCE:
            break

    def same(one: Tensor, other: Tensor) -> bool | None:
        if one.dim() != other.dim():
            return None
        for axis, sizes in enumerate(zip(one.shape, other.shape, strict=True)):
            one, other = (
                t.narrow(axis, t.size(axis) - min(sizes), min(sizes))
                for t in (one, other)
            )
        return close(one, other, TOLERANCE)

    return parting(subject, begun, partial(_run, subject, "steps", *begun), same)


def _compare_beams(subject: Subject, *batch: Tensor) -> None:
    """Raise Fails if a row's logits are not those of its own past."""
    *source, target = batch
    order = [PARENTS[step % len(PARENTS)] for step in range(target.size(1))]
    parents = torch.tensor(order, device=target.device).T
    source = [side[:1].expand(len(target), -1) for side in source]  # all beams' one
    past = [target[:, :1]]
    for step in range(1, target.size(1)):
        before = past[-1][parents[:, step]]
        past.append(torch.cat([before, target[:, step : step + 1]], 1))
    due = torch.cat([subject.logits(*source, p)[:, -1:] for p in past], 1)
    found = _run(subject, "beams", *source, target, more=(parents,))
    worst = change(due, found).max().item()
    if worst > TOLERANCE:
        raise Fails(
            "with beams that change their places, the logits differ by up to "
            f"{spread(worst)} from those of each beam's own past",
            [Suspect("", BEAMS)],
        )
