"""Numbers at their limits: 16 bits, and a softmax over nothing."""

import torch
from torch import Tensor

from helpers import PAD
from helpers.debugger.hooks import first_nan, trace
from helpers.debugger.hooks import where_it_stops as stops_at
from helpers.debugger.measures import loss_of, written
from helpers.debugger.state import in_mode, own_gradients
from helpers.debugger.subject import Fails, Subject, Suspect, named
from helpers.debugger.suspects import FILLED
from helpers.debugger.verdict import property_check

EMPTY = (
    "where every key is hidden its softmax over -inf is 0/0, NaN: fill with "
    "torch.finfo(scores.dtype).min, or set those weights to 0"
)


@property_check("runs", "finite")
def finite_in_half_precision(subject: Subject) -> str:
    """With products in 16 bits, whose largest number is 65504, all stays finite.

    Under `torch.autocast`, with some padding. Holds for every model whose masks are
    made for the scores' own dtype. PyTorch's fast path for eval mode is off: it stops
    there on a CPU, and the model is not to blame.
    """
    source, target = subject.sentences()
    for side in (source, target if source is None else None):
        if side is not None:
            side[1:, -2:] = PAD
    with torch.autocast(subject.device.type, dtype=torch.float16):
        try:
            logits = subject.logits(source, target)
        except Fails as failure:
            where = stops_at(subject, source, target) or ""
            raise Fails(str(failure), suspects=[Suspect(where, FILLED)]) from failure
        where = first_nan(trace(subject, source, target))
    real = written(subject, (source, target)) != PAD
    _check_finite(logits, real, "in half precision", where, FILLED)
    return "in half precision every logit is finite"


@property_check("runs", "finite")
def finite_without_source(subject: Subject) -> str:
    """A row of attention with every key hidden, as an empty source makes it, is finite.

    A softmax over nothing is 0/0. Neither the output nor a gradient may become NaN: one
    empty row would spoil the weights for all. A decoder or an encoder is given a
    sentence of nothing but PAD. PyTorch's fast path for eval mode is off: it gives NaN
    there, and the same module does not in training.
    """
    source, target = batch = subject.sentences()
    (target if source is None else source)[1] = PAD
    what = "source" if subject.kind == "encoder-decoder" else "sentence"
    when = f"with a {what} of nothing but PAD"
    logits = subject.logits(*batch)
    others = torch.ones_like(logits[..., 0], dtype=torch.bool)
    where = first_nan(trace(subject, *batch))
    _check_finite(logits, others, when, where, EMPTY)
    if subject.module is not None:
        _check_gradients(subject, batch, what)
    return f"{when} all stays finite"


def _check_gradients(subject: Subject, batch: tuple, what: str) -> None:
    module, rest = subject.module, [0, 2, 3]
    with in_mode(module, training=True), own_gradients(module), torch.enable_grad():
        logits = subject.call(subject.model, *batch)
        loss_of(logits[rest], written(subject, batch)[rest]).backward()
        bad = [
            name
            for name, p in module.named_parameters()
            if p.grad is not None and not p.grad.isfinite().all()
        ]
    if bad:
        raise Fails(
            f"a {what} of nothing but PAD makes gradients NaN, of {bad[-1]} and others",
            suspects=[Suspect(bad[-1].rpartition(".")[0], EMPTY)],
        )


def _check_finite(
    logits: Tensor, real: Tensor, when: str, where: str | None, cause: str
) -> None:
    bad = ~logits.isfinite() & real[..., None]
    if bad.any():
        count = int(bad.flatten(1).any(1).sum())
        place = f", first in {named(where)}" if where else ""
        raise Fails(
            f"{when} {count} of {len(bad)} sentences get NaN or infinity{place}",
            suspects=[Suspect(where or "", cause)],
        )
