"""What modules and functions take and give, and the first at which two runs part.

Where the inputs of a call agree and its outputs do not, the difference is made. What
arises between modules is told of the module around them, "" for the whole model. Hooks
see modules; what their `forward` calls, be it a method, a lambda or a function beside
the class, is seen by Python's own profiler.
"""

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .state import in_mode
from .subject import Batch, Fails, Subject, named

# Rounding moves a module's output by about a millionth of its spread.
ROUNDING = 1e-5
# Where the functions live that are nobody's suspects, beside Python's own.
FOREIGN = tuple(str(Path(file).parent) for file in (torch.__file__, __file__))
PYTHON = str(Path(inspect.__file__).parent)
GENERATOR = inspect.CO_GENERATOR | inspect.CO_COROUTINE
STARRED = (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)


@dataclass
class Call:
    """One call of the submodule `name`, or of a function in it."""

    name: str
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    function: str = ""


class Place(NamedTuple):
    """A module's name, "" between modules, and the function in it; None: no module."""

    where: str | None
    method: str = ""

    @property
    def first(self) -> str:
        """The end of a sentence that names the module."""
        return f", first in {named(self.where)}" if self.where else ""


def tensors_in(value: object) -> Iterator[Tensor]:
    """The tensors of an argument or output, whatever containers they come in."""
    if isinstance(value, Tensor):
        yield value.detach().clone()
    if isinstance(value, dict):
        value = [*value.values()]
    if isinstance(value, list | tuple):
        for part in value:
            yield from tensors_in(part)


# --- Recording a run ------------------------------------------------------------------


@contextmanager
def recorded(module: nn.Module) -> Iterator[tuple[list[Call], list[Call]]]:
    """The modules' calls that finish during a block, and those still running."""
    finished: list[Call] = []
    running: list[Call] = []

    def enter(name: str, _: nn.Module, arguments: tuple, keywords: dict) -> None:
        running.append(Call(name, [*tensors_in([arguments, keywords])]))

    def leave(_: nn.Module, __: tuple, output: object) -> None:
        call = running.pop()
        call.outputs = [*tensors_in(output)]
        finished.append(call)

    hooks = []
    for name, part in module.named_modules():
        started = partial(enter, name)
        hooks.append(part.register_forward_pre_hook(started, with_kwargs=True))
        hooks.append(part.register_forward_hook(leave))
    try:
        yield finished, running
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def recorded_functions(running: list[Call]) -> Iterator[list[Call]]:
    """The functions that return during a block, each in the module that is running."""
    finished: list[Call] = []
    open_calls: list[tuple[FrameType, Call]] = []

    def note(frame: FrameType, event: str, result: object) -> None:
        code = frame.f_code
        if event == "call" and _is_own(code):
            given = [*tensors_in([frame.f_locals.get(n) for n in _arguments(code)])]
            where = running[-1].name if running else ""
            line = f"{Path(code.co_filename).name}:{code.co_firstlineno}"
            call = Call(where, given, function=f"{code.co_name} ({line})")
            open_calls.append((frame, call))
        elif event == "return" and open_calls and open_calls[-1][0] is frame:
            call = open_calls.pop()[1]
            call.outputs = [*tensors_in(result)]
            finished.append(call)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield finished
    finally:
        sys.setprofile(before)


def _is_own(code: CodeType) -> bool:
    """Whether a function is the model's, and is done when it returns."""
    file, name = code.co_filename, code.co_name
    if file.startswith(PYTHON) and "-packages" not in file:
        return False
    waits = code.co_flags & GENERATOR or name.startswith(("<list", "<dict", "<set"))
    return not waits and not file.startswith(FOREIGN)


def _arguments(code: CodeType) -> tuple[str, ...]:
    """The names of a function's arguments."""
    stars = sum(bool(code.co_flags & star) for star in STARRED)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]


def trace(subject: Subject, *batch: Tensor) -> list[Call]:
    """All calls of modules in a run in eval mode; none for a model without a module."""
    if subject.module is None:
        return []
    with recorded(subject.module) as (finished, _):
        subject.logits(*batch)
    return finished


@contextmanager
def disturbed(part: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """change(output) in place of a module's output, of the first tensor of several."""

    def after(_: nn.Module, __: tuple, output: object) -> object:
        if isinstance(output, Tensor):
            return change(output)
        if isinstance(output, tuple) and isinstance(output[0], Tensor):
            return (change(output[0]), *output[1:])
        return None

    hook = part.register_forward_hook(after)
    try:
        yield
    finally:
        hook.remove()


# --- Where it goes wrong --------------------------------------------------------------

Same = Callable[[Tensor, Tensor], bool | None]


def parting(
    subject: Subject, one: Batch | Callable, other: Batch | Callable, same: Same
) -> Place:
    """Where two runs part: the first module, and the first function in it.

    A run is a batch for the model, or a function without arguments. same(x, y) says
    whether tensors agree where they should, None where they cannot be compared.
    """
    if subject.module is None:
        return Place(None)
    modules, functions = [], []
    for run in (one, other):
        with (
            recorded(subject.module) as (finished, running),
            recorded_functions(running) as returned,
            suppress(Fails),
        ):
            run() if callable(run) else subject.logits(*run)
        modules.append(finished)
        functions.append(returned)
    found = first_difference_of(*modules, same)
    if found is None:
        return Place(None)

    def of_rows(one: Tensor, other: Tensor) -> bool | None:
        """Of numbers and rows nobody knows to which token they belong."""
        return same(one, other) if min(one.dim(), other.dim()) > 1 else None

    inside = first_difference_of(*functions, of_rows) or Call("")
    fits = not found.name or f"{inside.name}.".startswith(f"{found.name}.")
    return Place(found.name, inside.function if fits else "")


def first_difference_of(
    before: Sequence[Call], after: Sequence[Call], same: Same
) -> Call | None:
    """The first call that turns equal inputs into different outputs.

    None if nothing differs; a call of "" if no call's inputs agree.
    """
    parted = False
    for call, other in _paired(before, after):
        if not _agree(call.outputs, other.outputs, same):
            if _agree(call.inputs, other.inputs, same):
                return call
            parted = True
    return Call("") if parted else None


def _paired(before: Sequence[Call], after: Sequence[Call]) -> list[tuple[Call, Call]]:
    """The same call of both runs: the n-th from the end of its module or function."""
    rest: dict[tuple[str, str], list[Call]] = {}
    for call in after:
        rest.setdefault((call.name, call.function), []).append(call)
    pairs = []
    for call in reversed(before):
        if others := rest.get((call.name, call.function)):
            pairs.append((call, others.pop()))
    return pairs[::-1]


def _agree(ours: list[Tensor], theirs: list[Tensor], same: Same) -> bool:
    return all(same(a, b) is not False for a, b in zip(ours, theirs, strict=False))


def close(one: Tensor, other: Tensor, rounding: float = ROUNDING) -> bool | None:
    """Whether two tensors are equal up to rounding; None for different shapes.

    rounding is a share of the mean size of the first.
    """
    if one.shape != other.shape:
        return None
    if not one.is_floating_point():
        return torch.equal(one, other)
    if not one.numel():
        return True
    finite = one.isfinite() & other.isfinite()
    if not torch.equal(one.isnan(), other.isnan()):
        return False
    change = (one - other).abs()[finite]
    scale = one[finite].float().abs().mean() if finite.any() else torch.tensor(0.0)
    return not change.numel() or bool(change.max() <= rounding * scale.clamp(min=1e-6))


def along(tensor: Tensor, length: int) -> int | None:
    """The axis of (batch, length, …), or (length, batch, …), that is the length."""
    if tensor.dim() != 3:
        return None
    return next((axis for axis in (1, 0) if tensor.size(axis) == length), None)


def has_states(tensors: list[Tensor], length: int) -> bool:
    """Whether one of these has positions of this number."""
    return any(along(t, length) is not None for t in tensors)


def first_nan(calls: list[Call]) -> str | None:
    """The first module that makes NaN of inputs without."""
    for call in calls:
        made, had = (
            any(t.isnan().any() for t in tensors if t.is_floating_point())
            for tensors in (call.outputs, call.inputs)
        )
        if made and not had:
            return call.name
    return "" if any(t.isnan().any() for c in calls for t in c.outputs) else None


def stops_at(subject: Subject, *batch: Tensor, dtype: torch.dtype | None = None) -> str:
    """The innermost module that is running when the model stops; "" if none is.

    With a dtype: the first module before it, if any, whose output has another one,
    although none of its inputs had.
    """
    if subject.module is None:
        return ""

    def others(tensors: list[Tensor]) -> bool:
        return any(t.is_floating_point() and t.dtype != dtype for t in tensors)

    with recorded(subject.module) as (finished, running):
        try:
            subject.logits(*batch)
        except Fails:
            for call in finished if dtype else ():
                if others(call.outputs) and not others(call.inputs):
                    return call.name
            return running[-1].name if running else ""
    return ""


# --- Beside a reference ---------------------------------------------------------------


def outputs(module: nn.Module, source: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Each submodule's first output, by name, in the order in which they finish."""
    with (
        recorded(module) as (finished, _),
        in_mode(module, training=False),
        torch.no_grad(),
    ):
        module(source, target)
    kept: dict[str, Tensor] = {}
    for call in finished:
        if call.outputs:
            kept.setdefault(call.name, call.outputs[0])
    return kept


def first_difference(
    module: nn.Module, reference: nn.Module, source: Tensor, target: Tensor
) -> str:
    """The first submodule whose output is not that of the reference, by name.

    The reference is sound and has the module's weights. "none" if all outputs agree.
    """
    ours, due = outputs(module, source, target), outputs(reference, source, target)
    for name in due:
        if name not in ours:
            return f"{name} is missing"
        if not torch.allclose(ours[name], due[name], atol=1e-4):
            return name
    return "none"
