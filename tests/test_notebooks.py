"""The laws of tools/laws.py hold for every notebook, and each of them bites."""

import base64
import copy
import io
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import v4
from PIL import Image

from tools import laws, notebooks
from tools.reproducible import LIMITS, MATH_SWITCH, ROOT, make_reproducible

# Lessons whose cells are short enough to be run a second time, on the machine's own
# math path.
SHORT = (
    "00_start_here",
    "01_embeddings_and_positions",
    "02_attention",
    "03_masks",
    "07_decoder",
    "08_transformer",
)

LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOLUTIONS = sorted((ROOT / "notebooks" / "solutions").glob("*.ipynb"))
PAGES = [
    *LESSONS,
    *SOLUTIONS,
    *sorted([*ROOT.glob("*.md"), *ROOT.glob("notebooks/*.md")]),
]


def label(path):
    return path.relative_to(ROOT).with_suffix("").as_posix()


def holds(faults):
    """Fail with every breach, one below the other."""
    faults = [*faults]
    assert not faults, "\n" + "\n".join(faults)


# -- every notebook holds to the laws --------------------------------------------------


@pytest.mark.parametrize("path", [*LESSONS, *SOLUTIONS], ids=label)
def test_is_stored_as_it_should_be(path):
    notebook = notebooks.read(path)
    gpu = path.name.startswith("13")
    holds(
        [
            *laws.format_faults(notebook, gpu=gpu),
            *laws.source_faults(notebook),
            *laws.output_faults(notebook),
            *laws.machine_number_faults(notebook),
            *laws.size_faults(path),
            *laws.setup_faults(notebook, notebooks.setup_cell()),
        ]
    )
    stored = path.read_text("utf-8")
    normal = nbformat.writes(notebooks.normalise(notebook, gpu=gpu)) + "\n"
    assert stored == normal, (
        f"not in the stored form: make run ARGS={label(path)}.ipynb"
    )


@pytest.mark.parametrize("path", LESSONS, ids=label)
def test_lesson_follows_the_contract(path):
    notebook, number = notebooks.read(path), path.name[:2]
    holds(
        [
            *laws.opening_faults(notebook, number),
            *laws.closing_faults(notebook, number),
            *laws.number_of_exercises_faults(notebook, number),
            *laws.exercise_faults(notebook, number, solved=False),
            *laws.length_faults(notebook),
            *laws.minutes_faults(notebook),
        ]
    )


@pytest.mark.parametrize("path", LESSONS, ids=label)
def test_lesson_is_short_and_answers_what_it_asks(path):
    notebook = notebooks.read(path)
    holds([*laws.extent_faults(notebook), *laws.answer_faults(notebook)])


@pytest.mark.parametrize("path", LESSONS, ids=label)
def test_lesson_with_exercises_has_its_solutions(path):
    if laws.exercises(notebooks.read(path)):
        there = (path.parent / "solutions" / path.name).exists()
        assert there, f"notebooks/solutions/{path.name} is missing"


@pytest.mark.parametrize("path", SOLUTIONS, ids=label)
def test_solutions_solve_their_lesson(path):
    lesson = ROOT / "notebooks" / path.name
    there = notebooks.read(lesson) if lesson.exists() else None
    solution, number = notebooks.read(path), path.name[:2]
    holds(
        [
            *laws.solution_faults(solution, there, path.name),
            *laws.exercise_faults(solution, number, solved=True),
        ]
    )


@pytest.mark.parametrize("path", PAGES, ids=label)
def test_internal_links_lead_somewhere(path):
    holds(laws.link_faults(laws.markdown_of(path), path))


@pytest.mark.long
@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="another processor or C library computes other digits than are stored",
)
@pytest.mark.parametrize("name", SHORT)
def test_outputs_hold_on_the_machines_own_math_path(name):
    path = ROOT / "notebooks" / f"{name}.ipynb"
    if not path.exists():
        pytest.skip(f"{name} is not written yet")
    result = nbval([path], {MATH_SWITCH: "own"})
    assert result.returncode == 0, result.stdout


def nbval(paths, environment=(), rootdir=ROOT):
    """pytest with the course's own options over `paths`, in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-q", "--color=no", "--no-header"]
    command += ["-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    command += ["--rootdir", str(rootdir)]
    return subprocess.run(
        [*command, *map(str, paths)],
        cwd=ROOT,
        env=dict(os.environ, **dict(environment)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
    )


# -- a small lesson that holds to every law, to be broken ------------------------------

OPENING = """\
# 98 · Try the laws
**What you'll do.** Break one law after the other.

**What you'll learn.**
- what is stored
- what is compared
- what is found

**What you'll need.** [Nothing](#Numbers) before it.
About 15 minutes, 12 of them for the exercises."""

CLOSING = """\
## What you learned
- one answer
- a second
- a third

## From here on
```python
from helpers.attention import attention
```

## On your own
Break another law.

## Further reading
- Vaswani et al. 2017, section 3.2: [arXiv](https://arxiv.org/abs/1706.03762)"""


MEASURED = """\
seconds = 0.5
print(f"took ≈ {seconds} s")
assert 0 < seconds < 1"""


def code(source, *outputs, tag=None):
    cell = v4.new_code_cell(source, outputs=list(outputs))
    cell.metadata.tags = [tag] if tag else []
    return cell


def printed(text, name="stdout"):
    return v4.new_output("stream", name=name, text=text)


def lesson():
    """The lesson, built anew so that a test may change it."""
    markdown = v4.new_markdown_cell
    cells = [
        markdown(OPENING),
        code(notebooks.setup_cell(), tag="setup"),
        code("architecture_map = print\narchitecture_map()", printed("\n"), tag="map"),
        markdown("## Numbers"),
        code("print(6 * 7)", printed("42\n")),
        code(MEASURED, printed("took ≈ 0.5 s\n")),
        code('{"a": 1}', v4.new_output("execute_result", {"text/plain": "{'a': 1}"})),
    ]
    for number in (1, 2):
        cells += [
            markdown(f"### Exercise 98.{number} · Do it (easy, 6 minutes)"),
            code("answer = None", tag="exercise"),
            code('print("○ not yet")', printed("○ not yet\n"), tag="check"),
        ]
    notebook = v4.new_notebook(cells=[*cells, markdown(CLOSING)])
    for place, cell in enumerate(notebook.cells):
        cell.id = f"0{place:07x}"
    return notebooks.normalise(notebook)


def faults_of(notebook, path=None):
    """All laws over a lesson numbered 98."""
    return [
        *laws.format_faults(notebook),
        *laws.source_faults(notebook),
        *laws.output_faults(notebook),
        *laws.machine_number_faults(notebook),
        *laws.setup_faults(notebook, notebooks.setup_cell()),
        *laws.opening_faults(notebook, "98"),
        *laws.closing_faults(notebook, "98"),
        *laws.number_of_exercises_faults(notebook, "98"),
        *laws.exercise_faults(notebook, "98", solved=False),
        *laws.length_faults(notebook),
        *laws.minutes_faults(notebook),
    ]


def cell_of(notebook, text):
    """The first cell whose source contains `text`."""
    return next(cell for cell in notebook.cells if text in cell.source)


def rewrite(before, after):
    """A change of a lesson: `before` becomes `after` in the first cell with it."""

    def change(notebook):
        cell = cell_of(notebook, before)
        cell.source = cell.source.replace(before, after)

    return change


def output(text, *outputs):
    """A change of a lesson: the cell with `text` in its source has these outputs."""

    def change(notebook):
        cell_of(notebook, text).outputs = list(outputs)

    return change


def setting(text, **values):
    """A change of a lesson: fields of the cell with `text` in its source."""

    def change(notebook):
        for name, value in values.items():
            cell_of(notebook, text)[name] = nbformat.from_dict(value)

    return change


def drop(text):
    """A change of a lesson: the cell with `text` is gone."""

    def change(notebook):
        notebook.cells.remove(cell_of(notebook, text))

    return change


def named_author(notebook):
    notebook.metadata["authors"] = ["somebody"]


def older_format(notebook):
    notebook.nbformat_minor = 4


def html(text):
    return v4.new_output("display_data", {"text/html": text, "text/plain": "x"})


def figure(**size):
    """A figure of 600 by 400 pixels, with this size in its output's metadata."""
    png = io.BytesIO()
    Image.new("1", (600, 400)).save(png, "PNG")
    data = {"image/png": base64.b64encode(png.getvalue()).decode()}
    data["text/plain"] = "<Figure size 300x200 with 1 Axes>"
    metadata = {"image/png": size} if size else {}
    return v4.new_output("display_data", data, metadata=metadata)


SHARP = {"width": 300, "height": 200}
BREACHES = {
    "older format": (older_format, "nbformat 4.4"),
    "metadata of a notebook": (named_author, "notebook metadata ['authors']"),
    "metadata of a cell": (setting("6 * 7", metadata={"x": 1}), "metadata ['x']"),
    "unknown tag": (setting("6 * 7", metadata={"tags": ["nbval-skip"]}), "tags"),
    "random id": (setting("6 * 7", id="1a2b3c4d"), "not readable"),
    "hex id": (setting("6 * 7", id="abcdef01"), "not readable"),
    "same id twice": (setting("6 * 7", id="map"), "not readable and unique"),
    "no count": (setting("6 * 7", execution_count=None), "execution counts"),
    "raw cell": (setting("## Numbers", cell_type="raw"), "only code and markdown"),
    "trailing spaces": (rewrite("6 * 7)", "6 * 7)  "), "spaces at a line's end"),
    "magic": (rewrite("print(6", "%time print(6"), "not plain Python"),
    "semicolon": (rewrite("6 * 7)", "6 * 7);"), "ends in ';'"),
    "nbval comment": (rewrite("print(6", "# NBVAL_SKIP\nprint(6"), "NBVAL comment"),
    "warning": (output("6 * 7", printed("careful", "stderr")), "writes to stderr"),
    "progress": (output("6 * 7", printed("1%\r2%")), "progress bar"),
    "html": (output("6 * 7", html("<b>42</b>")), "['text/html']"),
    "lone picture": (
        output("6 * 7", v4.new_output("display_data", {"image/png": ""})),
        "without its text/plain",
    ),
    "blurred figure": (output("6 * 7", figure()), "600 × 400 pixels whose size in"),
    "figure as large as its pixels": (
        output("6 * 7", figure(width=600, height=400)),
        "is not half of that",
    ),
    "figure with more metadata": (
        output("6 * 7", figure(**SHARP, needs_background="light")),
        "is not half of that",
    ),
    "error": (output("6 * 7", v4.new_output("error")), "output of type error"),
    "address": (output("6 * 7", printed("<A at 0x7f00aa11>")), "object's address"),
    "path": (output("6 * 7", printed("in /home/me/x")), "absolute path"),
    "windows path": (output("6 * 7", printed("in C:\\Users\\me")), "absolute path"),
    "≈ without number": (output("took", printed("took ≈ long")), "no number follows"),
    "≈ without assert": (rewrite("assert 0 <", "0 <"), "must assert the band"),
    "≈ with idle assert": (
        rewrite("assert 0 < seconds < 1", "assert True"),
        "must assert the band",
    ),
    "machine line": (
        output("6 * 7", printed("this machine: an abacus")),
        "must assert the band",
    ),
    "set-up changed": (rewrite("import sys", "import sys, os"), "`make run` renews"),
    "set-up missing": (drop("google.colab"), "carries the tag setup"),
    "map missing": (drop("architecture_map"), "tags setup and map"),
    "map undrawn": (rewrite("architecture_map()", "pass"), "calls architecture_map"),
    "title": (rewrite("# 98 ·", "# Lesson 98:"), "starts '# 98 · Verb phrase'"),
    "no aim": (rewrite("**What you'll do.**", ""), "in this order"),
    "two bullets": (rewrite("- what is found\n", ""), "2 bullets"),
    "other minutes": (rewrite("About 15", "About 10"), "says: About 15 minutes, 12"),
    "closing out of order": (rewrite("## On your own", "## Play"), "last headings"),
    "unanswered bullet": (rewrite("- a third\n", ""), "2 bullets, the opening 3"),
    "no import": (rewrite("from helpers", "in helpers"), "shows the import"),
    "nothing to try": (rewrite("Break another law.", ""), "is empty"),
    "no reading": (rewrite("[arXiv](https://arxiv.org", "(arxiv.org"), "0 links"),
    "one exercise": (rewrite("### Exercise 98.2", "### More 98.2"), "1 exercises"),
    "wrong level": (rewrite("(easy, 6", "(simple, 6"), "not of the form"),
    "wrong number": (rewrite("Exercise 98.2", "Exercise 98.3"), "98.2 · Title"),
    "no stub": (drop("answer"), "a cell tagged exercise"),
    "no check": (drop("○"), "a cell tagged exercise"),
    "attempted": (output("○", printed("✓ right")), "no ○ (not attempted)"),
}


def test_a_proper_lesson_breaks_no_law():
    holds(faults_of(lesson()))


@pytest.mark.parametrize("name", BREACHES)
def test_each_law_bites(name):
    change, message = BREACHES[name]
    notebook = lesson()
    change(notebook)
    found = "\n".join(faults_of(notebook))
    assert message in found, f"expected '{message}' in:\n{found}"


def test_long_cells_are_found():
    notebook = lesson()
    for cell in laws.code_cells(notebook):
        cell.source += "\npass" * 12
    assert any("median" in fault for fault in laws.length_faults(notebook))


def test_lessons_that_are_too_long_are_found():
    notebook = lesson()
    assert not [*laws.extent_faults(notebook)]
    notebook.cells[0].source += " word" * 2_600
    (fault,) = laws.extent_faults(notebook)
    assert fault.startswith("core: 2,") and "words, more than 2,600" in fault
    notebook.cells.append(code("pass\n\n" * 551))
    lines = [fault for fault in laws.extent_faults(notebook) if "lines" in fault]
    assert [fault.partition(":")[0] for fault in lines] == ["core", "whole"]


def test_a_summary_that_leaves_a_question_out_is_found():
    notebook = lesson()
    answers = [cell for cell in notebook.cells if "What you learned" in cell.source]
    asked = re.findall(r"^- (.+)$", notebook.cells[0].source, re.MULTILINE)
    bullets = "".join(f"- **{question}** Yes.\n" for question in asked)
    answers[0].source = f"## What you learned\n\n{bullets}"
    assert not [*laws.answer_faults(notebook)]
    answers[0].source = answers[0].source.replace("**", "")
    assert [*laws.answer_faults(notebook)]


def test_solutions_that_do_not_fit_are_found():
    solution = lesson()
    solution.cells = solution.cells[:-2]
    found = "\n".join(
        [
            *laws.solution_faults(solution, lesson(), "98_laws.ipynb"),
            *laws.exercise_faults(solution, "98", solved=True),
        ]
    )
    assert "links to the lesson" in found
    assert "not ✓ alone" in found
    assert [*laws.solution_faults(solution, None, "98_laws.ipynb")][-1].startswith(
        "there is no lesson"
    )


def test_links_and_anchors_are_followed(tmp_path):
    page, other = tmp_path / "page.md", tmp_path / "other.ipynb"
    notebooks.write(lesson(), other)
    page.write_text("# Why divide by `√d`?\n", "utf-8")
    good = "[a](other.ipynb#Numbers) [b](other.ipynb#numbers) [c](#Why-divide-by-√d?)"
    assert not [*laws.link_faults(good + " [d](https://example.org/#x)", page)]
    assert not [*laws.link_faults("`[a](gone.md)`\n```\n[b](gone.md)\n```", page)]
    bad = '[a](gone.ipynb) [b](other.ipynb#Gone) <img src="gone.png">'
    assert len([*laws.link_faults(bad, page)]) == 3


def test_large_files_are_found(tmp_path):
    path = tmp_path / "large.ipynb"
    path.write_bytes(bytes(500_000))
    assert not [*laws.size_faults(path)]
    path.write_bytes(bytes(500_001))
    assert [*laws.size_faults(path)]


# -- nbval bites -----------------------------------------------------------------------


def without_output(notebook):
    cell_of(notebook, "6 * 7").outputs = []


ALTERED = {
    "number": output("6 * 7", printed("43\n")),
    "result": output(
        '"a"', v4.new_output("execute_result", {"text/plain": "{'a': 2}"})
    ),
    "removed": without_output,
    "warning": rewrite("print(6", "import warnings\nwarnings.warn('x')\nprint(6"),
    "machine_text": output("took", printed("lasted ≈ 0.5 s\n")),
    "machine_number": output("took", printed("took ≈ s\n")),
    "magic": rewrite("print(6", "%unheard_of\nprint(6"),
    "broken_assert": rewrite("0 < seconds < 1", "seconds > 1"),
}


@pytest.mark.slow
def test_nbval_finds_every_alteration_and_nothing_else(tmp_path):
    proper = lesson()
    output("took", printed("took ≈    7.25 s\n"))(proper)
    for name, change in {"proper": lambda _: None, **ALTERED}.items():
        notebook = copy.deepcopy(proper)
        change(notebook)
        notebooks.write(notebook, tmp_path / f"{name}.ipynb")
    paths = [tmp_path / f"{name}.ipynb" for name in ["proper", *ALTERED]]
    result = nbval(paths, rootdir=tmp_path)
    failed = set(re.findall(r"^FAILED \S*?(\w+)\.ipynb", result.stdout, re.MULTILINE))
    assert failed == set(ALTERED), result.stdout
    assert result.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in LESSONS if p.name[:2] == "02"], ids=label)
def test_nbval_finds_one_altered_digit_in_a_lesson(path, tmp_path):
    """In a copy cut off after the first cell that prints a number of its own."""
    notebook = notebooks.read(path)
    for place, cell in enumerate(notebook.cells, start=1):
        digits = cell.cell_type == "code" and re.search(r"\d", laws.stored_text(cell))
        if digits and "≈" not in laws.stored_text(cell) and "plt" not in cell.source:
            notebook.cells = notebook.cells[:place]
            break
    else:
        pytest.fail(f"{path.name} stores no number: make run")
    changed = next(o for o in cell.outputs if re.search(r"\d", laws.text_of(o)))
    turn = {str(digit): str((digit + 1) % 10) for digit in range(10)}
    text = re.sub(r"\d", lambda m: turn[m.group()], laws.text_of(changed), count=1)
    laws.set_text(changed, text)
    notebooks.write(notebook, tmp_path / path.name)
    result = nbval([tmp_path / path.name], rootdir=tmp_path)
    assert result.returncode == 1, result.stdout
    assert "Cell outputs differ" in result.stdout
    assert len(re.findall("^FAILED", result.stdout, re.MULTILINE)) == 1, result.stdout


# -- make run --------------------------------------------------------------------------

DRAWING = """\
import time

import matplotlib.pyplot as plt

import helpers.plots

plt.plot([1, 2, 3])
plt.title("A line rises")
plt.show()
print("first")
print(f"clock ≈ {time.perf_counter_ns() % 997} ns")
assert helpers.plots
{"a": 1, "b": {"x", "y", "z"}}"""


@pytest.fixture
def small(tmp_path):
    """The path of a lesson with a figure, streams, a set and a clock, not yet run."""
    notebook = lesson()
    notebook.cells.insert(5, code(DRAWING))
    notebook.cells[5].metadata = {"trusted": True, "tags": []}
    notebook.cells[5].id = "0f0f0f0f"
    path = tmp_path / "98_laws.ipynb"
    nbformat.write(notebook, path)
    return path


@pytest.mark.slow
def test_a_second_run_changes_nothing(small):
    assert notebooks.run(small)
    stored = small.read_bytes()
    assert not notebooks.run(small)
    assert small.read_bytes() == stored
    notebook = notebooks.read(small)
    holds(faults_of(notebook))
    drawn = cell_of(notebook, "plt.plot")
    assert drawn.id == "numbers-code-4"
    kinds = [output.output_type for output in drawn.outputs]
    assert kinds == ["display_data", "stream", "execute_result"]
    assert "Software" not in str(drawn.outputs[0].data["image/png"])
    assert set(drawn.outputs[0].metadata["image/png"]) == {"width", "height"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fresh", "long"])
def test_a_fresh_or_a_long_run_stores_new_digits(small, way):
    notebooks.run(small)
    before = laws.stored_text(cell_of(notebooks.read(small), "plt.plot"))
    for _ in range(3):  # the clock shows the same digits once in a thousand times
        notebooks.run(small, **{way: True})
        after = laws.stored_text(cell_of(notebooks.read(small), "plt.plot"))
        if after != before:
            break
    assert after != before


def change_source(path, before, after):
    notebook = notebooks.read(path)
    rewrite(before, after)(notebook)
    nbformat.write(notebook, path)


@pytest.mark.slow
def test_stored_digits_and_pictures_stay_while_their_code_is_the_same(small):
    notebooks.run(small)
    old = cell_of(notebooks.read(small), "plt.plot").outputs
    change_source(small, "plt.show()", "plt.show()  # a remark")
    change_source(small, "seconds = 0.5", "seconds = 0.6")  # below the picture
    notebooks.run(small)
    assert cell_of(notebooks.read(small), "plt.plot").outputs == old
    change_source(small, "plt.plot([1, 2, 3])", "plt.plot([1, 2, 4])")
    notebooks.run(small)
    assert cell_of(notebooks.read(small), "plt.plot").outputs[0] != old[0]


def test_png_notes_are_dropped():
    from matplotlib.figure import Figure

    drawn = io.BytesIO()
    Figure().savefig(drawn, metadata={"Author": "somebody"})
    assert b"somebody" in drawn.getvalue()
    bare = base64.b64decode(
        notebooks.bare_png(base64.b64encode(drawn.getvalue()).decode())
    )
    assert b"somebody" not in bare
    assert b"Software" not in bare
    assert bare.endswith(drawn.getvalue()[-12:])


def test_pictures_keep_the_colours_of_large_areas():
    flat = [(255, 255, 255), (247, 247, 247), (68, 1, 84), (253, 231, 37)]
    image = Image.new("RGB", (400, 100), flat[0])
    for place, colour in enumerate(flat):
        image.paste(colour, (100 * place, 0, 100 * place + 100, 100))
    for step in range(256):  # a scale of 256 colours, a pixel each
        image.putpixel((step, 50), (step, 40, 255 - step))
    few = notebooks.in_few_colours(image)
    assert len(few.getcolors()) <= 96
    few = few.convert("RGB")
    assert [few.getpixel((100 * place, 0)) for place in range(4)] == flat
    off = [abs(few.getpixel((step, 50))[0] - step) for step in range(256)]
    assert max(off) <= 12


REFUSED = {
    "1 / 0": "ZeroDivisionError",
    "import warnings\nwarnings.warn('careful')": "writes to stderr",
    "from IPython.display import HTML\nHTML('<b>x</b>')": "text/html",
    "object()": "object's address",
}


@pytest.mark.parametrize("source", REFUSED)
def test_run_refuses_and_leaves_the_file_alone(tmp_path, source, capsys):
    notebook = v4.new_notebook(cells=[code("1 + 1"), code(source)])
    notebook.cells[1].id = "the-faulty-cell"
    path = tmp_path / "x.ipynb"
    nbformat.write(notebook, path)
    stored = path.read_bytes()
    assert notebooks.main(["run", str(path)]) == 1
    said = capsys.readouterr().err
    assert "the-faulty-cell" in said
    assert REFUSED[source] in said
    assert path.read_bytes() == stored


def test_run_refuses_a_definition_that_is_not_the_kept_one(tmp_path, capsys):
    shown = code("def attention(query):\n    return query", tag="helpers")
    path = tmp_path / "x.ipynb"
    nbformat.write(v4.new_notebook(cells=[shown]), path)
    assert notebooks.main(["run", str(path)]) == 1
    assert "python -m tools.notebooks sync" in capsys.readouterr().err


def one_cell(text, source="speak()", cell_id="speak"):
    """A notebook with one cell that has printed this."""
    output = v4.new_output("stream", name="stdout", text=text)
    cell = v4.new_code_cell(source, id=cell_id, outputs=[output])
    return v4.new_notebook(cells=[cell])


LONG_RUN = "BLEU ≈ 39.10\n│ A man reads.\nthis machine: CPU, 2 threads\n"


@pytest.mark.parametrize(
    "short_run",
    [LONG_RUN, "BLEU ≈ 7.1\n│ Un homme.\nthis machine: CPU, 1 threads\n"],
)
def test_a_lesson_of_many_minutes_keeps_its_long_run(short_run):
    notebook = one_cell(short_run)
    notebooks.keep_long_run(notebook, one_cell(LONG_RUN))
    assert notebook.cells[0].outputs[0].text == LONG_RUN


def test_the_lesson_on_real_data_asks_colab_for_a_gpu():
    lesson = notebooks.read(notebooks.NOTEBOOKS / "13_real_data.ipynb")
    assert lesson.metadata["accelerator"] == "GPU"


@pytest.mark.parametrize(
    "fresh",
    [
        one_cell(LONG_RUN.replace("BLEU", "chrF")),
        one_cell(LONG_RUN.replace("│", "|")),
        one_cell(LONG_RUN + "│ one line more\n"),
        one_cell(LONG_RUN, source="other()"),
        one_cell(LONG_RUN, cell_id="new"),
    ],
)
def test_a_long_run_of_other_cells_is_refused(fresh):
    name = fresh.cells[0].id
    with pytest.raises(notebooks.NotebookError, match=f"cells {name} differ .*--long"):
        notebooks.keep_long_run(fresh, one_cell(LONG_RUN))


def test_setup_cell_is_stamped_and_silent_here(tmp_path):
    (tmp_path / "tools").mkdir()
    for name in ("pyproject.toml", "tools/setup_cell.py"):
        text = (ROOT / name).read_text("utf-8")
        text = re.sub(r'repository = "[^"]*"', 'repository = "https://host/r"', text)
        (tmp_path / name).write_text(text, "utf-8")
    stamped = notebooks.setup_cell(tmp_path)
    _, tag = notebooks.published()  # whatever the fork was published by
    assert f'REPOSITORY, TAG = "https://host/r", "{tag}"' in stamped
    assert len(list(filter(None, stamped.splitlines()))) <= 6
    run = subprocess.run([sys.executable, "-c", stamped], capture_output=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def colab(source, folder):
    """Run a set-up cell as if on Colab, with `folder` in the place of /content."""
    source = source.replace("/content", Path(folder).as_posix())
    spoof = "import sys, types\nsys.modules['google.colab'] = types.ModuleType('x')\n"
    spoof += "from IPython.core.interactiveshell import InteractiveShell\n"
    spoof += "get_ipython = InteractiveShell.instance\n"
    ending = "\nprint(sys.path[0])"
    return subprocess.run(
        [sys.executable, "-c", spoof + source + ending],
        capture_output=True,
        encoding="utf-8",
    )


def test_setup_cell_on_colab_says_when_nothing_is_published(tmp_path):
    stamp = f'REPOSITORY, TAG = "{notebooks.NO_ADDRESS}", "x"'
    source = re.sub(r"REPOSITORY, TAG = .*", stamp, template())
    assert notebooks.NO_ADDRESS in colab(source, tmp_path).stdout


def test_setup_cell_on_colab_fetches_the_course_once(tmp_path):
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-C"]
    origin = tmp_path / "origin"
    subprocess.run(["git", "init", "-q", "-b", "main", origin], check=True)
    (origin / "tools").mkdir()
    for name in ("requirements.txt", "tools/colab_setup.py"):
        shutil.copy2(ROOT / name, origin / name)
    subprocess.run([*git, origin, "add", "."], check=True)
    subprocess.run([*git, origin, "commit", "-q", "-m", "x"], check=True)
    stamp = f'REPOSITORY, TAG = "{origin.as_uri()}", "main"'
    source = re.sub(r"REPOSITORY, TAG = .*", stamp, template())
    for _ in range(2):
        result = colab(source, tmp_path)
        assert result.stdout.strip() == str(tmp_path / "course"), result.stderr
    assert (tmp_path / "course" / "requirements.txt").exists()


def template():
    return (ROOT / "tools" / "setup_cell.py").read_text("utf-8")


def test_the_environment_is_forced_and_the_math_path_can_be_let_go():
    environment = {"OMP_NUM_THREADS": "7", "MKL_CBWR": "COMPATIBLE"}
    make_reproducible(environment)
    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["MKL_CBWR"] == "AVX2"
    environment[MATH_SWITCH] = "own"
    make_reproducible(environment)
    assert "MKL_CBWR" not in environment
    assert Path(environment["IPYTHONDIR"]).parent.is_dir()


def test_a_long_run_may_use_all_that_the_machine_has():
    environment = {"OMP_NUM_THREADS": "7", "COURSE_RUN": "cpu"}
    make_reproducible(environment, long=True)
    assert not {*LIMITS} & {*environment}
    assert environment["MKL_CBWR"] == "AVX2" and environment["PYTHONHASHSEED"] == "0"
