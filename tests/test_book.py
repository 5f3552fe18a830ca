"""What the book makes of the notebooks, before Sphinx makes pages of it."""

import copy
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from book import claims, pages, sources
from book.figures import BookError, figures, has_picture, studies
from tools import laws
from tools.notebooks import NOTEBOOKS, all_notebooks

PNG = {"image/png": "iVBORw0KGgo="}


def lesson(*code, learned=("**Is it so?** Yes.",)):
    """A lesson whose cells of code draw."""
    cells = [new_markdown_cell("# 99 · Draw\n\n**What you'll do.** Draw *it*.")]
    for i, source in enumerate(code):
        cell = new_code_cell(source, id=f"cell-{i}")
        cell.outputs = [new_output("display_data", data=PNG)]
        cells += [new_markdown_cell("## A heading\n\nLook. Here it is:"), cell]
    closing = "\n".join(f"- {answer}" for answer in learned)
    cells.append(new_markdown_cell(f"## What you learned\n\n{closing}"))
    return new_notebook(cells=cells)


@pytest.fixture(scope="module")
def stored():
    """{path: the notebook, its figures}"""
    read = {path: nbformat.read(path, 4) for path in all_notebooks(NOTEBOOKS)}
    return {path: (nb, [*figures(nb, path.stem)]) for path, nb in read.items()}


@pytest.fixture(scope="module")
def shown(stored):
    """{path: the notebook as the book shows it}"""
    return {
        path: pages.page(copy.deepcopy(notebook), path, drawn)
        for path, (notebook, drawn) in stored.items()
    }


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('title = "What it found"\ndraw(x, title=title)', "What it found"),
        ('draw(x, title=f"All {n} of them")', "All … of them"),
        ('titles = {"a": "One way", "b": "Another"}', "One way; Another"),
        ('ax.set_title("Said by the axis")', "Said by the axis"),
        (
            'draw(x, title="The first one")\nax.legend(title="seed")\ntitle = ""',
            "The first one",
        ),
        ("draw(x)", "A heading: Here it is:"),
    ],
)
def test_a_picture_is_described(source, text):
    (figure,) = figures(lesson(source), "99_draw")
    assert figure.text == text
    assert figure.titled == (text != "A heading: Here it is:")


def test_a_drawing_says_what_its_function_does():
    source = "from helpers.plots.mechanisms import masks as draw\ndraw.draw_shift(x)"
    (figure,) = figures(lesson(source), "99_draw")
    assert figure.text.startswith("A heading: The input and, above it,")


def test_a_picture_of_which_nothing_is_said_stops_the_book():
    with pytest.raises(BookError, match=r"99_draw, cell 'cell-0'"):
        list(figures(lesson('title = "x"'), "99_draw"))


def test_every_picture_of_the_course_has_a_text_and_an_anchor(shown):
    for path, page in shown.items():
        drawn = [cell for cell in page.cells if has_picture(cell)]
        texts = [cell.metadata["mystnb"]["image"]["alt"] for cell in drawn]
        assert min(map(len, texts), default=10) >= 10, path
        anchors = {c.source for c in page.cells if c.source.startswith("<span id=")}
        assert anchors == {f'<span id="{cell.id}"></span>' for cell in drawn}, path


def test_setup_and_map_are_folded_and_nothing_else_changes(shown, stored):
    for path, page in shown.items():
        before = {c.id: c.source for c in stored[path][0].cells}
        code = {c.id: c for c in page.cells if c.cell_type == "code"}
        assert "hide-cell" in code["setup"].metadata["tags"], path
        assert all(cell.source == before[key] for key, cell in code.items())
        nbformat.validate(page)


def test_a_solution_says_try_first(shown):
    for path, page in shown.items():
        solution = path.parent.name == "solutions"
        says = any("{admonition} Try first" in cell.source for cell in page.cells)
        assert says == solution, path


def test_anchors_in_links_are_headings():
    text = "[x](05_a.ipynb#What-is-it%3F) and [y](https://a.org/b#c%3F)"
    assert pages.ANCHOR.findall(text) == ["#What-is-it%3F"]


def test_a_search_leads_to_no_answer(shown):
    for path, page in shown.items():
        solution = path.parent.name == "solutions"
        assert page.metadata.get("nosearch", False) == solution, path


def test_home_lists_every_lesson():
    text = sources.home(["00_start_here", "01_embeddings_and_positions"])
    assert "\nnotebooks/01_embeddings_and_positions\n" in text
    assert "| route | lessons |" in text and "data-live-translator" in text


# -- the index of claims ---------------------------------------------------------------


def test_a_study_is_followed_through_variables_until_they_hold_something_else():
    notebook = lesson(
        'table = study("heads")\nmeans = table.mean()',
        "draw(means)",
        "table = [means for means in range(3)]",
        "draw(table)",
        "for means in table:\n    draw(means)",
        "draw(means)",
        'draw(pd.concat([study("beams"), study("rates")]))',
    )
    cells = [f"cell-{i}" for i in (0, 1, 6)]
    read = [["heads"], ["heads"], ["beams", "rates"]]
    assert studies(notebook) == dict(zip(cells, read, strict=True))


def test_a_claim_has_its_figure_and_the_study_its_command():
    notebook = lesson(
        'rows = study("heads")',
        'draw(rows, title="More heads are no better")',
        'draw(study("warm_up"), x)',
        'pd.concat([study("beams"), study("rates")])',
        learned=(
            "**Are more heads better?** No: see [that](03_masks.ipynb).",
            "**Which $m$ do masks need?** None.",
        ),
    )
    del notebook.cells[2]["outputs"], notebook.cells[8]["outputs"]
    found = claims.shown(notebook, [*figures(notebook, "99_draw")])
    index = claims.entry(notebook, "99_draw", found)
    assert index.split("\n\n") == [
        "## 99 · Draw",
        "[Read the lesson](notebooks/99_draw.ipynb), or compute it again: "
        "`make run ARGS=notebooks/99_draw.ipynb`",
        "**Are more heads better?** No: see [that](notebooks/03_masks.ipynb).",
        '- <a href="notebooks/99_draw.html#cell-1">More heads are no better</a> '
        "`make studies NAME=heads`",
        "**Which $m$ do masks need?** None.",
        "Also in this lesson:",
        '- <a href="notebooks/99_draw.html#cell-2">the study warm_up</a> '
        "`make studies NAME=warm_up`\n"
        '- <a href="notebooks/99_draw.html#cell-3">the studies beams and rates</a> '
        '`make studies NAME="beams rates"`',
    ]


def test_a_figure_belongs_to_an_answer_only_where_that_is_clear():
    answers = ["Does the warm-up help? At high rates.", "What do masks hide? Padding."]
    for text, place in (
        ("A high rate needs a warm-up", 0),
        ("```\nwarm_up()\n```\nMasks over padding", 1),
        ("High padding", None),
        ("Something else", None),
        ("", None),
    ):
        assert claims.nearest(answers, text) == place


def test_the_index_holds_every_answer_titled_figure_and_study(stored):
    for path, (notebook, drawn) in stored.items():
        if path.parent != NOTEBOOKS:
            continue
        found = claims.shown(notebook, drawn)
        index = claims.entry(notebook, path.stem, found)
        asked = laws.opening_bullets(notebook)
        assert re.findall(r"^\*\*(.+?)\*\* \S", index, flags=re.M) == asked
        cells = re.findall(r'href="notebooks/[^"#]+#([\w-]+)"', index)
        assert len(cells) == len({*cells})
        assert {figure.cell for figure in drawn if figure.titled} <= {*cells}
        code = "\n".join(cell.source for cell in laws.code_cells(notebook))
        for name in re.findall(r'\bstudy\("(\w+)"', code):
            assert re.search(rf"`make studies NAME=.*\b{name}\b", index), name


def test_a_lesson_without_answers_stops_the_book():
    with pytest.raises(BookError, match="nothing under What you learned"):
        claims.answers(lesson(learned=()))
