"""Numbers at their limits: 16 bits, and a softmax over nothing."""

from contextlib import suppress

import torch
from torch import Tensor

from transformer_checkup.hooks import first_nan, trace
from transformer_checkup.hooks import where_it_stops as stops_at
from transformer_checkup.measures import Numbers, loss_of, written
from transformer_checkup.state import converted, in_mode, own_gradients
from transformer_checkup.structure import MADE, is_attention, is_layer
from transformer_checkup.subject import (
    MISMATCH,
    Fails,
    Subject,
    Suspect,
    Unknown,
    named,
)
from transformer_checkup.suspects import FILLED
from transformer_checkup.verdict import property_check

EMPTY = (
    "where every key is hidden its softmax over -inf is 0/0, NaN: fill with "
    "torch.finfo(scores.dtype).min, or set those weights to 0"
)

UNFIT = "what it computes does not run in 16 bits"
OVERFLOWS = (
    "its softmax does not take the maximum away before `exp`, so that large scores "
    "overflow"
)


@property_check("runs", "finite")
def finite_in_half_precision(subject: Subject) -> str:
    """With products in 16 bits, whose largest number is 65504, all stays finite.

    Under `torch.autocast`, with some padding. Holds for every model whose masks are
    made for the scores' own dtype. So that scores are as large as in a trained model,
    the weights of attention are then taken thirty times, in the model's own dtype: a
    softmax bears that if it takes the largest score away first. PyTorch's fast path
    for eval mode is off: it stops there on a CPU, and the model is not to blame.
    """
    source, target = subject.sentences()
    for side in (source, target if source is None else None):
        if side is not None:
            side[1:, -2:] = subject.pad
    with torch.autocast(subject.device.type, dtype=torch.float16):
        try:
            with Numbers() as numbers:
                logits = subject.logits(source, target)
        except Fails as failure:
            if MISMATCH.search(str(failure)):
                raise Unknown(f"{failure}: autocast mixes dtypes") from failure
            where = stops_at(subject, source, target) or ""
            cause = FILLED if "overflow" in str(failure) else UNFIT
            raise Fails(str(failure), suspects=[Suspect(where, cause)]) from failure
        where = first_nan(trace(subject, source, target))
    real = written(subject, (source, target)) != subject.pad
    check_finite(logits, real, "in half precision", where, FILLED)
    made_large = _check_large_scores(subject)
    if torch.float16 not in numbers.seen:
        raise Unknown("autocast finds nothing in it that it would make in 16 bits")
    if not made_large:
        raise Unknown("finite, but no attention is found whose scores could be large")
    return "in half precision every logit is finite"


def _check_large_scores(subject: Subject) -> bool:
    """Raise Fails if an attention with weights thirty times as large makes NaN.

    False if no attention's weights are found.
    """
    if subject.module is None:
        return True  # whoever gives none is told so by others
    parts = [*subject.module.named_modules()]
    attentions = [(name, part) for name, part in parts if is_attention(name, part)]
    loud = {
        id(p)
        for name, part in attentions
        for inner, p in part.named_parameters()
        if not is_layer(part) or MADE.fullmatch(inner.partition(".")[0].lower())
    }
    if not loud:
        return False
    where = None
    with (
        converted(subject.module, lambda t: 30 * t if id(t) in loud else t),
        suppress(Fails),
    ):
        where = first_nan(trace(subject, *subject.sentences()))
    inside = any(f"{where}.".startswith(f"{name}.") for name, _ in attentions)
    if where == "" or inside:
        raise Fails(
            "with the weights of attention thirty times as large, as training may make "
            f"them, it makes NaN, first in {named(where)}",
            suspects=[Suspect(where, OVERFLOWS)],
        )
    return True


@property_check("runs", "finite")
def finite_without_source(subject: Subject) -> str:
    """A row of attention with every key hidden, as an empty source makes it, is finite.

    A softmax over nothing is 0/0. Neither the output nor a gradient may become NaN: one
    empty row would spoil the weights for all. A decoder or an encoder is given a
    sentence of nothing but PAD. PyTorch's fast path for eval mode is off: it gives NaN
    there, and the same module does not in training.
    """
    source, target = batch = subject.sentences()
    (target if source is None else source)[1] = subject.pad
    what = "source" if subject.kind == "encoder-decoder" else "sentence"
    when = f"with a {what} of nothing but PAD"
    logits = subject.logits(*batch)
    others = torch.ones_like(logits[..., 0], dtype=torch.bool)
    where = first_nan(trace(subject, *batch))
    check_finite(logits, others, when, where, EMPTY)
    if subject.module is not None:
        _check_gradients(subject, batch, what)
    return f"{when} all stays finite"


def _check_gradients(subject: Subject, batch: tuple, what: str) -> None:
    module, rest = subject.module, [0, 2, 3]
    with in_mode(module, training=True), own_gradients(module), torch.enable_grad():
        logits = subject.call(subject.model, *batch)
        if not logits.requires_grad:
            return  # told by “all parameters learn”
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


def check_finite(
    logits: Tensor, real: Tensor, when: str, where: str | None, cause: str
) -> None:
    """Raise Fails if a logit at a real token is not finite."""
    bad = ~logits.isfinite() & real[..., None]
    if bad.any():
        count = int(bad.flatten(1).any(1).sum())
        place = f", first in {named(where)}" if where else ""
        raise Fails(
            f"{when} {count} of {len(bad)} sentences get NaN or infinity{place}",
            suspects=[Suspect(where or "", cause)],
        )
