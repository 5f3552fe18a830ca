"""The overview in lesson 00 says what is there: lessons, minutes, names, the map."""

import re

import nbformat
import pytest

import helpers
from helpers.plots import PARTS
from tools.reproducible import ROOT

NOTEBOOKS = ROOT / "notebooks"
TEXT = "\n".join(
    cell.source
    for cell in nbformat.read(NOTEBOOKS / "00_start_here.ipynb", as_version=4).cells
    if cell.cell_type == "markdown"
)
# number, what stands in the column "lesson", state
ROW = re.compile(r"^\| (\d\d) \| (.+?) \| .+ \| (.+?) \|$", re.MULTILINE)
ROWS = {number: row for number, *row in ROW.findall(TEXT)}


def written(number):
    """The lesson's file, or None."""
    return next(NOTEBOOKS.glob(f"{number}_*.ipynb"), None)


def test_all_lessons_are_listed():
    assert list(ROWS) == [f"{number:02}" for number in range(18)]
    assert {lesson for lesson, _ in PARTS.values()} <= set(ROWS)


@pytest.mark.parametrize("number", ROWS)
def test_the_state_of_each_lesson(number):
    title, state = ROWS[number]
    path = written(number)
    if path is None:
        assert state == "planned"
        return
    assert state == ("you are here" if number == "00" else "written")
    assert number == "00" or f"({path.name})" in title


def test_the_special_tokens_are_told_right():
    told = dict(re.findall(r"`(PAD|UNK|BOS|EOS)` = (\d)", TEXT))
    assert {name: int(told[name]) for name in told} == {
        name: getattr(helpers, name) for name in ("PAD", "UNK", "BOS", "EOS")
    }
