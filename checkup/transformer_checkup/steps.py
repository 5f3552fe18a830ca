"""Does decoding, with caches and beams, say what the run of all tokens at once says?"""

from functools import partial
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_checkup.hooks import Call, close, first_difference_of, recorded, trace
from transformer_checkup.leaks import BASIS, DECODES, changes_by_word
from transformer_checkup.measures import change, spread
from transformer_checkup.methods import first_function
from transformer_checkup.state import in_mode
from transformer_checkup.subject import Fails, Subject, Suspect, Unknown
from transformer_checkup.verdict import TOLERANCE, property_check

Batch = tuple[Tensor | None, Tensor]
ROWS = (
    (0, 1, 2, 3),
    (1, 1, 0, 2),
    (3, 0, 0, 1),
    (2, 2, 3, 0),
)  # parents, again and again

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


@property_check(*BASIS, kinds=DECODES, rouse=True)
def steps_equal_parallel(subject: Subject) -> str:
    """Decoding token by token gives the logits of all tokens at once.

    Whoever claims to bear padding in front bears it in the steps, too. And `beams` give
    each row the logits of its own past, wherever that stood before: the batch is put in
    another order before each step. Holds for every model whose caches are right.
    """
    if subject.steps is None and subject.beams is None:
        raise Unknown("no `steps` given")
    source, target = subject.sentences()
    if subject.steps is not None:
        _compare(subject, (source, target), "", ANEW)
        if subject.left_padding and subject.kind == "decoder":
            padded = target.clone()
            for row in range(len(target)):
                padded[row, :row] = subject.pad
            _compare(subject, (None, padded), "padded in front, ", FRONT)
    if subject.beams is not None:
        _compare_beams(subject, source, target)
    return "step by step and all at once the logits are the same"


def _compare(subject: Subject, batch: Batch, when: str, cause: str) -> None:
    """Raise Fails if the steps give other logits at a word."""
    changes = change(subject.logits(*batch), _run(subject, subject.steps, *batch))
    wrong = (changes * (batch[1] != subject.pad) > TOLERANCE).any(0).nonzero()
    if len(wrong):
        raise Fails(
            f"step by step, {when}the logits differ by up to "
            f"{spread(changes[:, wrong].max().item())}, first at position "
            f"{int(wrong[0])}",
            suspects=_suspects(subject, batch, cause),
        )


def _run(subject: Subject, function: object, *batch: Tensor | None) -> Tensor:
    """What `steps` or `beams` give, in eval mode."""
    name = "steps" if function is subject.steps else "beams"
    with in_mode(subject.module, training=False), torch.no_grad():
        try:
            return subject.call(function, *batch)
        except Fails as failure:
            said = str(failure).replace("the model", f"`{name}`", 1)
            raise Fails(said, suspects=failure.suspects) from failure


def _compare_beams(subject: Subject, source: Tensor | None, target: Tensor) -> None:
    """Raise Fails if a row's logits are not those of its own past."""
    order = [ROWS[step % len(ROWS)] for step in range(target.size(1))]
    parents = torch.tensor(order, device=target.device).T
    if source is not None:  # all beams translate one sentence
        source = source[:1].expand(len(target), -1)
    past = [target[:, :1]]
    for step in range(1, target.size(1)):
        before = past[-1][parents[:, step]]
        past.append(torch.cat([before, target[:, step : step + 1]], 1))
    due = torch.cat([subject.logits(source, p)[:, -1:] for p in past], 1)
    found = _run(subject, lambda *sides: subject.beams(*sides, parents), source, target)
    worst = change(due, found).max().item()
    if worst > TOLERANCE:
        raise Fails(
            "with beams that change their places, the logits differ by up to "
            f"{spread(worst)} from those of each beam's own past",
            suspects=[Suspect("", BEAMS)],
        )


# --- Where the steps part from the run all at once ------------------------------------


def _suspects(subject: Subject, batch: Batch, cause: str) -> list[Suspect]:
    """The first module, and the first function in it, that does otherwise."""
    if changes_by_word(subject, *subject.sentences()).triu(1).max() > TOLERANCE:
        return [Suspect("", "all at once it sees the future, which no step can")]
    if subject.module is None:
        return [Suspect("", cause)]
    with recorded(subject.module) as (stepwise, _):
        _run(subject, subject.steps, *batch)
    align = partial(_aligned, length=batch[1].size(1))
    where = first_difference_of(*align(trace(subject, *batch), stepwise), _same) or ""
    runs = (
        lambda: subject.logits(*batch),
        lambda: _run(subject, subject.steps, *batch),
    )
    call = first_function(subject.module, runs, _same, align)
    first = [Suspect(call.where, cause, call.name)] if call else []
    return [*first, *(Suspect(w, cause) for w in dict.fromkeys((where, "")))]


def _same(one: Tensor, other: Tensor) -> bool | None:
    """Whether two tensors agree; of scores, those of keys that are not behind."""
    scores = one.dim() == 4 == other.dim() and one.is_floating_point()
    if scores and one.size(-1) == one.size(-2):
        one, other = one.tril(), other.tril()
    return close(one, other, TOLERANCE)


def _aligned(
    whole: list[Call], pieces: list[Call], length: int
) -> tuple[list[Call], list[Call]]:
    """The calls of both runs, those of the steps joined, one for each of the whole."""
    counts, by_name = {}, {}
    for call in whole:
        counts[call.name] = counts.get(call.name, 0) + 1
    for call in pieces:
        by_name.setdefault(call.name, []).append(call)
    joined, seen = [], {}
    for call in whole:
        number = seen[call.name] = seen.get(call.name, -1) + 1
        parts = by_name.get(call.name, [])[number :: counts[call.name]]
        if parts:
            sides = [(call.inputs, [p.inputs for p in parts])]
            sides.append((call.outputs, [p.outputs for p in parts]))
            made = [
                [_joined([*p], t, length) for t, *p in zip(due, *given, strict=False)]
                for due, given in sides
            ]
            joined.append(Call(call.name, *made, where=call.where))
    return whole, joined


def _joined(parts: list[Tensor], whole: Tensor, length: int) -> Tensor:
    """The steps' tensors as one of the whole's shape, if they are pieces of it."""
    if len(parts) == 1 or {p.dim() for p in (*parts, whole)} - {2, 3, 4}:
        return parts[-1]
    if len({p.dim() for p in (*parts, whole)}) > 1:
        return parts[-1]
    if all(p.shape == whole.shape for p in parts):  # all anew, padded to one length
        axis = -2 if whole.dim() > 3 and length <= whole.size(-2) else 1
        first, last = length - len(parts), len(parts) - 1
        rows = [min(max(0, i - first), last) for i in range(whole.size(axis))]
        taken = [parts[part].select(axis, i) for i, part in enumerate(rows)]
        return torch.stack(taken, axis)
    if whole.dim() == 4 and whole.size(-1) == whole.size(-2):  # of one key more a step
        missing = [(0, whole.size(-1) - p.size(-1)) for p in parts]
        known = [
            F.pad(torch.ones_like(p), m) for p, m in zip(parts, missing, strict=True)
        ]
        parts = [F.pad(p, m) for p, m in zip(parts, missing, strict=True)]
        rows, known = _cat(parts, 2, whole), _cat(known, 2, whole)
        fits = rows.shape == whole.shape
        return torch.where(known.bool(), rows, whole) if fits else rows
    for axis in range(1, whole.dim()):
        sizes = [p.size(axis) for p in parts]
        if sum(sizes) == whole.size(axis):
            return _cat(parts, axis, whole)
        if sizes == sorted({*sizes}) and sizes[-1] == whole.size(axis):  # all so far
            news = [sizes[0], *(b - a for a, b in pairwise(sizes))]
            tails = [
                p.narrow(axis, p.size(axis) - n, n)
                for p, n in zip(parts, news, strict=True)
            ]
            return _cat(tails, axis, whole)
    return parts[-1]


def _cat(parts: list[Tensor], axis: int, whole: Tensor) -> Tensor:
    """The pieces behind each other; the last one if they do not fit."""
    sizes = {(*p.shape[:axis], *p.shape[axis + 1 :]) for p in (*parts, whole)}
    return torch.cat(parts, axis) if len(sizes) == 1 else parts[-1]
