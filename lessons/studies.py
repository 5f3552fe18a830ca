"""The stored tables of studies: experiments that are too long for a lesson."""

from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parent


def study(name: str) -> pd.DataFrame:
    """The table lessons/lessonNN/studies/NAME.csv: a row for each measurement.

    ValueError for a name that is not a study with a table.
    """
    tables = {path.stem: path for path in sorted(FOLDER.glob("lesson*/studies/*.csv"))}
    if name not in tables:
        raise ValueError(f"the studies are {', '.join(tables)}: not {name!r}")
    return pd.read_csv(tables[name], comment="#")
