"""The stored tables of studies/: experiments that are too long for a lesson."""

from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parents[1] / "studies"


def study(name: str) -> pd.DataFrame:
    """The table of studies/NAME.py: a row for each measurement.

    ValueError for a name that is not a study with a table.
    """
    names = sorted(path.stem for path in FOLDER.glob("*.csv"))
    if name not in names:
        raise ValueError(f"the studies are {', '.join(names)}: not {name!r}")
    return pd.read_csv(FOLDER / f"{name}.csv", comment="#")
