"""`make bench ARGS=course`: run every lesson once, and store how long each takes.

Each runs in a fresh kernel under the environment of the tests (tools/reproducible.py),
on one thread, and as many at a time as there are cores, as `make test` runs them;
nothing is stored in the lessons. The toy translator, which three of them use, is
trained anew, as it is for somebody who has just installed the course, and has a line
of its own.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from benchmarks.compare import ROOT, machine
from helpers.translator import CACHE
from tools import notebooks
from tools.reproducible import make_reproducible

TOY = "the toy translator's training"
TABLE = Path(__file__).parent / "course.txt"
BAR = 8 * 60


def train_toy() -> None:
    """Train the toy translator where the lessons look for it, as a lesson would."""
    for model in CACHE.glob("toy-*.safetensors"):
        model.unlink()
    environment = dict(os.environ)
    make_reproducible(environment)
    code = "from helpers.translator import trained_toy; trained_toy()"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)


def run_lesson(path: Path) -> None:
    """Run the notebook at `path` from its first cell to its last."""
    notebooks.execute(notebooks.read(path), path.parent)


def seconds_of(name: str, work: Callable[[], None]) -> float:
    """How long the work takes, printed under its name."""
    started = time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    print(f"{name:34} {seconds:7.1f} s", flush=True)
    return seconds


def lessons() -> list[Path]:
    """The lessons, without the solutions."""
    return sorted(notebooks.NOTEBOOKS.glob("[0-9]*.ipynb"))


def everything() -> dict[str, Callable[[], None]]:
    """What is run, by its name: the toy's training, and then the lessons."""
    return {TOY: train_toy} | {p.stem: partial(run_lesson, p) for p in lessons()}


def measured(
    works: dict[str, Callable[[], None]], at_a_time: int
) -> tuple[dict[str, float], float]:
    """The seconds of each work, and of all together.

    The first is begun first, because others need it: on two cores it has ended before
    they begin, on many they do its work again. Then the last: late lessons are the
    longest, and begun early, none of them is left over at the end.
    """
    first, *others = works
    order = [first, *reversed(others)]
    started = time.perf_counter()
    with ProcessPoolExecutor(at_a_time, get_context("spawn")) as pool:
        seconds = pool.map(seconds_of, order, [works[name] for name in order])
        times = dict(zip(order, seconds, strict=True))
    whole = time.perf_counter() - started
    return {name: times[name] for name in works}, whole


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
    lines = share_lines(*measured(everything(), at_a_time), at_a_time)
    lines = [*machine().splitlines(), "", *lines]
    print("\n" + "\n".join(lines))
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
