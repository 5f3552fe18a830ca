"""Studies run, and their tables are those that lessons read."""

import pandas as pd
import pytest

from lessons.studies import study
from tools import studies

# Its tiny run takes a second or two; `make test-long` runs all of them.
QUICK = "mask_leak"
NAMES = [
    pytest.param(name, marks=[] if name == QUICK else pytest.mark.long)
    for name in studies.SCRIPTS
]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_study_runs_at_a_tiny_size_and_has_the_columns_of_its_table(name):
    try:
        found = pd.DataFrame(studies.rows(name, tiny=True))
    except ModuleNotFoundError as error:
        if error.name not in studies.OPTIONAL:
            raise
        pytest.skip(f"{error.name} is not installed")
    before = studies.stored(name)
    assert list(found.columns) == list(before.columns)
    assert len(found) < len(before)


def test_a_table_says_by_which_versions_it_was_made(tmp_path, monkeypatch):
    monkeypatch.setitem(studies.SCRIPTS, "squares", tmp_path / "squares.py")
    squares = {"n": 1, "square": 1.0, "note": ""}, {"n": 2, "square": 4.0}
    table = pd.DataFrame(squares)
    studies.store("squares", table)
    first = (tmp_path / "squares.csv").read_text("utf-8").splitlines()[0]
    assert first.startswith("# Python 3.") and "torch 2." in first
    assert studies.compare(table, studies.stored("squares")) == "0 of 6 entries differ"
    with pytest.raises(ValueError, match=r"\(1, 3\).* stored are \(2, 3\)"):
        studies.compare(table[:1], studies.stored("squares"))


def test_a_table_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"the studies are .*: not 'squares'"):
        study("squares")
