"""Which stored outputs still hold: by the code they were computed with, not by dates.

Numbers after "≈" and pictures differ from run to run and machine to machine. `make
run` keeps the stored ones as long as the code that computed them is the same: a hash of
it, for each such cell, stands in one file for all notebooks, computed_with.json.
"""

import json
import os
from importlib.metadata import version
from pathlib import Path

from nbformat import NotebookNode

from helpers.provenance import code_hash, imported, with_imports
from tools import laws

NAME = "computed_with.json"
COMPUTING, DRAWING = ("torch", "numpy"), ("matplotlib", "seaborn")


def hashes(notebook: NotebookNode) -> dict[str, str]:
    """{cell id: hash} for the cells whose output another run may change.

    A cell is computed by all code above it, since names and random numbers come from
    there, and by the modules of helpers/ that this code imports. Exercises' checks
    compute no number, and helpers.plots counts for pictures only.
    """
    found, above = {}, []
    for cell in laws.code_cells(notebook):
        if laws.has_tag(cell, "setup") or laws.has_tag(cell, "map"):
            continue
        above.append(cell.source)
        drawn = any("image/png" in output.get("data", {}) for output in cell.outputs)
        if drawn or laws.depends_on_the_machine(laws.stored_text(cell)):
            found[cell.id] = _hash(above, drawn)
    return found


def _hash(cells: list[str], drawn: bool) -> str:
    skipped = {"checks"} if drawn else {"checks", "plots"}
    used = {path for text in cells for path in imported(text)}
    used = {path for path in used if path.parent.name not in skipped}
    modules = [path.read_text("utf-8") for path in with_imports(used)]
    packages = COMPUTING + (DRAWING if drawn else ())
    return code_hash([*cells, *modules], *map(version, packages))


def stored_hashes(path: Path) -> dict[str, str]:
    """What `store` noted for the notebook at `path`; {} if nothing."""
    sidecar, name = _place(path)
    if not sidecar.exists():
        return {}
    return json.loads(sidecar.read_text("utf-8")).get(name, {})


def store(path: Path, found: dict[str, str]) -> None:
    """Note what the outputs of the notebook at `path` were computed with."""
    sidecar, name = _place(path)
    noted = json.loads(sidecar.read_text("utf-8")) if sidecar.exists() else {}
    noted[name] = found
    text = json.dumps(dict(sorted(noted.items())), indent=1, ensure_ascii=False) + "\n"
    temporary = sidecar.with_suffix(".partial")
    temporary.write_text(text, "utf-8", newline="\n")
    os.replace(temporary, sidecar)


def _place(path: Path) -> tuple[Path, str]:
    """The one file, and the notebook's name in it: "solutions/02_attention"."""
    folder, name = path.parent, path.stem
    if folder.name == "solutions":
        folder, name = folder.parent, f"solutions/{name}"
    return folder / NAME, name
