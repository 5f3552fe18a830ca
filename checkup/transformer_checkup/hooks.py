"""What submodules take and give, and the first at which two runs part.

`trace` keeps every call of a run, in the order in which they finish. Of two traces,
`first_difference_of` names the innermost module whose inputs agree and whose outputs do
not: there the difference is made. What arises between modules is told of the module
around them, "" for the whole model.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from transformer_checkup.subject import Fails, Subject

# Rounding moves a module's output by about a millionth of its spread.
ROUNDING = 1e-5


@dataclass
class Call:
    """One call of a submodule, or of a function in the submodule `where`."""

    name: str
    inputs: list[Tensor]
    outputs: list[Tensor] = field(default_factory=list)
    where: str = ""


def tensors_in(value: object) -> Iterator[Tensor]:
    """The tensors of an argument or output, whatever containers they come in."""
    if isinstance(value, Tensor):
        yield value.detach().clone()
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from tensors_in(part)


@contextmanager
def recorded(module: nn.Module) -> Iterator[tuple[list[Call], list[Call]]]:
    """The calls that finish during a block, and those that are still running."""
    finished: list[Call] = []
    running: list[Call] = []

    def before(name: str) -> Callable:
        def enter(_: nn.Module, arguments: tuple, named: dict) -> None:
            running.append(Call(name, [*tensors_in(arguments), *tensors_in(named)]))

        return enter

    def after(_: nn.Module, __: tuple, output: object) -> None:
        call = running.pop()
        call.outputs = [*tensors_in(output)]
        finished.append(call)

    hooks = []
    for name, part in module.named_modules():
        hooks.append(part.register_forward_pre_hook(before(name), with_kwargs=True))
        hooks.append(part.register_forward_hook(after))
    try:
        yield finished, running
    finally:
        for hook in hooks:
            hook.remove()


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


def trace(subject: Subject, *batch: Tensor | None) -> list[Call]:
    """All calls of a run in eval mode; none for a model without a module."""
    if subject.module is None:
        return []
    with recorded(subject.module) as (finished, _):
        subject.logits(*batch)
    return finished


def last_output(subject: Subject, name: str, *batch: Tensor | None) -> Tensor | None:
    """The first tensor that a submodule gives in its last call of a run in eval mode.

    None if it is not called, or gives none.
    """
    kept: list[Tensor] = []

    def keep(_: nn.Module, __: tuple, output: object) -> None:
        kept[:] = [*tensors_in(output)][:1]

    hook = subject.module.get_submodule(name).register_forward_hook(keep)
    try:
        subject.logits(*batch)
    finally:
        hook.remove()
    return kept[0] if kept else None


def where_it_stops(
    subject: Subject, *batch: Tensor | None, dtype: torch.dtype | None = None
) -> str | None:
    """The innermost module that is running when the model stops; None if it does not.

    With a dtype: the first module before it, if any, whose output has another one,
    although none of its inputs had.
    """
    if subject.module is None:
        return None
    with recorded(subject.module) as (finished, running):
        try:
            subject.logits(*batch)
        except Fails:
            strays = [c.name for c in finished if dtype and _leaves(c, dtype)]
            return (strays or [running[-1].name if running else ""])[0]
    return None


def _leaves(call: Call, wanted: torch.dtype) -> bool:
    """Whether floating-point outputs have another dtype, although no input had."""

    def others(tensors: Sequence[Tensor]) -> bool:
        return any(t.is_floating_point() and t.dtype != wanted for t in tensors)

    return others(call.outputs) and not others(call.inputs)


Same = Callable[[Tensor, Tensor], bool | None]


def first_difference_of(
    before: list[Call], after: list[Call], same: Same
) -> str | None:
    """The name of the first module that turns equal inputs into different outputs.

    same(one, other) says whether two tensors agree where they should, None where they
    cannot be compared. None if nothing differs; "" if no module's inputs agree.
    """
    parted = [*_parted(before, after, same)]
    return next((call.name for call, alike in parted if alike), "" if parted else None)


def first_call_of(before: list[Call], after: list[Call], same: Same) -> Call | None:
    """The first call that turns equal inputs into different outputs."""
    return next((c for c, alike in _parted(before, after, same) if alike), None)


def _parted(
    before: list[Call], after: list[Call], same: Same
) -> Iterator[tuple[Call, bool]]:
    """The calls whose outputs differ, and whether their inputs agree."""
    for call, other in _paired(before, after):
        if not _agree(call.outputs, other.outputs, same):
            yield call, _agree(call.inputs, other.inputs, same)


def _paired(before: list[Call], after: list[Call]) -> Iterator[tuple[Call, Call]]:
    """The same call of both runs: the n-th of its module."""
    rest: dict[str, list[Call]] = {}
    for call in after:
        rest.setdefault(call.name, []).append(call)
    for call in before:
        if rest.get(call.name):
            yield call, rest[call.name].pop(0)


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


def first_nan(calls: list[Call]) -> str | None:
    """The first module that makes NaN of inputs without."""
    for call in calls:
        made = any(t.isnan().any() for t in call.outputs if t.is_floating_point())
        had = any(t.isnan().any() for t in call.inputs if t.is_floating_point())
        if made and not had:
            return call.name
    return "" if any(t.isnan().any() for c in calls for t in c.outputs) else None


# --- Beside a reference ---------------------------------------------------------------


def outputs(module: nn.Module, source: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Each submodule's first output, by name, in the order in which they finish."""
    kept, hooks = {}, []
    for name, part in module.named_modules():

        def keep(part: nn.Module, _: object, output: object, name: str = name) -> None:
            if isinstance(output, tuple):  # as PyTorch's attention, with its weights
                output = output[0]
            if isinstance(output, Tensor):
                kept.setdefault(name, output)  # and return None: no other output

        hooks.append(part.register_forward_hook(keep))
    with torch.no_grad():
        module.eval()(source, target)
    for hook in hooks:
        hook.remove()
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
