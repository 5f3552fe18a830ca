"""What the book makes of the notebooks, before Sphinx makes pages of it."""

import re

import pytest

from book import pages, sources
from tools.notebooks import all_notebooks, read
from tools.reproducible import ROOT


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('title = "What it found"\ndraw(x, title=title)', "What it found"),
        ('draw(x, title=f"All {n} of $x$")', "All … of x"),
        ("ax.set_title('One')\nfigure.suptitle(\n    \"Two\"\n)", "One; Two"),
        ('ax.legend(title="seed")', "The figure under “A heading”"),
    ],
)
def test_a_picture_is_described_by_its_titles_or_its_heading(source, text):
    assert pages.in_words(source, "A heading") == text


@pytest.mark.parametrize("path", all_notebooks(), ids=lambda path: path.stem)
def test_every_picture_has_a_text_and_no_code_is_changed(path):
    page = pages.page(read(path), path)
    code = {cell.id: cell for cell in page.cells if cell.cell_type == "code"}
    assert "hide-cell" in code["setup"].metadata["tags"]
    for cell in (cell for cell in read(path).cells if cell.id in code):
        assert code[cell.id].source == cell.source
        given = code[cell.id].metadata.get("mystnb", {"image": {"alt": ""}})
        assert (len(given["image"]["alt"]) >= 10) == ("image/png" in str(cell.outputs))
    # no search leads to an answer
    says = "{admonition} Try first" in page.cells[1].source
    assert says == page.metadata.get("nosearch", False) == ("solutions" in path.parts)


def test_the_first_page_quotes_readme_and_what_is_linked_is_copied(tmp_path):
    sources.write(tmp_path / "sources")
    home = (tmp_path / "sources" / "index.md").read_text("utf-8")
    quoted = re.findall(r'^:(?:start-after|end-before): "(.+)"$', home, re.M)
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [readme.count(f"\n{heading}") for heading in quoted] == [1] * 5
    for name in ("cross_attention.png", "../lessons/lesson11/studies/serving.csv"):
        assert (tmp_path / "sources" / "notebooks" / name).is_file()
