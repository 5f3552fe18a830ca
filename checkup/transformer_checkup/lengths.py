"""Sentences of any length, and of different ones on the two sides."""

from torch import nn

from .hooks import parting, stops_at
from .subject import TRIED, Batch, Fails, Subject, Suspect, Unknown
from .verdict import property_check

AXES = "an axis comes or goes with its size: a `squeeze()` that is not told which"
FIXED = "a mask or a table of fixed size, too short for longer sentences"
SHORT = "a table of positions that is too short"


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


def _too_long(subject: Subject, batch: Batch, failure: Fails) -> Fails | Unknown:
    """What to say of a model that stops: a fault, or the end of a learned table."""
    where, most = stops_at(subject, *batch), _limit(subject)
    if most == (subject.longest or TRIED):
        both = subject.kind == "encoder-decoder"
        others = "of one length on both sides" if both else "longer"
        said = f"{failure}; sentences {others} it does take"
        short = subject.sentences(5, 5, rows=2)
        where, method = parting(subject, short, batch, lambda x, y: x.dim() == y.dim())
        return Fails(said, [] if where is None else [Suspect(where, AXES, method)])
    if isinstance(failure.__cause__, ValueError) or _is_table(subject, where, most):
        at_most = f"it takes {most} tokens at most"
        if subject.longest is None:
            return Unknown(f"{at_most}: say longest={most} if so meant")
        asked = f"{at_most}, {subject.longest} were asked for"
        return Fails(asked, [Suspect(where, SHORT)])
    said = f"{failure}; {most} tokens are the most it takes"
    return Fails(said, [Suspect(where, FIXED)])


def _is_table(subject: Subject, where: str, most: int) -> bool:
    """Whether the model stopped in a learned table of about that many positions."""
    module = subject.module.get_submodule(where) if where else None
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
