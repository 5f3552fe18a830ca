"""Other dtypes, the other mode, and a softmax over nothing."""

import re
import subprocess
import sys
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor, nn

from .first import check_finite
from .hooks import close, first_nan, parting, stops_at, trace
from .measures import Numbers, change, loss_of, spread, to_dtype, with_padding
from .state import converted, copied, in_mode, without_dropout
from .structure import MADE, is_attention, is_layer, is_norm
from .subject import MISMATCH, Batch, Fails, Subject, Suspect, Unknown, named
from .suspects import FILLED
from .verdict import BASIS, TOLERANCE, module_of, property_check

DTYPES = {torch.float64: 1e-3, torch.bfloat16: 0.5, torch.float16: 0.5}
NO_KERNEL = "not implemented for|[Uu]nsupported dtype"
TIES = 0.5  # from this tolerance on, a few positions may go elsewhere
TOO_LARGE = (
    "0 · -inf is NaN, or a number is too large for this dtype: is a mask made so?"
)
STAYS = "it leaves the model's dtype: a table that is no buffer, or `.float()`"
MADE_WIDE = "a mask or a table made in float32, whatever dtype the model has"
IDLE = "its dropout is made and not used: no forward calls it"
BATCH_NORM = "a batch norm: in train mode padding and neighbours move its mean"
OTHER = "in train mode it does another thing than in eval mode: a batch norm, for one"
UNFIT = "what it computes does not run in 16 bits"
OVERFLOWS = (
    "its softmax does not take the maximum away before `exp`, so that large scores "
    "overflow"
)
EMPTY = (
    "where every key is hidden its softmax over -inf is 0/0, NaN: fill with "
    "torch.finfo(scores.dtype).min, or set those weights to 0"
)


@property_check(*BASIS)
def dtype_moves(subject: Subject) -> str:
    """In double, bfloat16 and half precision it runs, and says about the same.

    Holds for every model; 16 bits may move three quarters of the logits by half their
    spread (a token may go to another expert), double all by a thousandth. What PyTorch
    cannot do on this device is left out, and what stops in double for another reason
    than two dtypes that meet.
    """
    module = module_of(subject)
    if not any(t.is_floating_point() for t in module.state_dict().values()):
        raise Unknown("nothing is registered that could be moved")
    batch = subject.sentences()
    before, tried = subject.logits(*batch), []
    for dtype, tolerance in DTYPES.items():
        if subject.device.type == "cpu" and not _survives(dtype):
            continue
        name = str(dtype).removeprefix("torch.")
        with converted(module, partial(to_dtype, dtype=dtype)):
            try:
                after = subject.logits(*batch)
            except Fails as failure:
                limit = not MISMATCH.search(str(failure))
                if dtype != torch.float64:
                    limit = re.search(NO_KERNEL, str(failure))
                if limit:
                    continue
                where = stops_at(subject, *batch, dtype=dtype)
                filled = "overflow" in str(failure)
                causes = [FILLED] if filled else [STAYS, MADE_WIDE]
                suspects = [Suspect(where, cause) for cause in causes]
                raise Fails(f"moved to {name}, {failure}", suspects) from failure
            when = f"moved to {name}"
            check_finite(subject, batch, after, when, TOO_LARGE)
        moved = change(before, after).flatten()
        worst = moved.max() if tolerance < TIES else moved.quantile(0.75)
        if not worst < tolerance:
            raise Fails(f"{when}, its logits differ by {spread(worst.item())}")
        tried.append(name)
    if not tried:
        raise Unknown("it can be moved to no other dtype here")
    return f"it runs in {', '.join(tried)}"


@cache
def _survives(dtype: torch.dtype) -> bool:
    """Whether a process multiplies in this dtype here and lives.

    Some virtual machines announce Intel's AMX and kill the process that uses it, as
    oneDNN does for bfloat16. So where it is announced, another process tries first.
    """
    machine, told = Path("/proc/cpuinfo"), ""
    if dtype == torch.bfloat16 and machine.exists():
        told = machine.read_text(encoding="utf-8", errors="replace")
    if "amx_bf16" not in told:
        return True
    code = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); x @ x"
    tried = subprocess.run([sys.executable, "-c", code], capture_output=True)
    return tried.returncode == 0


@property_check(*BASIS, rouse=True)
def modes_differ_by_dropout(subject: Subject) -> str:
    """Train and eval mode differ by dropout and nothing else, and by that they do.

    With every dropout at 0, both modes give the same logits; with the dropout that the
    model was made with, two runs in train mode differ. Does not hold for a batch norm.
    """
    module, batch = module_of(subject), subject.sentences()

    def busy() -> Tensor:
        with in_mode(module, training=True), torch.no_grad():
            return subject.call(subject.model, *batch)

    dropouts = [
        name
        for name, part in module.named_modules()
        if isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0
    ]
    if dropouts and torch.equal(busy(), busy()):
        raise Fails(
            f"{len(dropouts)} dropouts are set, and in train mode two runs are equal",
            [Suspect(name, IDLE) for name in (dropouts[0], "")],
        )
    with without_dropout(module):
        before, once, twice = subject.logits(*batch), busy(), busy()
        if not torch.equal(once, twice):
            raise Unknown(
                "with every dropout at 0, train mode is still random: a dropout that "
                "is not found, or noise of another kind"
            )
        moved = change(before, once).max().item()
        if moved <= TOLERANCE:
            return "with dropout at 0, train and eval mode give the same logits"
        where = parting(subject, batch, busy, close).where or ""
    norm = bool(where) and is_norm(module.get_submodule(where))
    raise Fails(
        f"with dropout at 0, train and eval mode differ by {spread(moved)}, first in "
        f"{named(where)}",
        [Suspect(where, BATCH_NORM if norm else OTHER)],
    )


@property_check("runs", "finite")
def finite_in_half_precision(subject: Subject) -> str:
    """With products in 16 bits, whose largest number is 65504, all stays finite.

    Under `torch.autocast`, with some padding. Holds for every model whose masks are
    made for the scores' own dtype. So that scores are as large as in a trained model,
    the weights of attention are then taken thirty times, in the model's own dtype: a
    softmax bears that if it takes the largest score away first.
    """
    batch = with_padding(subject, subject.sentences())
    with torch.autocast(subject.device.type, dtype=torch.float16):
        try:
            with Numbers() as numbers:
                logits = subject.logits(*batch)
        except Fails as failure:
            if MISMATCH.search(str(failure)):
                raise Unknown(f"{failure}: autocast mixes dtypes") from failure
            cause = FILLED if "overflow" in str(failure) else UNFIT
            suspects = [Suspect(stops_at(subject, *batch), cause)]
            raise Fails(str(failure), suspects) from failure
        check_finite(subject, batch, logits, "in half precision", FILLED)
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
            [Suspect(where, OVERFLOWS)],
        )
    return True


@property_check("runs", "finite")
def finite_without_source(subject: Subject) -> str:
    """A row of attention with every key hidden, as an empty source makes it, is finite.

    A softmax over nothing is 0/0. Neither the output nor a gradient may become NaN: one
    empty row would spoil the weights for all. A decoder or an encoder is given a
    sentence of nothing but PAD.
    """
    batch = subject.sentences()
    batch[0][1] = subject.pad
    what = "source" if subject.kind == "encoder-decoder" else "sentence"
    when = f"with a {what} of nothing but PAD"
    check_finite(subject, batch, subject.logits(*batch), when, EMPTY, pads=True)
    bad = _spoilt_gradients(subject, batch)
    if bad:
        raise Fails(
            f"a {what} of nothing but PAD makes gradients NaN, of {bad[-1]} and others",
            [Suspect(bad[-1].rpartition(".")[0], EMPTY)],
        )
    return f"{when} all stays finite"


def _spoilt_gradients(subject: Subject, batch: Batch) -> list[str]:
    """The parameters whose gradients are NaN although the empty row has no loss."""
    module, rest = subject.module, [0, 2, 3]
    if module is None:
        return []
    with in_mode(module, training=True), copied(module), torch.enable_grad():
        logits = subject.call(subject.model, *batch)
        if not logits.requires_grad:
            return []  # told by “all parameters learn”
        loss_of(logits[rest], batch[-1][rest]).backward()
        return [
            name
            for name, p in module.named_parameters()
            if p.grad is not None and not p.grad.isfinite().all()
        ]
