"""Exercises whose answers are numbers, shapes or names: each value has its message."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lessons.checking.comparing import plain, same
from lessons.checking.findings import (
    Check,
    Finding,
    Stop,
    collected,
    right,
    untried,
    wrong,
)
from lessons.checking.running import definitions


@dataclass(frozen=True, eq=False)
class Values(Check):
    """An exercise whose answers are numbers, shapes or names.

    `answer` is the reference answer, as the solutions notebook shows it: it defines the
    values, or one dictionary of them. `mistakes` maps each name to {a wrong value:
    why}, `also` to other right ones. `otherwise` is said of any other value; its key ""
    stands for every name, and {way} in it for "too many" or "too few". `kinds` says
    what is due where an answer is of another kind; `choices` are the words to choose
    from.
    """

    answer: str
    mistakes: Mapping[str, Mapping[Any, str]]
    otherwise: Mapping[str, str]
    also: Mapping[str, Sequence] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    choices: Sequence[str] = ()
    uses: Mapping[str, Any] = field(default_factory=dict)

    def due(self) -> dict[str, Any]:
        """{name: the right answer}."""
        found = definitions(self.answer, self.uses)
        (first, *_) = found.values()
        found = first if isinstance(first, dict) else found
        return {name: found[name] for name in self.mistakes}

    def _findings(self, *answers: Any, **named: Any) -> Iterator[Finding]:
        given, all_due = named, self.due()
        for several in answers:
            if several is not None and not isinstance(several, Mapping):
                text = f"hand over a dictionary, not a {type(several).__name__}"
                raise Stop(wrong(text))
            given = {**given, **(several or {})}
        for name in given:
            if name not in all_due:
                yield wrong(f"{name} is none of {', '.join(all_due)}")
        for name, due in all_due.items():
            answer = given.get(name)
            if answer is None or answer is Ellipsis:
                yield untried(f"{name}: not attempted yet")
            else:
                yield from collected(self._of_one(name, answer, due))

    def _of_one(self, name: str, answer: Any, due: Any) -> Iterator[Finding]:
        yield self._judged(name, answer, due)

    def _judged(self, name: str, answer: Any, due: Any) -> Finding:
        wanted = plain(due)
        value = _fitted(plain(answer), wanted)
        if isinstance(value, str):
            value = " ".join(value.casefold().split())
        shown = _shown(value, answer)
        if any(same(value, plain(good)) for good in (due, *self.also.get(name, ()))):
            return right(f"{name}: {due}" if self.choices else f"{name} = {shown}")
        for mistake, reason in self.mistakes[name].items():
            if same(value, plain(mistake)):
                return wrong(self._line(name, shown, reason))
        if self.choices and not any(same(value, choice) for choice in self.choices):
            return wrong(f"{name}: {shown} is none of {', '.join(self.choices)}")
        if _kind(value) != _kind(wanted) or not _finite(value):
            kind = self.kinds.get(name) or self.kinds.get("", "a number is due")
            return wrong(f"{name} = {answer!r:.60}: {kind}")
        reason = self.otherwise.get(name) or self.otherwise[""]
        if isinstance(value, Tensor) and not value.dim():
            reason = reason.format(way="too many" if value > wanted else "too few")
        return wrong(self._line(name, shown, reason))

    def _line(self, name: str, shown: str, reason: str) -> str:
        return f"{name} {'is not' if self.choices else '='} {shown}: {reason}"


def _fitted(value: Any, wanted: Any) -> Any:
    """A single number without the axes around it, where a single number is due."""
    single = isinstance(value, Tensor) and value.numel() == 1
    return value.reshape(()) if single and _axes(wanted) == () else value


def _kind(value: Any) -> Any:
    """What two values must have in common for a remark on one to suit the other."""
    boolean = isinstance(value, Tensor) and value.dtype == torch.bool
    return type(value), _axes(value), boolean


def _finite(value: Any) -> bool:
    return not isinstance(value, Tensor) or bool(value.isfinite().all())


def _axes(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if isinstance(value, Tensor) else None


def _shown(value: Any, answer: Any) -> str:
    """The answer as it stands in a finding."""
    if isinstance(value, str):
        return f"{value!r:.40}"
    if not isinstance(value, Tensor) or value.dtype == torch.bool:
        return f"{answer!r:.40}"
    if value.dim():
        return str(tuple(value.tolist()))
    number = float(value)
    return f"{int(value):,}" if number.is_integer() else f"{number:,}"
