"""Studies run, and their tables say by which code they were made."""

import sys

import pandas as pd
import pytest

from lessons import studies as stored
from studies import tables
from studies.__main__ import main

CODE = '''\
"""Which is larger?"""
from helpers.masks import causal_mask


def rows(*, tiny=False):
    for n in (1, 2) if tiny else (1, 2, 3):
        yield {"n": n, "cells": causal_mask(n).numel()}
'''


@pytest.mark.slow
@pytest.mark.parametrize("name", tables.NAMES)
def test_a_study_runs_at_a_tiny_size_and_has_the_columns_of_its_table(name):
    try:
        found = pd.DataFrame(tables.rows(name, tiny=True))
    except ModuleNotFoundError as error:
        if error.name not in tables.OPTIONAL:
            raise
        pytest.skip(f"{error.name} is not installed")
    assert list(found.columns) == list(stored.study(name).columns)
    assert len(found) < len(stored.study(name))


@pytest.mark.parametrize("name", tables.NAMES)
def test_a_table_was_made_by_the_code_as_it_is(name):
    """Only said by `make test`; `make test-long` fails, by --runxfail."""
    stale = tables.is_stale(name)
    if stale:
        pytest.xfail(f"studies/{name}.csv is stale: make studies NAME={name}")
    assert not stale


@pytest.fixture
def squares(tmp_path, monkeypatch):
    """A study of three rows, in a folder of its own, not yet run."""
    monkeypatch.setattr(tables, "FOLDER", tmp_path)
    monkeypatch.setattr(stored, "FOLDER", tmp_path)
    monkeypatch.setattr("studies.__path__", [str(tmp_path)])
    path = tmp_path / "squares.py"
    path.write_text(CODE, "utf-8")
    return path


def test_a_table_is_stored_with_its_code_and_goes_stale_with_it(squares):
    assert tables.is_stale("squares")
    tables.store("squares")
    assert stored.study("squares").to_dict("list") == {
        "n": [1, 2, 3],
        "cells": [1, 4, 9],
    }
    assert not tables.is_stale("squares")
    squares.write_text(CODE.replace("larger?", "larger, and why?"), "utf-8")
    assert not tables.is_stale("squares"), "a docstring computes nothing"
    squares.write_text(CODE.replace("(1, 2, 3)", "(1, 2, 3, 4)"), "utf-8")
    assert tables.is_stale("squares")


def test_a_study_without_its_package_leaves_its_table(squares, monkeypatch, capsys):
    tables.store("squares")
    before = (squares.parent / "squares.csv").read_text("utf-8")
    squares.write_text("import ctranslate2\n" + CODE, "utf-8")
    monkeypatch.delitem(sys.modules, "studies.squares", raising=False)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    monkeypatch.setattr(tables, "NAMES", ["squares"])
    capsys.readouterr()
    assert main([]) == 0
    said = "studies/squares.csv: left as it is, without ctranslate2\n"
    assert capsys.readouterr().out == said
    assert (squares.parent / "squares.csv").read_text("utf-8") == before


def test_a_study_without_another_module_fails(squares, monkeypatch):
    squares.write_text("import no_such_module\n" + CODE, "utf-8")
    monkeypatch.delitem(sys.modules, "studies.squares", raising=False)
    monkeypatch.setattr(tables, "NAMES", ["squares"])
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        main([])


def test_a_table_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"the studies are .*: not 'squares'"):
        stored.study("squares")
