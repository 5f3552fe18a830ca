"""What the book makes of the notebooks, before Sphinx makes pages of it."""

import copy

import nbformat
import pytest

from book import pages, sources
from tools.notebooks import all_notebooks


@pytest.fixture(scope="module")
def shown():
    """[(path, the notebook as it is stored, as the book shows it)]"""
    read = [(path, nbformat.read(path, as_version=4)) for path in all_notebooks()]
    return [(path, nb, pages.page(copy.deepcopy(nb), path)) for path, nb in read]


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


def test_every_picture_of_the_course_has_a_text(shown):
    for path, stored, page in shown:
        drawn = [c.id for c in stored.cells if "image/png" in str(c.get("outputs"))]
        given = {c.id: c.metadata.mystnb for c in page.cells if "mystnb" in c.metadata}
        assert [*given] == drawn, path
        assert all(len(one["image"]["alt"]) >= 10 for one in given.values()), path


def test_setup_is_folded_and_no_code_is_changed(shown):
    for path, stored, page in shown:
        before = {cell.id: cell.source for cell in stored.cells}
        code = {cell.id: cell for cell in page.cells if cell.cell_type == "code"}
        assert "hide-cell" in code["setup"].metadata["tags"], path
        assert all(cell.source == before[key] for key, cell in code.items()), path


def test_a_solution_says_try_first_and_no_search_leads_to_it(shown):
    for path, _, page in shown:
        says = any("{admonition} Try first" in cell.source for cell in page.cells)
        hidden, folder = page.metadata.get("nosearch", False), path.parent.name
        assert says == hidden == (folder == "solutions"), path


def test_home_lists_the_lessons_and_what_is_linked_is_copied(tmp_path):
    sources.write(tmp_path / "sources")
    home = (tmp_path / "sources" / "index.md").read_text("utf-8")
    assert "\nnotebooks/01_embeddings_and_positions\n" in home
    assert "data-live-translator" in home
    assert (tmp_path / "sources/lessons/lesson11/studies/serving.csv").is_file()
