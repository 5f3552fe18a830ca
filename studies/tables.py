"""Store a study's table together with a hash of the code that made it."""

import importlib
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from helpers.provenance import code_hash, with_imports
from helpers.runtime import environment_report
from helpers.scale.checkpoints import write_atomically

FOLDER = Path(__file__).parent
PICTURES = FOLDER.parent / "helpers" / "plots"
OWN = {"__init__", "__main__", "tables"}
# What a study may need that the course does not install.
OPTIONAL = {"ctranslate2"}
NAMES = sorted({path.stem for path in FOLDER.glob("*.py")} - OWN)


def rows(name: str, *, tiny: bool = False) -> Iterator[dict]:
    """The rows of a study as they are measured; of a `tiny` run, for tests."""
    return importlib.import_module(f"studies.{name}").rows(tiny=tiny)


def store(name: str) -> None:
    """Run a study, printing each row, and replace its table when it is through."""
    code, found = code_of(name), []
    for row in rows(name):
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        found.append(row)
    versions = ", ".join(f"{key} {v}" for key, v in environment_report().items())
    text = pd.DataFrame(found).to_csv(index=False, lineterminator="\n")
    header = f"# code {code} of studies/{name}.py; {versions}\n"
    write_atomically(
        FOLDER / f"{name}.csv",
        lambda part: part.write_text(header + text, "utf-8", newline="\n"),
    )


def is_stale(name: str) -> bool:
    """Whether a study's code has changed since its table was stored, or there is none.

    What a study imports from the course counts; comments, docstrings and
    helpers/plots do not.
    """
    table = FOLDER / f"{name}.csv"
    if not table.exists():
        return True
    with table.open(encoding="utf-8") as file:
        return not file.readline().startswith(f"# code {code_of(name)} ")


def code_of(name: str) -> str:
    """A hash of the study and of all that it imports from the course but pictures."""
    paths = with_imports([FOLDER / f"{name}.py"])
    computing = [path for path in paths if PICTURES not in path.parents]
    return code_hash(path.read_text("utf-8") for path in computing)
