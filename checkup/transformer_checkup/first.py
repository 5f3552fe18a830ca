"""The first questions: does it run, is it finite, is it deterministic?

Where one of these fails, most others cannot be trusted and are not asked.
"""

import torch
from torch import Tensor

from transformer_checkup.hints import hint
from transformer_checkup.hooks import first_difference_of, first_nan, trace
from transformer_checkup.measures import change, spread
from transformer_checkup.subject import Fails, Subject, Suspect
from transformer_checkup.suspects import REMEMBERS
from transformer_checkup.verdict import property_check

NO_MODULE = (
    "no `module=` was given, so nothing is in eval mode, and a dropout still drops: "
    "give it, `Subject(function, …, module=my_model)`"
)


@property_check()
def runs(subject: Subject) -> str:
    """The model takes ids of its vocabularies and gives logits of the right shape.

    Holds for every model that is handed over in the form that `Subject` describes; all
    other checks rest on it.
    """
    source, target = subject.sentences()
    if source is not None:
        source[0, 1] = subject.source_vocab - 1  # the last word of all, too
    if target is not None:
        target[0, 1] = subject.target_vocab - 1
    try:
        subject.logits(source, target)
    except Fails as failure:
        more = hint(subject, failure)
        raise Fails(f"{failure}; {more}" if more else str(failure)) from failure
    return "it takes ids and gives logits of the right shape"


@property_check("runs")
def finite(subject: Subject) -> str:
    """Every logit is a number, with and without padding.

    Holds for every sound model. NaN and infinity spread to all that reads them, so no
    comparison says anything while this fails.
    """
    plain = subject.sentences()
    padded = [side if side is None else side.clone() for side in plain]
    for side in padded:
        if side is not None:
            side[1:, -2:] = subject.pad
    for batch, with_what in ((plain, "without padding"), (padded, "with padding")):
        logits = subject.logits(*batch)
        if subject.kind == "encoder-decoder":
            real = batch[1] != subject.pad
        else:
            real = next(side for side in batch if side is not None) != subject.pad
        if not logits[real].isfinite().all():
            raise Fails(
                f"{_rows(logits, real)} get NaN or infinity, {with_what}",
                suspects=_of_nan(first_nan(trace(subject, *batch))),
            )
    return "every logit is a number, with and without padding"


def _rows(logits: Tensor, real: Tensor) -> str:
    bad = (~logits.isfinite()).any(-1) & real
    return f"{int(bad.any(1).sum())} of {len(bad)} sentences"


def _of_nan(where: str | None) -> list[Suspect]:
    """What makes NaN of numbers."""
    mask = "a mask that is multiplied by -inf: 0 · -inf is NaN; use `masked_fill`"
    division = "0/0, a softmax over nothing, or a root or logarithm out of its range"
    return [Suspect(where or "", mask), Suspect(where or "", division)]


@property_check("runs", "finite", rouse=True)
def same_twice(subject: Subject) -> str:
    """In eval mode the same input gives the same output, to the last bit.

    Does not hold for models that draw at random on purpose, such as some mixtures of
    experts with noise. No other comparison can be trusted while it fails.
    """
    batch = subject.sentences()
    first, second = subject.logits(*batch), subject.logits(*batch)
    if largest := change(first, second).max().item():
        raise Fails(
            f"in eval mode two runs on one batch differ by {spread(largest)}: "
            "something is drawn at random, or remembered",
            suspects=_of_chance(subject, batch),
        )
    return "in eval mode two runs on one batch are equal"


def _of_chance(subject: Subject, batch: tuple[Tensor | None, ...]) -> list[Suspect]:
    """What differs from run to run."""
    if subject.module is None:
        return [Suspect("", NO_MODULE), Suspect("", REMEMBERS)]

    def same(one: Tensor, other: Tensor) -> bool | None:
        return None if one.shape != other.shape else bool(torch.equal(one, other))

    where = first_difference_of(trace(subject, *batch), trace(subject, *batch), same)
    drops = "dropout that `eval()` does not switch off, as `F.dropout(x, p)` alone"
    return [Suspect(where or "", drops), Suspect(where or "", REMEMBERS)]
