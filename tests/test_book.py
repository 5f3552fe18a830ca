"""What the book makes of the notebooks, before Sphinx makes pages of it."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from book import sources
from tools.notebooks import NOTEBOOKS, all_notebooks

PNG = {"image/png": "iVBORw0KGgo="}


def lesson(*code):
    """A lesson whose cells of code draw."""
    cells = [new_markdown_cell("# 99 · Draw\n\n**What you'll do.** Draw *it*.")]
    for i, source in enumerate(code):
        cell = new_code_cell(source, id=f"cell-{i}")
        cell.outputs = [new_output("display_data", data=PNG)]
        cells += [new_markdown_cell("## A heading\n\nLook. Here it is:"), cell]
    return new_notebook(cells=cells)


@pytest.fixture(scope="module")
def pages():
    return {path: sources.page(path) for path in all_notebooks(NOTEBOOKS)}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('title = "What it found"\ndraw(x, title=title)', "What it found"),
        ('draw(x, title=f"All {n} of them")', "All … of them"),
        ('titles = {"a": "One way", "b": "Another"}', "One way; Another"),
        ('ax.set_title("Said by the axis")', "Said by the axis"),
        ("draw(x)", "A heading: Here it is:"),
    ],
)
def test_a_picture_is_described(source, text):
    (figure,) = sources.figures(lesson(source), "99_draw")
    assert figure.text == text
    assert figure.claim == (text != "A heading: Here it is:")


def test_a_drawing_says_what_its_function_does():
    source = "from helpers.plots.mechanisms import masks as draw\ndraw.draw_shift(x)"
    (figure,) = sources.figures(lesson(source), "99_draw")
    assert figure.text.startswith("A heading: The input and, above it,")


def test_a_picture_of_which_nothing_is_said_stops_the_book():
    with pytest.raises(sources.BookError, match=r"99_draw, cell 'cell-0'"):
        list(sources.figures(lesson('title = "x"'), "99_draw"))


def test_a_study_that_a_figure_draws_is_its_command():
    source = 'rows = study("heads")\ndraw(rows, title="Heads differ")'
    found = list(sources.figures(lesson(source), "99_draw"))
    assert "`make studies NAME=heads`" in sources.claims(found)


def test_every_picture_of_the_course_has_a_text_and_an_anchor(pages):
    for path, page in pages.items():
        drawn = [cell for cell in page.cells if sources.has_picture(cell)]
        texts = [cell.metadata["mystnb"]["image"]["alt"] for cell in drawn]
        assert min(map(len, texts), default=10) >= 10, path
        anchors = {c.source for c in page.cells if c.source.startswith("<span id=")}
        assert anchors == {f'<span id="{cell.id}"></span>' for cell in drawn}, path


def test_setup_and_map_are_folded_and_nothing_else_changes(pages):
    for path, page in pages.items():
        before = {c.id: c.source for c in sources.read(path).cells}
        code = {c.id: c for c in page.cells if c.cell_type == "code"}
        assert "hide-cell" in code["setup"].metadata["tags"], path
        assert all(cell.source == before[key] for key, cell in code.items())
        nbformat.validate(page)


def test_a_solution_says_try_first(pages):
    for path, page in pages.items():
        solution = path.parent.name == "solutions"
        says = any("{admonition} Try first" in cell.source for cell in page.cells)
        assert says == solution, path


def test_anchors_in_links_are_headings():
    text = "[x](05_a.ipynb#What-is-it%3F) and [y](https://a.org/b#c%3F)"
    assert sources.ANCHOR.findall(text) == ["#What-is-it%3F"]


def test_a_search_leads_to_no_answer(pages):
    for path, page in pages.items():
        solution = path.parent.name == "solutions"
        assert page.metadata.get("nosearch", False) == solution, path


def test_home_lists_every_lesson():
    text = sources.home(["00_start_here", "01_embeddings_and_positions"])
    assert "\nnotebooks/01_embeddings_and_positions\n" in text
    assert "| route | lessons |" in text and "data-live-translator" in text
