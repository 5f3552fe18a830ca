"""Sentences of any length, and of different ones on the two sides."""

from contextlib import suppress

from torch import nn

from transformer_checkup.hooks import first_difference_of, recorded
from transformer_checkup.hooks import where_it_stops as stops_at
from transformer_checkup.subject import TRIED, Fails, Subject, Suspect, Unknown
from transformer_checkup.verdict import property_check

PAIR = "encoder-decoder"


@property_check("runs", "finite")
def length_generic(subject: Subject) -> str:
    """The model takes sentences of any length, and of different ones on its sides.

    Up to `longest`, or 40 where that is not given. A learned table of positions has an
    end, and a model may refuse longer sentences by a ValueError: then ○ says how long
    they may be, if no `longest` was given. A mask of fixed size is a fault.
    """
    longest = subject.longest or TRIED
    for lengths in ((1, 1), (1, 5), (6, 2), (longest, 3), (2, longest)):
        batch = subject.sentences(*lengths, rows=2)
        try:
            logits = subject.logits(*batch)
        except Fails as failure:
            raise _too_long(subject, batch, failure) from failure
        if not logits.isfinite().all():
            raise Fails(f"for lengths {lengths} (source, target) not all are finite")
    return f"it takes every pair of lengths that was tried, from 1 to {longest}"


def _too_long(subject: Subject, batch: tuple, failure: Fails) -> Fails | Unknown:
    """What to say of a model that stops: a fault, or the end of a learned table."""
    where, most = stops_at(subject, *batch) or "", _limit(subject)
    if most == (subject.longest or TRIED):
        others = "of one length on both sides" if subject.kind == PAIR else "longer"
        return Fails(
            f"{failure}; sentences {others} it does take",
            suspects=_of_axes(subject, batch),
        )
    if isinstance(failure.__cause__, ValueError) or _is_table(subject, where, most):
        at_most = f"it takes {most} tokens at most"
        if subject.longest is None:
            return Unknown(f"{at_most}: say longest={most} if so meant")
        short = Suspect(where, "a table of positions that is too short")
        return Fails(f"{at_most}, {subject.longest} were asked for", suspects=[short])
    fixed = "a mask or a table of fixed size, too short for longer sentences"
    return Fails(
        f"{failure}; {most} tokens are the most it takes",
        suspects=[Suspect(where, fixed)],
    )


def _of_axes(subject: Subject, batch: tuple) -> list[Suspect]:
    """The module that gives another number of axes than for sentences of five."""
    if subject.module is None:
        return []
    runs = []
    for tried in (subject.sentences(5, 5, rows=2), batch):
        with recorded(subject.module) as (finished, _), suppress(Fails):
            subject.logits(*tried)
        runs.append(finished)
    where = first_difference_of(*runs, lambda one, two: one.dim() == two.dim())
    cause = "an axis comes or goes with its size: a `squeeze()` that is not told which"
    return [] if where is None else [Suspect(where, cause)]


def _is_table(subject: Subject, where: str, most: int) -> bool:
    """Whether the model stopped in a learned table of about that many positions."""
    if not where:
        return False
    module = subject.module.get_submodule(where)
    return isinstance(module, nn.Embedding) and 0 <= module.num_embeddings - most <= 2


def _limit(subject: Subject) -> int:
    """How long the sentences of both sides may be, found by halving."""
    fits, fails = 0, (subject.longest or TRIED) + 1
    while fails - fits > 1:
        middle = (fits + fails) // 2
        try:
            subject.logits(*subject.sentences(middle, middle, rows=2))
            fits = middle
        except Fails:
            fails = middle
    return fits
