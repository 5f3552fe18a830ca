"""All verdicts on one model: printed as they come, with the places to look at."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from helpers.checks.findings import draw_finding
from helpers.debugger import (
    first,
    leaks,
    learning,
    limits,
    maps,
    moves,
    order,
    residuals,
    weights,
)
from helpers.debugger.subject import Subject, Suspect
from helpers.debugger.verdict import KINDS_OF, REGISTERED, Verdict

# Every check, in the order in which they are asked.
THEMES = (first, leaks, order, maps, residuals, learning, weights, moves, limits)
CHECKS = {
    name: check
    for module in THEMES
    for name, check in REGISTERED.items()
    if check.__module__ == module.__name__
}
READ_OFF = ("state moves", "weights shared as meant")


@dataclass(frozen=True)
class Report:
    """The verdicts on a model, in the order in which they were found."""

    verdicts: tuple[Verdict, ...]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    @property
    def failed(self) -> list[Verdict]:
        """The checks that the model fails."""
        return [verdict for verdict in self.verdicts if verdict.holds is False]

    @property
    def sound(self) -> bool:
        """Whether no check fails; some may be ○."""
        return not self.failed

    @property
    def suspects(self) -> list[Suspect]:
        """All suspects, the most likely first.

        What is read off the modules comes before what is inferred from numbers; of the
        rest, those of the first check that fails, as the others may only follow.
        """
        ordered = sorted(self.failed, key=lambda verdict: verdict.name not in READ_OFF)
        found = [s for verdict in ordered for s in verdict.suspects]
        return list(dict.fromkeys(found))

    @property
    def text(self) -> str:
        """Every line, as it is printed."""
        return "\n".join(line for v in self.verdicts for line in lines(v)) + (
            f"\n{self.summary}"
        )

    @property
    def summary(self) -> str:
        """The last line: how many fail, and where to begin."""
        if self.sound:
            passed = sum(verdict.holds is True for verdict in self.verdicts)
            return f"{passed} of {len(self.verdicts)} checks hold, none fails"
        counted = f"{len(self.failed)} of {len(self.verdicts)} checks fail"
        if not self.suspects:
            return counted
        return f"{counted}; look first at {self.suspects[0].text}"


def lines(verdict: Verdict) -> list[str]:
    """A verdict's line, and one for each suspect."""
    places = [f"    look at {suspect.text}" for suspect in verdict.suspects]
    return [f"{verdict.mark} {verdict.text}", *places]


def examine(
    subject: Subject, *, draw: bool = True, only: Sequence[str] | None = None
) -> Report:
    """Run all checks, print each answer as it is found, draw what failed.

    Where a check fails, its usual suspects stand below it, most likely first. `only`
    names the checks to run, all others are left out. ValueError for a check that does
    not exist.
    """

    def show(verdict: Verdict) -> None:
        for line in lines(verdict):
            print(line, flush=True)
        if draw and verdict.draw is not None:
            draw_finding(verdict.draw)

    report = report_on(subject, only=only, tell=show)
    print(report.summary)
    return report


def report_on(
    subject: Subject,
    *,
    only: Sequence[str] | None = None,
    tell: Callable[[Verdict], None] = lambda verdict: None,
) -> Report:
    """The verdicts of all checks that apply; tell(verdict) for each as it comes."""
    names = chosen(subject, only)
    verdicts: dict[str, Verdict] = {}
    for name in names:
        verdicts[name] = CHECKS[name](subject, verdicts)
        tell(verdicts[name])
    return Report(tuple(verdicts.values()))


def chosen(subject: Subject, only: Sequence[str] | None = None) -> list[str]:
    """The checks for a model of this kind, or those that are asked for."""
    for name in (*(only or ()), *subject.skip):
        if name not in CHECKS:
            raise ValueError(f"no check {name!r}; they are {', '.join(CHECKS)}")
    if only is not None:
        return [*only]
    return [name for name in CHECKS if subject.kind in KINDS_OF[name]]


def failing(subject: Subject, only: Sequence[str] | None = None) -> tuple[str, ...]:
    """The names of the checks that the model fails; nothing is printed."""
    return tuple(verdict.name for verdict in report_on(subject, only=only).failed)


def assert_sound(subject: Subject, only: Sequence[str] | None = None) -> Report:
    """Raise AssertionError with the whole report if a check fails; for a test."""
    report = report_on(subject, only=only)
    if not report.sound:
        raise AssertionError(f"this Transformer is not sound\n{report.text}")
    return report
