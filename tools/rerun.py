"""Run the cells of a notebook again, as a reader does: what they print must not change.

After its cells have run from first to last, each is run a second time at once, and all
of them once more in a random order. Lesson 00 promises that this does no harm: a cell
must not change what another one, or itself, starts from.
"""

import copy
import random
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools import laws, notebooks

AGAIN = ("", " again", " again, after others")  # what a copy's id ends with


def with_reruns(notebook: NotebookNode, seed: int = 0) -> NotebookNode:
    """A notebook of its code cells: each twice in a row, then all in a random order."""
    cells = laws.code_cells(notebook)
    last = copy.deepcopy(cells)
    random.Random(seed).shuffle(last)
    found = []
    for cell in cells:
        found += [_copied(cell, AGAIN[0]), _copied(cell, AGAIN[1])]
    found += [_copied(cell, AGAIN[2]) for cell in last]
    return nbformat.v4.new_notebook(cells=found, metadata=notebook.metadata)


def _copied(cell: NotebookNode, ending: str) -> NotebookNode:
    """A copy without outputs; its tags say which cell it is, as ids have no spaces."""
    made = nbformat.v4.new_code_cell(cell.source)
    made.metadata["rerun"] = cell.id + ending
    return made


def faults(executed: NotebookNode) -> Iterator[str]:
    """The cells that, run again, fail or print another text."""
    # What a cell prints while it runs comes in one piece or in several.
    runs = {
        cell.metadata["rerun"]: [*notebooks.normal_outputs(cell)]
        for cell in executed.cells
    }
    texts = {name: notebooks.as_compared(run) for name, run in runs.items()}
    for name, first in texts.items():
        for ending in AGAIN[1:]:
            if texts.get(name + ending, first) != first:
                errors = [o for o in runs[name + ending] if o.output_type == "error"]
                what = (
                    f"stops: {errors[0].ename}" if errors else "prints something else"
                )
                yield f"cell {name}, run{ending}, {what}"


def rerun(path: Path, seed: int = 0) -> list[str]:
    """The faults of the notebook at `path`."""
    notebook = with_reruns(notebooks.read(path), seed)
    notebooks.execute(notebook, path.parent, allow_errors=True)
    return [*faults(notebook)]
