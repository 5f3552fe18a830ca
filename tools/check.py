"""Check what a small change can have broken: make check [LESSON=02] [CHANGED=main].

python -m tools.check                 the laws and the unit tests, with one seed, but
                                      not the exercises' tables: each is its lesson's
python -m tools.check --lesson 02     that lesson and its solution, executed and
                                      compared; its laws; its exercises' checks
python -m tools.check --changed main  the same for each lesson that differs from the
                                      branch main, or that uses what differs
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from helpers.provenance import imported, with_imports
from tools import laws, notebooks
from tools.reproducible import ROOT

PARALLEL = ("-n", "auto", "--maxprocesses", "4", "--dist", "loadfile")
UNIT_TESTS = ("tests", "--seeds", "1", "-m", "not slow and not long")
# Every row of every exercise's table: minutes, so each lesson runs its own.
TABLES = "tests/test_exercises.py"
# The tests that hold all notebooks to the laws, and all tables to their answers.
LAWS = (
    "tests/test_notebooks.py",
    "tests/test_one_text_two_places.py",
    TABLES,
)
ANSWERS = "tests/answers"


def lessons() -> list[str]:
    """The numbers of all lessons: 00, 01, …"""
    return [path.name[:2] for path in sorted(notebooks.NOTEBOOKS.glob("*.ipynb"))]


def files_of(number: str) -> list[Path]:
    """What belongs to one lesson: its notebooks first, then the tests of its own."""
    patterns = (
        f"notebooks/{number}_*.ipynb",
        f"notebooks/solutions/{number}_*.ipynb",
        f"tests/test_checks_{number}.py",
        f"tests/test_lesson_{number}.py",
    )
    return [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]


def used_by(number: str) -> set[Path]:
    """The files of a lesson, and the modules of helpers/ that its notebooks use."""
    own = files_of(number)
    cells = [
        cell.source
        for path in own
        if path.suffix == ".ipynb"
        for cell in laws.code_cells(notebooks.read(path))
    ]
    used = {path for cell in cells for path in imported(cell)}
    # The checks are loaded when they are used, so that no cell imports them.
    exercises = (
        f"{folder}/lesson{number}.py" for folder in ("helpers/checks", ANSWERS)
    )
    used |= {path for path in map(ROOT.joinpath, exercises) if path.exists()}
    return {*own, *with_imports(used)}


def differing(branch: str) -> set[Path]:
    """The files that differ from where `branch` was left, uncommitted ones included."""
    git = ["git", "-C", str(ROOT)]
    changed = [*git, "diff", "--name-only", "--merge-base", branch, "--"]
    new = [*git, "ls-files", "--others", "--exclude-standard"]
    names = [
        subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
        for command in (changed, new)
    ]
    return {ROOT / name for found in names for name in found.stdout.splitlines()}


def touched(changed: Iterable[Path]) -> list[str]:
    """The lessons that use one of these files; all, if it is in requirements.txt."""
    changed = set(changed)
    if ROOT / "requirements.txt" in changed:
        return lessons()
    return [number for number in lessons() if used_by(number) & changed]


def arguments(numbers: Sequence[str]) -> list[str]:
    """What pytest is called with to check these lessons."""
    own = [path for number in numbers for path in files_of(number)]
    words = [*(path.stem for path in own), "lessons_show_what_helpers_keeps"]
    words += [f"lesson{number}-" for number in numbers]
    paths = [*(path.relative_to(ROOT).as_posix() for path in own), *LAWS]
    return [*paths, "-k", " or ".join(words), "--seeds", "1"]


def main(given: Sequence[str] | None = None) -> int:
    """The command line; returns pytest's exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.check",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--lesson", choices=lessons(), metavar="NN")
    parser.add_argument("--changed", metavar="BRANCH")
    options = parser.parse_args(given)
    chosen = [*UNIT_TESTS, "--ignore", TABLES]
    if options.lesson or options.changed:
        numbers = [options.lesson] if options.lesson else []
        if options.changed:
            numbers += touched(differing(options.changed))
        if not numbers:
            print(f"no lesson differs from {options.changed}, or uses what differs")
            return 0
        print(f"lessons {', '.join(sorted({*numbers}))}")
        chosen = arguments(sorted({*numbers}))
    command = [sys.executable, "-m", "pytest", "-q", *PARALLEL, *chosen]
    return subprocess.run(command, cwd=ROOT, env=dict(os.environ)).returncode


if __name__ == "__main__":
    sys.exit(main())
