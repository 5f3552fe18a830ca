"""What a check is, and what it answers: lines with ✓, ✗ or ○, and pictures below."""

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Finding:
    """One line of a check's answer, and a picture to draw below it."""

    mark: str
    text: str
    draw: Callable[[], None] | None = None


def right(text: str) -> Finding:
    """A finding that something is as it should be."""
    return Finding("✓", text)


def wrong(text: str, draw: Callable[[], None] | None = None) -> Finding:
    """A finding that something is not, and where to look."""
    return Finding("✗", text, draw)


def untried(text: str) -> Finding:
    """A finding that there is nothing to check yet."""
    return Finding("○", text)


class Stop(Exception):
    """Ends a check with a last finding."""

    def __init__(self, finding: Finding):
        super().__init__(finding.text)
        self.finding = finding


def print_findings(findings: Iterable[Finding]) -> None:
    """Print a line for each finding and draw its picture, if it has one."""
    for finding in findings:
        print(finding.mark, finding.text)
        if finding.draw is not None:
            draw_finding(finding.draw)


def draw_finding(draw: Callable[[], None]) -> None:
    """Draw a picture, or say in a line why there is none."""
    try:
        draw()
    except Exception as error:  # of numbers that nothing can draw
        print(f"  (there is no picture: {says(error)})")


def says(error: BaseException) -> str:
    """The exception's type and the first line of its message."""
    return traceback.format_exception_only(error)[-1].strip().splitlines()[0]


def collected(findings: Iterator[Finding]) -> list[Finding]:
    """The findings; the last one tells what ended the check, where something did."""
    found = []
    try:
        for finding in findings:
            found.append(finding)
    except Stop as stop:
        found.append(stop.finding)
    except Exception as error:
        # Whatever odd thing was handed in, the learner's notebook must go on.
        found.append(wrong(f"this check cannot read your answer: {says(error)}"))
    return found


class Check:
    """What a lesson calls with a learner's answer. It never raises."""

    def __call__(self, *answers: Any, **named: Any) -> None:
        """Print what is right, what is wrong and why, and draw it where that helps."""
        print_findings(self.findings(*answers, **named))

    def findings(self, *answers: Any, **named: Any) -> list[Finding]:
        """The findings that a call prints."""
        dtype = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        try:
            with torch.random.fork_rng(devices=[]):
                return collected(self._findings(*answers, **named))
        finally:  # the lesson goes on as if nothing had been checked
            torch.set_default_dtype(dtype)

    def _findings(self, *answers: Any, **named: Any) -> Iterator[Finding]:
        raise NotImplementedError
