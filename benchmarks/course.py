"""`make bench ARGS=course`: run every lesson once, and store how long each takes.

Each runs in a fresh kernel under the environment of the tests (tools/reproducible.py),
on one thread, and as many at a time as there are cores, as `make test` runs them;
nothing is stored in the lessons. The toy translator, which several of them use, is
trained first if it is not there yet, and has a line of its own.
"""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.compare import machine
from helpers.translator import trained_toy
from tools import notebooks

TABLE = Path(__file__).parent / "course.txt"
BAR = 8 * 60


def seconds_of(path: Path) -> float:
    """How long the notebook at `path` takes from its first cell to its last."""
    notebook = notebooks.read(path)
    started = time.perf_counter()
    notebooks.execute(notebook, path.parent)
    seconds = time.perf_counter() - started
    print(f"{path.stem:34} {seconds:7.1f} s", flush=True)
    return seconds


def lessons() -> list[Path]:
    """The lessons, without the solutions."""
    return sorted(notebooks.NOTEBOOKS.glob("[0-9]*.ipynb"))


def measured(paths: Sequence[Path], at_a_time: int) -> tuple[dict[str, float], float]:
    """The seconds of the toy's training and of each lesson, and of all together."""
    started = time.perf_counter()
    trained_toy()
    times = {"the toy translator's training": time.perf_counter() - started}
    with ProcessPoolExecutor(at_a_time, get_context("spawn")) as pool:
        # The last lessons are the longest: begun first, none is left over at the end.
        seconds = [*pool.map(seconds_of, reversed(paths))]
    times |= {p.stem: s for p, s in zip(paths, reversed(seconds), strict=True)}
    return times, time.perf_counter() - started


def share_lines(times: dict[str, float], whole: float, at_a_time: int) -> list[str]:
    """A line a lesson with its share of their sum, then the whole beside its bar."""
    total = sum(times.values())
    lines = [
        f"{name:34} {seconds:7.1f} s {100 * seconds / total:5.1f} %"
        for name, seconds in times.items()
    ]
    met = "met" if whole <= BAR else "NOT met"
    all_of_it = f"all, {at_a_time} at a time"
    lines.append(f"{all_of_it:34} {whole:7.1f} s, at most {BAR} s: {met}")
    return lines


def main() -> None:
    """Run everything, and store the table."""
    at_a_time = os.cpu_count()
    lines = share_lines(*measured(lessons(), at_a_time), at_a_time)
    lines = [*machine().splitlines(), "", *lines]
    print("\n" + "\n".join(lines))
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
