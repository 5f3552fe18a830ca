"""Stored digits and pictures go stale by content: what changes their hash."""

from pathlib import Path

import pytest
from nbformat import v4

from tools import computed_with
from tools.reproducible import ROOT

PICTURE = v4.new_output("display_data", {"image/png": "", "text/plain": "<Figure>"})
DIGITS = v4.new_output("stream", name="stdout", text="≈ 0.5\n")


def hashes(above="x = 1", own="print(x)", output=DIGITS, below="x = 2"):
    """The hash of the one cell of a notebook that another run may change."""
    cells = [v4.new_code_cell(source) for source in (above, own, below)]
    cells[1].outputs = [output]
    for cell, name in zip(cells, ("above", "own", "below"), strict=True):
        cell.id = name
    found = computed_with.hashes(v4.new_notebook(cells=cells))
    assert found.keys() == {"own"}
    return found["own"]


def test_a_cell_depends_on_its_code_and_on_all_above():
    assert hashes(own="print(x + 1)") != hashes()
    assert hashes(above="x = 3") != hashes()
    assert hashes(below="x = 4") == hashes()
    assert hashes(own="print(x)  # a remark") == hashes()


@pytest.mark.parametrize(
    ("imported", "changed", "output", "differs"),
    [
        ("from helpers.layers import LayerNorm", "layers", DIGITS, True),
        ("from helpers.encoder import Encoder", "layers", DIGITS, True),
        ("from helpers.masks import causal_mask", "layers", DIGITS, False),
        ("from helpers.plots import heatmap", "plots/style", DIGITS, False),
        ("from helpers.plots import heatmap", "plots/style", PICTURE, True),
        ("from helpers import checks", "checks/__init__", DIGITS, False),
    ],
)
def test_and_on_the_modules_it_computes_with(
    imported, changed, output, differs, monkeypatch
):
    before, file = hashes(imported, output=output), ROOT / "helpers" / f"{changed}.py"
    read, more = Path.read_text, {file: "x = 1\n"}

    def edited(path, *args, **options):
        return read(path, *args, **options) + more.get(path, "")

    monkeypatch.setattr(Path, "read_text", edited)
    assert (hashes(imported, output=output) != before) is differs


def test_one_file_holds_all_notebooks(tmp_path):
    lesson = tmp_path / "02_attention.ipynb"
    solution = tmp_path / "solutions" / "02_attention.ipynb"
    computed_with.store(lesson, {"a": "1"})
    computed_with.store(solution, {"a": "2"})
    computed_with.store(lesson, {"b": "3"})
    assert computed_with.stored_hashes(lesson) == {"b": "3"}
    assert computed_with.stored_hashes(solution) == {"a": "2"}
    assert computed_with.stored_hashes(tmp_path / "03_masks.ipynb") == {}
    assert [path.name for path in tmp_path.iterdir()] == ["computed_with.json"]
