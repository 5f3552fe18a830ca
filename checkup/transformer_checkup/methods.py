"""Which function of the model's code first gives something else.

Hooks see modules; what their `forward` calls, be it a method, a lambda or a function
beside the class, is seen by Python's own profiler.
"""

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType

import torch
from torch import Tensor, nn

from transformer_checkup.hooks import Call, Same, first_call_of, tensors_in

# Where the functions live that are nobody's suspects, beside Python's own.
FOREIGN = tuple(str(Path(file).parent) for file in (torch.__file__, __file__))
PYTHON = str(Path(inspect.__file__).parent)
GENERATOR = inspect.CO_GENERATOR | inspect.CO_COROUTINE


@contextmanager
def functions(module: nn.Module) -> Iterator[list[Call]]:
    """The functions that return during a block, in order, and where each was called."""
    finished: list[Call] = []
    running: list[tuple[FrameType, Call]] = []
    inside, hooks = [""], []

    def note(frame: FrameType, event: str, result: object) -> None:
        if event == "call" and _is_own(frame.f_code):
            given = [*tensors_in([frame.f_locals.get(n) for n in _names(frame.f_code)])]
            call = Call(_name_of(frame.f_code), given, where=inside[-1])
            running.append((frame, call))
        elif event == "return" and running and running[-1][0] is frame:
            call = running.pop()[1]
            call.outputs = [*tensors_in(result)]
            finished.append(call)

    for name, part in module.named_modules():
        enter = partial(lambda name, *_: inside.append(name), name)
        hooks.append(part.register_forward_pre_hook(enter))
        hooks.append(part.register_forward_hook(lambda *_: [inside.pop(), None][1]))
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield finished
    finally:
        sys.setprofile(before)
        for hook in hooks:
            hook.remove()


def _is_own(code: CodeType) -> bool:
    """Whether a function is the model's, and is done when it returns."""
    file, name = code.co_filename, code.co_name
    if file.startswith(PYTHON) and "-packages" not in file:
        return False
    waits = code.co_flags & GENERATOR or name.startswith(("<list", "<dict", "<set"))
    return not waits and not file.startswith(FOREIGN)


def _names(code: CodeType) -> tuple[str, ...]:
    """A function's arguments."""
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(
        code.co_flags & inspect.CO_VARKEYWORDS
    )
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]


def _name_of(code: CodeType) -> str:
    """A function's name and line, as "weigh (model.py:88)"."""
    return f"{code.co_name} ({Path(code.co_filename).name}:{code.co_firstlineno})"


def first_function(
    module: nn.Module,
    runs: tuple[Callable[[], object], Callable[[], object]],
    same: Same,
    align: Callable[[list[Call], list[Call]], tuple] = lambda *calls: calls,
) -> Call | None:
    """The first function whose results differ though its arguments do not.

    align(before, after) puts the calls of two runs in such a form that `same` fits. Of
    numbers and rows nobody knows to which token they belong.
    """
    found = []
    for run in runs:
        with functions(module) as calls:
            run()
        found.append(calls)

    def compared(one: Tensor, other: Tensor) -> bool | None:
        return same(one, other) if min(one.dim(), other.dim()) > 1 else None

    try:
        return first_call_of(*align(*found), compared)
    except (IndexError, RuntimeError):  # tensors of shapes that nobody thought of
        return None
