"""What a reader would notice in a stored notebook."""

import ast
import re
import subprocess
import sys
from urllib.parse import unquote

import pytest

from tools.notebooks import (
    NOTEBOOKS,
    all_notebooks,
    code_cells,
    has_tag,
    read,
    setup_cell,
    write,
)
from tools.reproducible import ROOT

PAGE = NOTEBOOKS / "on_one_page.ipynb"
PATHS = {f"{p.parent.name}-{p.name[:2]}": p for p in all_notebooks()}
LESSONS = {x: p for x, p in PATHS.items() if p.parent == NOTEBOOKS and p != PAGE}
PAGES = [*PATHS.values(), *NOTEBOOKS.glob("*.md"), *ROOT.glob("*.md")]
PAGES += [*ROOT.glob("book/*.md"), *ROOT.glob("checkup/*.md")]
# (cells, words, lines of code) of a lesson as far as "Going deeper", and of all of it.
LIMITS = (45, 1_700, 260), (75, 2_600, 400)
EXERCISE = r"### (Exercise (\d\d)\.\d+ · .+ \((?:easy|medium|hard), (\d+) minutes\))$"

every_notebook = pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
every_lesson = pytest.mark.parametrize("path", LESSONS.values(), ids=LESSONS)


def without_code(markdown):
    markdown = re.sub(r"^(```+|~~~+).*?^\1 *$", "", markdown, flags=re.M | re.S)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "", markdown)


def markdown(cells):
    return "\n\n".join(c.source for c in cells if c.cell_type == "markdown")


def text_of_page(path):
    if path.suffix == ".ipynb":
        return markdown(read(path).cells)
    return path.read_text("utf-8")


def text_of(output):
    return output.get("text") or output.get("data", {}).get("text/plain", "")


def printed(cell):
    return "\n".join(map(text_of, cell.outputs))


def core(notebook):
    """The cells of a lesson as far as its heading "Going deeper"."""
    cells = []
    for cell in notebook.cells:
        before, heading, _ = cell.source.partition("## Going deeper")
        cells.append(type(cell)(cell, source=before))
        if heading:
            break
    return cells


def lines_of(cells, *left_out):
    chosen = [c for c in cells if c.cell_type == "code"]
    chosen = [c for c in chosen if not any(has_tag(c, tag) for tag in left_out)]
    return sum(bool(x.strip()) for c in chosen for x in c.source.splitlines())


def minutes(notebook):
    """(minutes of the core rounded to 5, those of its exercises)

    Words / 150 + lines of code / 10 + one a figure + the exercises' own.
    """
    cells = core(notebook)
    prose = re.sub(r"\]\([^)]*\)", "]", without_code(markdown(cells)))
    words = sum(bool(re.search(r"\w", word)) for word in prose.split())
    lines = lines_of(cells, "setup", "exercise", "check")
    outputs = [o for c in cells if c.cell_type == "code" for o in c.outputs]
    figures = sum("image/png" in o.get("data", {}) for o in outputs)
    own = sum(int(m[2]) for m in re.findall(EXERCISE, markdown(cells), re.M))
    return 5 * round((words / 150 + lines / 10 + figures + own) / 5), own


@every_notebook
def test_it_is_stored_as_it_ran_from_top_to_bottom(path):
    notebook = read(path)
    cells = code_cells(notebook)
    assert [c.execution_count for c in cells] == [*range(1, len(cells) + 1)]
    assert {*notebook.metadata} <= {"kernelspec", "accelerator"}
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type in ("stream", "display_data", "execute_result")
            assert output.get("name", "stdout") == "stdout", cell.id
            assert {*output.get("data", {})} <= {"text/plain", "image/png"}, cell.id
        place = re.search(
            r"0x[0-9a-f]{6,}|(?<![\w./:])/(?:home|root|tmp|usr|work)/\S*", printed(cell)
        )
        assert not place, f"{cell.id} prints {place[0]}"


@every_notebook
def test_a_number_of_the_machine_has_its_band_asserted_in_its_cell(path):
    for cell in code_cells(read(path)):
        if "≈" in printed(cell):
            nodes = [*ast.walk(ast.parse(cell.source))]
            tests = [node.test for node in nodes if isinstance(node, ast.Assert)]
            assert any(not isinstance(t, ast.Constant) for t in tests), cell.id


@every_notebook
def test_the_set_up_cell_comes_first_and_says_nothing(path):
    first, *others = code_cells(read(path))
    assert first.source == setup_cell() and not first.outputs
    assert has_tag(first, "setup") and not any(has_tag(c, "setup") for c in others)


@every_notebook
def test_a_stub_and_a_check_follow_each_exercise_and_its_solution_is_right(path):
    notebook, solved = read(path), path.parent != NOTEBOOKS
    cells = notebook.cells
    found = [i for i, c in enumerate(cells) if re.search(EXERCISE, c.source, re.M)]
    wanted = "✓" if solved else "✗" if path.name.startswith("00") else "○"
    for place in found:
        following = [c for c in cells[place + 1 :] if c.cell_type == "code"]
        stub, check = following[:2]
        assert has_tag(stub, "exercise") and has_tag(check, "check"), cells[
            place
        ].source
        marks = {*re.findall(r"^\s*([✓✗○])", printed(check), re.M)}
        assert marks == {"✓"} if solved else wanted in marks, cells[place].source
    if not solved and path != PAGE:
        answers = markdown(read(NOTEBOOKS / "solutions" / path.name).cells)
        titles = re.findall(EXERCISE, markdown(cells), re.M)
        assert titles and titles == re.findall(EXERCISE, answers, re.M)


@every_lesson
def test_a_lesson_keeps_to_its_size_and_says_its_minutes(path):
    notebook, number = read(path), path.name[:2]
    for cells, most in zip((core(notebook), notebook.cells), LIMITS, strict=True):
        size = len(cells), len(markdown(cells).split()), lines_of(cells)
        assert all(a <= b for a, b in zip(size, most, strict=True)), (size, most)
    total, own = minutes(notebook)
    said = f"About {total} minutes" + (f", {own} of them" if own else "")
    assert said in notebook.cells[0].source, said
    row = rf"^\| {number} \| \[.+?\]\(notebooks/{path.name}\) \|.*\| {total} \|$"
    assert re.search(row, (ROOT / "README.md").read_text("utf-8"), re.M), row


def test_the_whole_model_keeps_to_one_page():
    notebook = read(PAGE)
    size = len(notebook.cells), len(markdown(notebook.cells).split())
    assert size[0] <= 45 and size[1] <= 1_500, size
    assert lines_of(notebook.cells, "setup") <= 260
    assert f"About {minutes(notebook)[0]} minutes" in notebook.cells[0].source


@every_lesson
def test_what_a_lesson_learned_answers_what_it_asked(path):
    cells = read(path).cells
    asked = re.findall(r"^- (.+)$", cells[0].source, re.M)
    closing = markdown(cells).partition("## What you learned")[2].partition("\n## ")[0]
    assert asked == re.findall(r"^- \*\*(.+?)\*\* \S", closing, re.M)


def anchors(page):
    """The anchors of a page's headings: Jupyter's form and GitHub's."""
    text = (
        markdown(read(page).cells)
        if page.suffix == ".ipynb"
        else page.read_text("utf-8")
    )
    titles = re.findall(r"^#{1,6} +(.+?) *$", text, re.M)
    plain = [re.sub(r"[*_`]", "", title) for title in titles]
    slugs = {re.sub(r"[^\w\- ]", "", t).lower().replace(" ", "-") for t in plain}
    return slugs | {t.replace(" ", "-") for t in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = (
        markdown(read(page).cells)
        if page.suffix == ".ipynb"
        else page.read_text("utf-8")
    )
    for target in re.findall(
        r"\]\(<?([^)\s>]+)>?(?: +\"[^\"]*\")?\)", without_code(text)
    ):
        if not re.match(r"[a-z][a-z+.-]*:", target):
            file, _, anchor = target.partition("#")
            goal = page.parent / unquote(file) if file else page
            assert goal.exists(), target
            assert not anchor or unquote(anchor) in anchors(goal), target


@every_lesson
def test_what_is_shown_in_a_lesson_is_what_is_kept(path):
    own = ROOT.glob(f"lessons/lesson{path.name[:2]}/**/*.py")
    kept = [p.read_text("utf-8") for p in (*ROOT.glob("helpers/**/*.py"), *own)]
    for cell in code_cells(read(path)):
        if has_tag(cell, "helpers"):
            for part in cell.source.split("\n\n\n"):
                found = any(f"\n{part}\n" in text for text in kept)
                assert found, f"no module has this text of cell {cell.id}:\n{part}"


@pytest.mark.slow
def test_nbval_finds_an_altered_digit(tmp_path):
    notebook = read(LESSONS["notebooks-03"])
    streams = [
        (place, output)
        for place, cell in enumerate(notebook.cells)
        for output in cell.get("outputs", [])
        if re.search(r"\d", output.get("text", "")) and "≈" not in output.text
    ]
    place, output = streams[0]
    notebook.cells = notebook.cells[: place + 1]
    write(notebook, tmp_path / "same.ipynb")
    output.text = re.sub(r"\d", lambda d: str(9 - int(d[0])), output.text, count=1)
    write(notebook, tmp_path / "altered.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-q"]
    command += ["same.ipynb", "altered.ipynb", "-p", "no:cacheprovider"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8")
    assert "Cell outputs differ" in run.stdout, run.stdout
    failed = re.findall(r"^FAILED (\w+)", run.stdout, re.M)
    assert run.returncode == 1 and failed == ["altered"], run.stdout
