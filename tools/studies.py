"""Run studies and store their tables: python -m tools.studies [--check] [NAME …]

A study is an experiment that is too long for a notebook: its script in
lessons/lessonNN/studies/ begins with its question, and its `rows(tiny=False)` yields
the rows of the table NAME.csv beside it, one dictionary each. Without names: all of
them, in under two hours. --check stores nothing and says how many entries differ from
the stored table's; its columns and the number of its rows have to be the same.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from io import StringIO
from pathlib import Path

from tools.reproducible import ROOT, make_reproducible

make_reproducible(os.environ)  # before torch is imported
sys.path.append(str(ROOT / "checkup" / "tests"))  # the check-up's list of faults

import pandas as pd  # noqa: E402

from helpers.runtime import environment_report  # noqa: E402
from helpers.scale.checkpoints import write_atomically  # noqa: E402

LIMIT = 10  # minutes
SCRIPTS = {
    path.stem: path
    for pattern in ("lessons/lesson*/studies/*.py", "checkup/studies/*.py")
    for path in sorted(ROOT.glob(pattern))
}
OPTIONAL = {"ctranslate2"}  # what a study may need that the course does not install


def rows(name: str, *, tiny: bool = False) -> Iterator[dict]:
    """The rows of a study as they are measured; of a `tiny` run, for tests."""
    module = ".".join(SCRIPTS[name].relative_to(ROOT).with_suffix("").parts)
    return import_module(module).rows(tiny=tiny)


def run(name: str) -> pd.DataFrame:
    """Run a study, printing each row."""
    found = []
    for row in rows(name):
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        found.append(row)
    return pd.DataFrame(found)


def stored(name: str) -> pd.DataFrame:
    """The table that is there."""
    return pd.read_csv(SCRIPTS[name].with_suffix(".csv"), comment="#")


def store(name: str, table: pd.DataFrame) -> None:
    """Replace a study's table; its first line names the versions that made it."""
    versions = ", ".join(f"{key} {v}" for key, v in environment_report().items())
    text = f"# {versions}\n" + table.to_csv(index=False, lineterminator="\n")

    def put(part: Path) -> None:
        part.write_text(text, "utf-8", newline="\n")

    write_atomically(SCRIPTS[name].with_suffix(".csv"), put)


def compare(table: pd.DataFrame, before: pd.DataFrame) -> str:
    """How a new table differs from the stored one; ValueError for another form."""
    if [*table.columns] != [*before.columns] or len(table) != len(before):
        raise ValueError(f"{table.shape} rows and columns, stored are {before.shape}")
    table = pd.read_csv(StringIO(table.to_csv(index=False)))  # as it would be stored
    same = (table == before) | (table.isna() & before.isna())
    return f"{int((~same).to_numpy().sum())} of {same.size} entries differ"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the studies that the command line names; 1 if one failed or took too long."""
    parser = argparse.ArgumentParser(prog="python -m tools.studies")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCRIPTS))
    parser.add_argument("--check", action="store_true", help="store nothing, compare")
    options = parser.parse_args(arguments)
    if unknown := {*options.names} - {*SCRIPTS}:
        parser.error(f"no study {', '.join(sorted(unknown))}: see --help")
    failed = False
    for name in options.names or SCRIPTS:
        started = time.perf_counter()
        try:
            table = run(name)
            text = compare(table, stored(name)) if options.check else "stored"
        except ModuleNotFoundError as error:
            if error.name not in OPTIONAL:
                raise
            print(f"{name}: left out, without {error.name}", flush=True)
            continue
        except ValueError as error:
            text, failed = str(error), True
        else:
            if not options.check:
                store(name, table)
        minutes = (time.perf_counter() - started) / 60
        failed |= minutes > LIMIT
        print(f"{name}: {text}; {minutes:.1f} minutes", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
