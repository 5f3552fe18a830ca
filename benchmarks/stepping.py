"""Training steps in a process of their own.

    python -m benchmarks.stepping SIDE STEPS SIZES

`faster_on_cpu` changes how its process treats memory, which the others must not get for
nothing. For every line that it reads, the process takes a step of SIDE and
prints its seconds; STEPS and SIZES are the fields of those classes as JSON.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict

from benchmarks.compare import ROOT, in_turns, timed
from benchmarks.steps import Steps, work_of
from benchmarks.workload import Sizes


def in_own_processes(
    sides: Sequence[str], steps: Steps, sizes: Sizes
) -> dict[str, float]:
    """The median seconds of a step of each side, all taking turns."""
    with ExitStack() as stack:
        askers = [stack.enter_context(process(s, steps, sizes)) for s in sides]
        seconds = in_turns(askers, sizes.steps, clock=lambda ask: ask())
    return dict(zip(sides, seconds, strict=True))


@contextmanager
def process(side: str, steps: Steps, sizes: Sizes) -> Iterator[Callable[[], float]]:
    """A process of this module; each call lets it take a step and gives the seconds."""
    given = [json.dumps(asdict(x)) for x in (steps, sizes)]
    command = [sys.executable, "-m", "benchmarks.stepping", side, *given]
    # make lab sets for all what only the course's trainer sets by itself.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    options = {"cwd": ROOT, "env": environment, "encoding": "utf-8"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **options, **pipes) as running:

        def ask() -> float:
            running.stdin.write("\n")
            running.stdin.flush()
            return float(running.stdout.readline())

        ask()  # so that it is ready when the others are
        yield ask


def main(side: str, steps: Steps, sizes: Sizes) -> None:
    """Take a step for every line that comes in."""
    work = work_of(side, steps, sizes)
    for _ in range(2):  # warm up
        work()
    for _ in sys.stdin:
        print(timed(work), flush=True)


if __name__ == "__main__":
    side, steps, sizes = sys.argv[1:]
    main(side, Steps(**json.loads(steps)), Sizes(**json.loads(sizes)))
