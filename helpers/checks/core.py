"""What the checks are made of that have no table yet: see `helpers.checks.engine`.

A check is written as a generator of findings and turned by `check` into a function that
prints them. The learner's code runs through `attempt`, which turns whatever goes wrong
into a finding. `Mistake`s are wrong versions of the exercise's function: where the
learner's output equals that of a wrong version, the mistake has a name.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from helpers.checks.findings import (
    Finding,
    Stop,
    collected,
    print_findings,
    right,
    untried,
    wrong,
)
from helpers.checks.pictures import weights_beside
from helpers.checks.running import IN_PLACE, stopped

__all__ = [
    "Finding",
    "Mistake",
    "Stop",
    "attempt",
    "check",
    "print_findings",
    "recognise",
    "right",
    "same",
    "untried",
    "weights_beside",
    "wrong",
]


def check(findings: Callable[..., Iterator[Finding]]) -> Callable[..., None]:
    """Turn a generator of findings into a check, which prints them and returns None.

    The check's attribute `findings` takes the same arguments and returns the list.
    """

    def collect(*args, **options) -> list[Finding]:
        # A call with the wrong number of answers must end in a finding, too.
        return collected(
            finding for each in [findings] for finding in each(*args, **options)
        )

    @functools.wraps(findings)
    def show(*args, **options) -> None:
        print_findings(collect(*args, **options))

    show.findings = collect
    return show


def attempt(function: Callable, *inputs: object) -> Any:
    """What the learner's function returns for copies of the inputs.

    Raises Stop with a finding where it raises, returns nothing, or changes its inputs.
    """
    if function is None:
        raise Stop(untried("nothing to check yet"))
    if not callable(function):
        kind = type(function).__name__
        raise Stop(
            wrong(f"hand over the function itself, not what it gives (a {kind})")
        )
    copies = [x.clone() if isinstance(x, Tensor) else x for x in inputs]
    try:
        output = function(*copies)
    except (Exception, SystemExit) as error:
        # PyTorch's own NotImplementedError, of `&` on floats for one, has a message.
        if isinstance(error, NotImplementedError) and not str(error):
            raise Stop(untried("not attempted yet")) from None
        raise Stop(wrong(stopped(error))) from None
    if output is None or output is Ellipsis:
        raise Stop(untried("not attempted yet: the function returns None"))
    if any(
        isinstance(x, Tensor) and not torch.equal(x, y)
        for x, y in zip(inputs, copies, strict=True)
    ):
        raise Stop(wrong(IN_PLACE))
    return _on_cpu(output)


def _on_cpu(output: Any) -> Any:
    """The output with its tensors where the check's are: it may come from a GPU."""
    if isinstance(output, Tensor):
        return output.cpu()
    if type(output) in (tuple, list):
        return type(output)(map(_on_cpu, output))
    return output


@dataclass(frozen=True)
class Mistake:
    """A wrong way to do the exercise.

    `steps` are the steps that it replaces, by name, in the function that the check
    compares with; two mistakes in different steps can be made together.
    """

    name: str
    hint: str
    steps: Mapping[str, Callable] = field(repr=False)


def recognise(
    output: object, version: Callable, mistakes: Iterable[Mistake], inputs: Iterable
) -> list[Mistake]:
    """The one, two or three mistakes with which `version` gives this output; or none.

    `version(*inputs, **steps)` is the exercise's function with some steps replaced.
    """
    possible = []
    for mistake in mistakes:
        try:
            version(*inputs, **mistake.steps)
        except (RuntimeError, IndexError, ValueError):
            continue  # these shapes do not allow it
        possible.append(mistake)
    for count in (1, 2, 3):
        for made in combinations(possible, count):
            steps = [step for mistake in made for step in mistake.steps.items()]
            if len(dict(steps)) < len(steps):
                continue  # two ways of doing the same step
            if same(output, version(*inputs, **dict(steps))):
                return list(made)
    return []


def same(yours: object, expected: object) -> bool:
    """Whether two tensors, or two tuples of them, agree up to rounding.

    The number format may differ (float64 for float32); NaN equals NaN.
    """
    if isinstance(yours, tuple) and isinstance(expected, tuple):
        return len(yours) == len(expected) and all(map(same, yours, expected))
    if not (isinstance(yours, Tensor) and isinstance(expected, Tensor)):
        return False
    return yours.shape == expected.shape and torch.allclose(
        yours.detach().double().cpu(),
        expected.detach().double().cpu(),
        rtol=1e-4,
        atol=1e-5,
        equal_nan=True,
    )
