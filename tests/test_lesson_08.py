"""The table that closes lesson 08 leads from every part to the lesson that built it."""

import re

import nbformat
import pytest

from helpers.plots import PARTS
from tools.reproducible import ROOT

NOTEBOOKS = ROOT / "notebooks"
TABLE = next(
    cell.source
    for cell in nbformat.read(NOTEBOOKS / "08_transformer.ipynb", as_version=4).cells
    if cell.id == "map-of-lessons"
)


@pytest.mark.parametrize("part", PARTS)
def test_every_part_leads_to_its_lesson(part):
    """A link to the notebook if it is written, "lesson NN, planned" if it is not."""
    number, _ = PARTS[part]
    written = next(NOTEBOOKS.glob(f"{number}_*.ipynb"), None)
    links = re.findall(rf"\[{re.escape(part)}\]\(([^)]*)\)", TABLE)
    planned = re.search(
        rf"\b{re.escape(part)}\b[^|\[]*\(lesson {number}, planned\)", TABLE
    )
    assert bool(links) != bool(planned), (
        f"{part}: a link or “planned”, not both or none"
    )
    assert all(re.fullmatch(rf"{number}_\w+\.ipynb", link) for link in links), links
    if written:
        assert links and set(links) == {written.name}, f"{part}: link to {written.name}"


def test_the_table_is_laid_out_like_the_map():
    """Two columns, encoder and decoder; from the data below to the loss above."""
    rows = re.findall(r"^\| ?(.*?) ?\| ?(.*?) ?\|$", TABLE, re.MULTILINE)
    assert rows[0] == ("encoder", "decoder")
    encoder, decoder = (
        " ".join(column) for column in zip(*reversed(rows), strict=True)
    )
    upwards = "data", "embeddings", "positions", "masks", "feed-forward", "training"
    places = [encoder.index(f"{name}") for name in upwards]
    assert places == sorted(places)
    upwards = (
        "data",
        "embeddings",
        "masked self",
        "cross-",
        "feed-forward",
        "projection",
    )
    places = [decoder.index(f"{name}") for name in upwards]
    assert places == sorted(places)
