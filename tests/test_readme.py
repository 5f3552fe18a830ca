"""README says what the repository does."""

import re

from tools import notebooks
from tools.reproducible import ROOT

README = (ROOT / "README.md").read_text("utf-8")
TITLE = re.compile(r"^# (\d\d) · ", re.MULTILINE)


def test_the_pictures_are_those_that_the_lessons_stored():
    for name, (lesson, cell_id) in notebooks.PICTURES.items():
        stored = notebooks.picture(
            notebooks.read(notebooks.NOTEBOOKS / lesson), cell_id
        )
        again = "python -m tools.notebooks run notebooks/" + lesson
        assert (notebooks.NOTEBOOKS / name).read_bytes() == stored, f"repair: {again}"
        assert f"notebooks/{name}" in README


def test_the_lesson_table_links_every_written_lesson():
    rows = dict(re.findall(r"^\| (\d\d) \| (.*)$", README, re.MULTILINE))
    assert list(rows) == [f"{number:02}" for number in range(18)]
    written = {path.name[:2]: path for path in notebooks.NOTEBOOKS.glob("[0-9]*.ipynb")}
    for number, row in rows.items():
        if number in written:
            assert f"](notebooks/{written[number].name})" in row and "minutes" in row
        else:
            assert "planned" in row and "](" not in row


def test_the_measured_table_is_the_one_that_make_bench_stored():
    stored = (ROOT / "benchmarks" / "toy_translator.txt").read_text("utf-8")
    assert stored.strip() in README


def test_the_scores_on_real_data_are_those_that_lesson_13_stored():
    lesson = notebooks.read(notebooks.NOTEBOOKS / "13_real_data.ipynb")
    (cell,) = (cell for cell in lesson.cells if cell.id == "signatures")
    assert "".join(output.text for output in cell.outputs).strip() in README
    ran = "".join(
        o.text for c in lesson.cells for o in c.get("outputs", []) if "text" in o
    )
    assert "this machine: CPU, 2 threads, fp32, 10.0 minutes" in ran


def test_the_ratios_are_those_that_make_bench_stored():
    stored = (ROOT / "benchmarks" / "speed.txt").read_text("utf-8").splitlines()
    rows = re.findall(r"^\| (.+) \| (.+) \| (\d+\.\d\d) \|$", README, re.MULTILINE)
    assert len(rows) >= 8
    for work, beside, ratio in rows:
        (line,) = (x for x in stored if x.startswith(f"{work:33} {beside:27} "))
        assert f" {ratio}  " in line, line


def test_the_course_takes_what_make_bench_stored():
    stored = (ROOT / "benchmarks" / "course.txt").read_text("utf-8")
    (seconds,) = re.findall(r"^all, 2 at a time +(\S+) s", stored, re.MULTILINE)
    assert f"that took {float(seconds):.0f} s on these two" in README
