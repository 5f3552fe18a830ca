"""All verdicts on one model: printed as they come, with the places to look at."""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from transformer_checkup import (
    by_heart,
    crossing,
    first,
    gradients,
    leaks,
    learning,
    lengths,
    limits,
    maps,
    moves,
    order,
    registered,
    residuals,
    steps,
    weights,
)
from transformer_checkup.subject import Subject, Suspect, says
from transformer_checkup.verdict import (
    CANNOT_BE_TOLD,
    KINDS_OF,
    REGISTERED,
    SKIPPED,
    Verdict,
    not_asked_of,
)

# Every check, in the order in which they are asked.
THEMES = (
    first,
    leaks,
    lengths,
    order,
    steps,
    crossing,
    maps,
    residuals,
    learning,
    gradients,
    by_heart,
    registered,
    weights,
    moves,
    limits,
)
CHECKS = {
    name: check
    for module in THEMES
    for name, check in REGISTERED.items()
    if check.__module__ == module.__name__
}
PLAIN = {
    "✓": "ok  ",
    "✗": "FAIL",
    "○": "?   ",
    "≈": "~",
    "–": "-",
    "…": "...",
    "√": "root ",
}
PLAIN |= {"“": '"', "”": '"', "²": "^2", "·": "*"}
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
        told = [line for v in self.verdicts for line in lines(v)]
        return "\n".join([*told, *rest(self.verdicts), self.summary])

    @property
    def summary(self) -> str:
        """The last line: how many fail, and where to begin."""
        if self.sound:
            passed = sum(verdict.holds is True for verdict in self.verdicts)
            hold = f"{passed} of {len(self.verdicts)} checks hold, none fails"
            return f"{hold}{_untold(self.verdicts)}"
        counted = f"{len(self.failed)} of {len(self.verdicts)} checks fail"
        untold = sum(CANNOT_BE_TOLD in verdict.sentence for verdict in self.verdicts)
        if untold:
            counted += f", {untold} could not be asked"
        if not self.suspects:
            return counted
        return f"{counted}; look first at {self.suspects[0].text}"


def lines(verdict: Verdict) -> list[str]:
    """A verdict's line, and one for each suspect; none while the model does not run."""
    if verdict.sentence == NOTHING_RUNS:
        return []
    places = [f"    look at {suspect.text}" for suspect in verdict.suspects]
    return [f"{verdict.mark} {verdict.text}", *places]


def rest(verdicts: Sequence[Verdict]) -> list[str]:
    """One line for all the checks that were not asked as the model does not run."""
    left = sum(verdict.sentence == NOTHING_RUNS for verdict in verdicts)
    return [f"○ {left} others: {NOTHING_RUNS}"] if left else []


def _untold(verdicts: Sequence[Verdict]) -> str:
    """The end of a sentence that names what was not judged."""
    left = [verdict for verdict in verdicts if verdict.holds is None]
    skipped = [v.name for v in left if v.sentence == SKIPPED]
    unknown = [v.name for v in left if v.sentence != SKIPPED]
    return "".join(
        f", {len(names)} {what}: {', '.join(names)}"
        for names, what in ((unknown, "could not be judged"), (skipped, "skipped"))
        if names
    )


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
            draw_finding(verdict.draw)

    report = report_on(subject, only=only, tell=show, begin=progress)
    say(*rest(report.verdicts), report.summary)
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
    begin: Callable[[str], None] = lambda name: None,
) -> Report:
    """The verdicts of all checks that apply; tell(verdict) for each as it comes.

    begin(text) says which check is asked now, as "3/24 same twice".
    """
    names = dict.fromkeys(chosen(subject, only))
    known: dict[str, Verdict] = {}  # of the checks that others rest on, too
    for number, name in enumerate(names, start=1):
        begin(f"{number}/{len(names)} {name}")
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
        if subject.kind not in KINDS_OF[name]:
            raise ValueError(f"{name!r} is {not_asked_of(subject.kind)}")
    if only is not None:
        return [*only]
    return [name for name in CHECKS if subject.kind in KINDS_OF[name]]


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


def draw_finding(draw: Callable[[], None]) -> None:
    """Draw a picture, or say in a line why there is none."""
    try:
        draw()
    except Exception as error:  # of numbers that nothing can draw
        say(f"  (there is no picture: {says(error)})")
