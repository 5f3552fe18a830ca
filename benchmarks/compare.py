"""Time several ways of one piece of work in turns, and put the outcome into a table."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from helpers.runtime import best_device, environment_report

Work = Callable[[], object]
ROOT = Path(__file__).parents[1]


def timed(work: Work) -> float:
    """Seconds that one call takes, until a GPU too has finished."""
    synchronise()
    start = time.perf_counter()
    work()
    synchronise()
    return time.perf_counter() - start


def synchronise() -> None:
    """Wait until the GPU, if there is one, has done what it was given."""
    if best_device().type == "cuda":
        torch.cuda.synchronize()


def in_turns(
    works: Sequence[Work], rounds: int, *, clock: Callable[[Work], float] = timed
) -> list[float]:
    """The median seconds of each work, run in turns: first, second, first, second, …

    Whatever slows the machine for a while slows all of them. Not for work that gets
    faster with its second call: run such once before.
    """
    times = [[clock(work) for work in works] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def in_pieces(
    pieces: Sequence[Sequence[Work]], rounds: int, *, clock: Callable = timed
) -> list[float]:
    """The seconds of each side over all pieces, each piece run in turns by all sides.

    pieces[i][j] is what side j does of piece i. Of each piece the medians count.
    """
    medians = [in_turns(works, rounds, clock=clock) for works in pieces]
    return [sum(column) for column in zip(*medians, strict=True)]


@dataclass(frozen=True)
class Row:
    """One comparison: what ours and theirs took, and the bar for their ratio.

    With at_least the bar is on theirs / ours, how many times as good ours is; without,
    on ours / theirs, how much of it ours takes. `same` says which outcomes were found
    equal before anything was timed.
    """

    name: str
    against: str
    ours: float
    theirs: float
    unit: str
    bar: float
    same: str
    at_least: bool = True

    @property
    def ratio(self) -> float:
        """theirs / ours with at_least, ours / theirs without."""
        pair = (self.theirs, self.ours) if self.at_least else (self.ours, self.theirs)
        return pair[0] / pair[1]

    @property
    def met(self) -> bool:
        """Whether the ratio is on the right side of the bar."""
        return self.ratio >= self.bar if self.at_least else self.ratio <= self.bar

    def __str__(self) -> str:
        sign = "≥" if self.at_least else "≤"
        return (
            f"{self.name:33} {self.against:27} {number(self.ours):>7} "
            f"{number(self.theirs):>7} {self.unit:7} {self.ratio:5.2f}  "
            f"{sign} {self.bar:3.1f} {'yes' if self.met else 'NO':>4}  {self.same}"
        )


class Rate(Row):
    """A Row of rates, of which ours has to be large."""

    @property
    def ratio(self) -> float:
        """ours / theirs."""
        return self.ours / self.theirs


HEADER = (
    f"{'work':33} {'against':27} {'ours':>7} {'theirs':>7} {'unit':7} {'ratio':>5}  "
    f"{'bar':>5} {'met':>4}  what was found equal first"
)


def number(x: float) -> str:
    """Three digits that count: 1.23, 12.3, 123, 1230."""
    return f"{x:.{max(0, 2 - len(str(int(x))) + 1)}f}"


def scaled(seconds: float) -> tuple[float, str]:
    """What to multiply seconds by, and the unit that this gives."""
    return (1e3, "ms") if seconds < 1 else (1.0, "s")


def timing_row(
    name: str,
    against: str,
    seconds: Sequence[float],
    bar: float,
    same: str,
    **options,
) -> Row:
    """A Row of two times in seconds, ours and theirs, in a unit that suits them."""
    factor, unit = scaled(seconds[1])
    ours, theirs = (factor * s for s in seconds)
    return Row(name, against, ours, theirs, unit, bar, same, **options)


def demand_equal(found: float, expected: float, what: str, *, rtol: float) -> None:
    """AssertionError unless two numbers agree; a comparison of unlike work is none."""
    difference = abs(found - expected)
    if not difference <= rtol * abs(expected):
        raise AssertionError(f"{what}: ours {found!r}, theirs {expected!r}")


def processor() -> str:
    """The CPU's product name as the system knows it, and how many cores it has."""
    name, file = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return f"{name}, {os.cpu_count()} cores"


def machine() -> str:
    """Machine and versions: the first lines of every stored table."""
    versions = ", ".join(f"{name} {v}" for name, v in environment_report().items())
    return f"{processor()}\n{versions}"
