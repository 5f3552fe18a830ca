"""All verdicts on one model: printed as they come, with the places to look at."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from . import (
    crossing,
    first,
    leaks,
    learning,
    lengths,
    maps,
    numerics,
    order,
    registered,
    residuals,
    steps,
)
from .subject import Subject, Suspect, says
from .verdict import CANNOT_BE_TOLD, REGISTERED, SKIPPED, Verdict, not_asked_of

# Every check, in the order in which they are asked.
THEMES = (first, leaks, lengths, order, steps, crossing, maps, residuals, learning)
THEMES += (registered, numerics)
CHECKS = {
    name: check
    for module in THEMES
    for name, check in REGISTERED.items()
    if check.__module__ == module.__name__
}
# What a console gets that has no ✓.
PLAIN = {"✓": "ok  ", "✗": "FAIL", "○": "?   ", "≈": "~", "–": "-", "…": "..."}
PLAIN |= {"“": '"', "”": '"', "²": "^2", "√": "root ", "·": "*"}
READ_OFF = ("state moves", "weights shared as meant")
NOTHING_RUNS = f"{CANNOT_BE_TOLD} “runs” fails"
THREE_LINES = """    from transformer_checkup import Subject, examine
    subject = Subject(my_model, source_vocab=230, kind="decoder")
    examine(subject)  # or assert_sound, in a test"""


@dataclass(frozen=True)
class Report:
    """The verdicts on a model, in the order in which they were found."""

    verdicts: tuple[Verdict, ...]

    def __repr__(self) -> str:
        return f"Report: {self.summary}"

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
    def judged(self) -> bool:
        """Whether there is a check that holds or fails."""
        return any(verdict.holds is not None for verdict in self.verdicts)

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
    def data(self) -> dict[str, object]:
        """All that it says, in a form for `json.dumps`."""
        checks = [
            {
                "check": verdict.name,
                "holds": verdict.holds,
                "says": verdict.sentence,
                "suspects": [asdict(suspect) for suspect in verdict.suspects],
            }
            for verdict in self.verdicts
        ]
        return {"sound": self.sound, "summary": self.summary, "checks": checks}

    @property
    def text(self) -> str:
        """Every line, as it is printed."""
        told = [line for verdict in self.verdicts for line in lines(verdict)]
        return "\n".join([*told, *self.last_lines])

    @property
    def last_lines(self) -> list[str]:
        """How many checks were not asked as the model does not run; the summary."""
        left = sum(verdict.sentence == NOTHING_RUNS for verdict in self.verdicts)
        return [f"○ {left} others: {NOTHING_RUNS}"] * bool(left) + [self.summary]

    @property
    def summary(self) -> str:
        """The last line: how many fail, and where to begin."""
        every = len(self.verdicts)
        if not self.sound:
            untold = sum(CANNOT_BE_TOLD in v.sentence for v in self.verdicts)
            counted = f"{len(self.failed)} of {every} checks fail"
            counted += f", {untold} could not be asked" if untold else ""
            places = [f"; look first at {s.text}" for s in self.suspects[:1]]
            return "".join([counted, *places])
        passed = sum(verdict.holds is True for verdict in self.verdicts)
        said = f"{passed} of {every} checks hold, none fails"
        left = [verdict for verdict in self.verdicts if verdict.holds is None]
        for what, skipped in (("could not be judged", False), ("skipped", True)):
            names = [v.name for v in left if (v.sentence == SKIPPED) is skipped]
            said += f", {len(names)} {what}: {', '.join(names)}" if names else ""
        return said


def lines(verdict: Verdict) -> list[str]:
    """A verdict's line, and one for each suspect; none while the model does not run."""
    if verdict.sentence == NOTHING_RUNS:
        return []
    places = [f"    look at {suspect.text}" for suspect in verdict.suspects]
    return [f"{verdict.mark} {verdict.text}", *places]


def examine(
    subject: Subject, *, draw: bool = True, only: Sequence[str] | None = None
) -> Report:
    """Run all checks, print each answer as it is found, draw what failed.

    Where a check fails, its usual suspects stand below it, most likely first. `only`
    names the checks to run, all others are left out. ValueError for a check that does
    not exist or is not asked of this kind of model, TypeError for what is no Subject.
    """

    def show(verdict: Verdict) -> None:
        say(*lines(verdict))
        if draw and verdict.draw is not None:
            try:
                verdict.draw()
            except Exception as error:  # as without matplotlib
                say(f"  (there is no picture: {says(error)})")

    report = report_on(subject, only=only, tell=show)
    say(*report.last_lines)
    return report


def progress(now: str) -> None:
    """Which check is running, in a line of a terminal that the next one replaces."""
    if sys.stderr is not None and sys.stderr.isatty():
        print(f"\r{now:<40}\r", end="", file=sys.stderr, flush=True)


def say(*told: str) -> None:
    """Print lines; a console that has no ✓ gets what stands for it in ASCII."""
    for line in told:
        print(for_console(line, sys.stdout.encoding), flush=True)


def for_console(line: str, encoding: str | None) -> str:
    """A line as this encoding can show it."""
    coded = encoding or "ascii"
    try:
        line.encode(coded)
    except UnicodeEncodeError:
        for sign, plain in PLAIN.items():
            line = line.replace(sign, plain)
        return line.encode(coded, "replace").decode(coded)
    return line


def report_on(
    subject: Subject,
    *,
    only: Sequence[str] | None = None,
    tell: Callable[[Verdict], None] = lambda verdict: None,
) -> Report:
    """The verdicts of all checks that apply; tell(verdict) for each as it comes."""
    names = dict.fromkeys(chosen(subject, only))
    known: dict[str, Verdict] = {}  # of the checks that others rest on, too
    for number, name in enumerate(names, start=1):
        progress(f"{number}/{len(names)} {name}")
        if name not in known:
            known[name] = CHECKS[name](subject, known)
        tell(known[name])
    return Report(tuple(known[name] for name in names))


def chosen(subject: Subject, only: Sequence[str] | None = None) -> list[str]:
    """The checks for a model of this kind, or those that are asked for."""
    if not isinstance(subject, Subject):
        kind = type(subject).__name__
        raise TypeError(f"a {kind} is no Subject; hand it over as\n{THREE_LINES}")
    if isinstance(only, str):
        raise ValueError(f"only must be names in a tuple, not one text: ({only!r},)")
    for name in (*(only or ()), *subject.skip):
        if name not in CHECKS:
            raise ValueError(f"no check {name!r}; they are {', '.join(CHECKS)}")
    for name in only or ():
        if subject.kind not in CHECKS[name].kinds:
            raise ValueError(f"{name!r} is {not_asked_of(subject.kind)}")
    if only is not None:
        return [*only]
    return [name for name in CHECKS if subject.kind in CHECKS[name].kinds]


def failing(subject: Subject, only: Sequence[str] | None = None) -> tuple[str, ...]:
    """The names of the checks that the model fails; nothing is printed."""
    return tuple(verdict.name for verdict in report_on(subject, only=only).failed)


def assert_sound(subject: Subject, only: Sequence[str] | None = None) -> Report:
    """Raise AssertionError with the whole report if a check fails; for a test.

    It is raised too if nothing could be judged.
    """
    report = report_on(subject, only=only)
    if not report.judged:
        raise AssertionError(f"nothing could be judged\n{report.text}")
    if not report.sound:
        raise AssertionError(f"this Transformer is not sound\n{report.text}")
    return report
