"""A reader may run any cell again: what it prints must stay the same."""

import nbformat
import pytest

from tools import notebooks
from tools.rerun import rerun, with_reruns

LESSONS = [path.name for path in sorted(notebooks.NOTEBOOKS.glob("*.ipynb"))]


@pytest.mark.slow
def test_cells_that_change_what_they_start_from_are_found(tmp_path):
    sources = {
        "sizes": "sizes = [1, 2]",
        "grows": "sizes.append(3)\nprint(len(sizes))",
        "reads": "print(sum(sizes))",
        "name": "word = 'first'",
        "uses": "print(word)",
        "rebinds": "word = len(word)",
        "sound": "print(2 + 2)",
    }
    cells = [nbformat.v4.new_code_cell(text, id=name) for name, text in sources.items()]
    path = tmp_path / "lesson.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    found = rerun(path)
    assert "cell grows, run again, prints something else" in found
    assert "cell rebinds, run again, stops: TypeError" in found
    assert any(fault.startswith("cell uses, run again, after") for fault in found)
    assert not any("sound" in fault for fault in found)


def test_each_cell_runs_three_times_and_the_order_is_the_seeds():
    lesson = notebooks.read(next(notebooks.NOTEBOOKS.glob("02_*.ipynb")))
    first, again, other = (with_reruns(lesson, seed).cells for seed in (0, 0, 1))
    names = [
        [cell.metadata["rerun"] for cell in cells] for cells in (first, again, other)
    ]
    assert names[0] == names[1] != names[2]
    assert len({*names[0]}) == len(names[0]) == 3 * (len(names[0]) // 3)


@pytest.mark.long
@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_s_cells_can_be_run_again(name):
    assert not rerun(notebooks.NOTEBOOKS / name)
