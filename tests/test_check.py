"""make check finds the lessons that a change can have broken."""

import subprocess
import sys

import pytest

from tools import check
from tools.reproducible import ROOT


@pytest.mark.parametrize(
    ("changed", "lessons"),
    [
        ("notebooks/03_masks.ipynb", {"03"}),
        ("notebooks/solutions/03_masks.ipynb", {"03"}),
        ("tests/test_lesson_03.py", {"03"}),
        ("lessons/lesson03/exercises.py", {"03"}),
        ("tests/answers/lesson02.py", {"02"}),
        ("lessons/lesson16/readings/d2l_blocks.py", {"16"}),
        ("README.md", set()),
    ],
)
def test_a_file_touches_the_lessons_that_use_it(changed, lessons):
    assert {*check.touched([ROOT / changed])} == lessons


def test_a_module_touches_what_imports_it_however_far():
    touched = {*check.touched([ROOT / "helpers" / "caching.py"])}
    assert {"11", "13"} <= touched and "01" not in touched
    assert check.touched([ROOT / "requirements.txt"]) == check.lessons()


def test_what_differs_from_a_branch_includes_what_is_not_committed(
    tmp_path, monkeypatch
):
    def git(*arguments):
        name = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(["git", *name, "-C", tmp_path, *arguments], check=True)

    def write(name):
        (tmp_path / name).write_text(name, "utf-8")

    git("init", "-q", "-b", "main")
    for name in ("same", "edited"):
        write(name)
    git("add", ".")
    git("commit", "-qm", "x")
    git("switch", "-qc", "work")
    write("committed")
    git("add", ".")
    git("commit", "-qm", "x")
    (tmp_path / "edited").write_text("otherwise", "utf-8")
    write("new")
    monkeypatch.setattr(check, "ROOT", tmp_path)
    names = {path.name for path in check.differing("main")}
    assert names == {"committed", "edited", "new"}


@pytest.mark.slow
def test_a_lesson_is_checked_with_its_solution_laws_and_checks():
    command = [sys.executable, "-m", "pytest", *check.arguments(["03"])]
    found = subprocess.run(
        [*command, "--collect-only", "-q"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    ).stdout
    for part in (
        "notebooks/03_masks.ipynb::",
        "notebooks/solutions/03_masks.ipynb::",
        "test_exercises.py::",
        "test_lesson_follows_the_contract[notebooks/03_masks]",
        "test_lessons_show_what_helpers_keeps",
    ):
        assert part in found
    assert "02_attention" not in found and "test_checks_02" not in found
