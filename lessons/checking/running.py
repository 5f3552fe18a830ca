"""Run code: the text of a reference answer, and a learner's on copies of its inputs."""

import copy
import dis
import inspect
import math
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lessons.checking.comparing import plain, same
from lessons.checking.findings import Finding, Stop, says, untried, wrong

IMPORTS = {"math": math, "torch": torch, "nn": nn, "F": F}
OURS = tuple(str(Path(__file__).parents[2] / name) for name in ("helpers", "lessons"))
IN_PLACE = (
    "your function changes its inputs in place, and with them the caller's tensors: no "
    "`+=`, `x[…] = …` or method ending in `_` (`div_`, `masked_fill_`) on what came in"
)
NOTHING = "your function returns nothing: does a line with `return` stand at its end?"


def definitions(text: str, uses: Mapping[str, Any]) -> dict[str, Any]:
    """What this text of Python defines, in order, with IMPORTS and `uses` at hand."""
    given = {**IMPORTS, **uses, "__name__": "an_answer"}
    space = dict(given)
    exec(text, space)
    return {name: space[name] for name in space if name not in {*given, "__builtins__"}}


@dataclass(frozen=True)
class Outcome:
    """What came of a run: an output, an exception, or a finding that ends the check."""

    output: Any = None
    error: BaseException | None = None
    finding: Finding | None = None
    inputs: Sequence = ()  # as the run has left them


def run(
    function: Callable, inputs: Sequence, *, in_place: bool = False, seed: int = 0
) -> Outcome:
    """What the learner's function does with copies of the inputs.

    PyTorch's random numbers start from the seed; gradients are on, and afterwards as
    they were. With `in_place`, the function is meant to change what it is given.
    """
    if function is None or function is Ellipsis:
        return Outcome(finding=untried("nothing to check yet"))
    modules = tuple(type(x) for x in inputs if isinstance(x, nn.Module))
    if not callable(function) or isinstance(function, modules):
        text = "hand over the function itself, not what it gives"
        return Outcome(finding=wrong(f"{text} (a {type(function).__name__})"))
    copies = _copied(inputs)
    try:
        with torch.enable_grad():
            torch.default_generator.manual_seed(seed)
            output = function(*copies)
    except Stop as stop:
        return Outcome(finding=stop.finding)
    except (Exception, SystemExit) as error:
        # PyTorch's own NotImplementedError, of `&` on floats for one, has arguments.
        if isinstance(error, NotImplementedError) and not error.args:
            return Outcome(finding=untried("not attempted yet"))
        return Outcome(error=error)
    changed = not same(_state(copies), _state(inputs))
    if output is None or output is Ellipsis:
        if stub(function) and not changed:
            text = "not attempted yet: the function returns None"
            return Outcome(finding=untried(text))
        return Outcome(finding=wrong(NOTHING))
    if changed and not in_place:
        return Outcome(finding=wrong(IN_PLACE))
    return Outcome(output, inputs=copies)


def _copied(inputs: Sequence) -> tuple:
    """Copies of the inputs; those of tensors are made in the fastest way."""
    return tuple(
        x.detach().clone() if isinstance(x, Tensor) else copy.deepcopy(x)
        for x in inputs
    )


def _state(value: Any, seen: frozenset = frozenset()) -> Any:
    """All that a function could change in its inputs, in plain form."""
    if id(value) in seen:
        return "seen"
    seen |= {id(value)}
    if isinstance(value, nn.Module):
        modes = [module.training for module in value.modules()]
        return *map(plain, value.state_dict().values()), *map(plain, modes)
    if isinstance(value, Mapping):
        return tuple(_state(part, seen) for part in value.values())
    if isinstance(value, list | tuple):
        return tuple(_state(part, seen) for part in value)
    if hasattr(value, "__dict__") and not isinstance(value, Tensor | type):
        return _state(vars(value), seen)
    known = isinstance(value, Tensor | np.ndarray | str | Number)
    return plain(value) if known else type(value)


def stub(function: Callable) -> bool:
    """Whether there is nothing in the function but `return None`, `pass` or `...`."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    does_nothing = {"RESUME", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
    return code is not None and does_nothing.issuperset(
        instruction.opname for instruction in dis.get_instructions(code)
    )


def stopped(error: BaseException) -> str:
    """The exception in words, with the last line of the learner's that it came by."""
    libraries = *map(sysconfig.get_path, ("purelib", "stdlib")), *OURS
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(libraries)]
    line = own[-1].line if own else ""
    place = f" (line {own[-1].lineno}{line and f': `{line}`'})" if own else ""
    return f"your code stopped with {says(error)}{place}"


def gradients(
    function: Callable, inputs: Sequence, names: Sequence[str], read: Callable
) -> dict[str, Tensor | None]:
    """What reaches each tensor of the inputs and each parameter of their modules.

    It comes from the first result of the function, as `read(output, inputs)` has it,
    whose numbers are added up with fixed random weights. {name: gradient, or None}.
    """
    copies, leaves = _copied(inputs), {}
    for name, value in zip(names, copies, strict=True):
        if isinstance(value, nn.Module):
            learnt = (
                (key, p) for key, p in value.named_parameters() if p.requires_grad
            )
            leaves |= {f"{name}.{key}": p for key, p in learnt}
        elif isinstance(value, Tensor) and value.is_floating_point():
            leaves[name] = value.requires_grad_()
    with torch.enable_grad():
        output = read(function(*copies), copies)
        output = output[0] if isinstance(output, tuple) else output
        if not leaves or not isinstance(output, Tensor) or not output.requires_grad:
            return dict.fromkeys(leaves)
        generator = torch.Generator().manual_seed(0)
        weights = torch.randn(output.shape, generator=generator, dtype=output.dtype)
        total, given = (output * weights).sum(), list(leaves.values())
        reached = torch.autograd.grad(total, given, allow_unused=True)
    return dict(zip(leaves, reached, strict=True))
