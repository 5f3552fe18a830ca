"""What follows when the model moves to another dtype, or to the other mode."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch
from torch import Tensor, nn

from transformer_checkup.hooks import (
    Call,
    close,
    first_difference_of,
    first_nan,
    recorded,
    trace,
)
from transformer_checkup.hooks import where_it_stops as stops_at
from transformer_checkup.leaks import BASIS
from transformer_checkup.limits import check_finite
from transformer_checkup.measures import change, spread
from transformer_checkup.state import converted, in_mode, without_dropout
from transformer_checkup.structure import is_norm
from transformer_checkup.subject import (
    MISMATCH,
    Fails,
    Subject,
    Suspect,
    Unknown,
    named,
)
from transformer_checkup.suspects import FILLED
from transformer_checkup.verdict import TOLERANCE, module_of, property_check

TIES = 0.5  # from this tolerance on, a few positions may go elsewhere
TOO_LARGE = (
    "0 · -inf is NaN, or a number is too large for this dtype: is a mask made so?"
)
DTYPES = {torch.float64: 1e-3, torch.bfloat16: 0.5, torch.float16: 0.5}


@property_check(*BASIS)
def dtype_moves(subject: Subject) -> str:
    """In double, bfloat16 and half precision it runs, and says about the same.

    Holds for every model; bfloat16 and half may move three quarters of the logits by
    half their spread (a token whose experts were about equal may go to others), double
    moves all by a thousandth. What PyTorch cannot do on this device is left out, and so
    is what stops in double for another reason than two dtypes that meet.
    """
    module = module_of(subject)
    batch = subject.sentences()
    before, tried = subject.logits(*batch), []
    if not any(t.is_floating_point() for t in module.state_dict().values()):
        raise Unknown("nothing is registered that could be moved")
    for dtype, tolerance in DTYPES.items():
        if subject.device.type == "cpu" and not _survives(dtype):
            continue
        name = str(dtype).removeprefix("torch.")
        with converted(
            module, lambda t, d=dtype: t.to(d) if t.is_floating_point() else t
        ):
            try:
                after = subject.logits(*batch)
            except Fails as failure:
                if _is_a_limit(str(failure), dtype):
                    continue
                raise Fails(
                    f"moved to {name}, {failure}",
                    suspects=_of_dtype(
                        stops_at(subject, *batch, dtype=dtype), str(failure)
                    ),
                ) from failure
            if not after.isfinite().all():
                where = first_nan(trace(subject, *batch))
                real = torch.ones_like(after[..., 0], dtype=torch.bool)
                check_finite(after, real, f"moved to {name},", where, TOO_LARGE)
        moved = change(before, after).flatten()
        worst = moved.max() if tolerance < TIES else moved.quantile(0.75)
        if not worst < tolerance:
            raise Fails(f"moved to {name}, its logits differ by {spread(worst.item())}")
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
    machine = Path("/proc/cpuinfo")
    if dtype != torch.bfloat16 or not machine.exists():
        return True
    if "amx_bf16" not in machine.read_text(encoding="utf-8", errors="replace"):
        return True
    code = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); x @ x"
    tried = subprocess.run([sys.executable, "-c", code], capture_output=True)
    return tried.returncode == 0


def _is_a_limit(error: str, dtype: torch.dtype) -> bool:
    """Whether an error is that of a kernel which knows no such dtype."""
    if dtype == torch.float64:
        return not MISMATCH.search(error)
    return bool(re.search("not implemented for|[Uu]nsupported dtype", error))


def _of_dtype(where: str | None, error: str) -> list[Suspect]:
    """What does not follow to another dtype."""
    if "overflow" in error:
        return [Suspect(where or "", FILLED)]
    stays = "it leaves the model's dtype: a table that is no buffer, or `.float()`"
    made = "a mask or a table made in float32, whatever dtype the model has"
    return [Suspect(where or "", stays), Suspect(where or "", made)]


@property_check(*BASIS, rouse=True)
def modes_differ_by_dropout(subject: Subject) -> str:
    """Train and eval mode differ by dropout and nothing else, and by that they do.

    With every dropout at 0, both modes give the same logits; with the dropout that the
    model was made with, two runs in train mode differ. Does not hold for a batch norm,
    which has no place in a Transformer: padding and neighbours move its mean.
    """
    module = module_of(subject)
    batch = subject.sentences()
    _drops_in_train_mode(subject, module, batch)
    with without_dropout(module):
        before = subject.logits(*batch)
        once, twice = (_in_train_mode(subject, batch) for _ in range(2))
    if not torch.equal(once, twice):
        raise Unknown(
            "with every dropout at 0, train mode is still random: a dropout that is "
            "not found, or noise of another kind"
        )
    moved = change(before, once).max().item()
    if moved <= TOLERANCE:
        return "with dropout at 0, train and eval mode give the same logits"
    with without_dropout(module):
        calm, busy = trace(subject, *batch), _train_trace(subject, batch)
    where = first_difference_of(calm, busy, close) or ""
    raise Fails(
        f"with dropout at 0, train and eval mode differ by {spread(moved)}, first in "
        f"{named(where)}",
        suspects=[Suspect(where, BATCH_NORM if _is_norm(module, where) else OTHER)],
    )


BATCH_NORM = "a batch norm: in train mode padding and neighbours move its mean"
OTHER = "in train mode it does another thing than in eval mode: a batch norm, for one"


def _is_norm(module: nn.Module, where: str) -> bool:
    return bool(where) and is_norm(module.get_submodule(where))


def _drops_in_train_mode(subject: Subject, module: nn.Module, batch: tuple) -> None:
    """Raise Fails if dropouts are made and two runs in train mode are equal."""
    dropouts = [
        name
        for name, part in module.named_modules()
        if isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0
    ]
    first, second = (_in_train_mode(subject, batch) for _ in range(2))
    if dropouts and torch.equal(first, second):
        idle = "its dropout is made and not used: no forward calls it"
        raise Fails(
            f"{len(dropouts)} dropouts are set, and in train mode two runs are equal",
            suspects=[Suspect(name, idle) for name in (dropouts[0], "")],
        )


def _in_train_mode(subject: Subject, batch: tuple) -> Tensor:
    """The logits in train mode."""
    with in_mode(subject.module, training=True), torch.no_grad():
        return subject.call(subject.model, *batch)


def _train_trace(subject: Subject, batch: tuple) -> list[Call]:
    """All calls of a run in train mode."""
    with recorded(subject.module) as (finished, _):
        _in_train_mode(subject, batch)
    return finished
