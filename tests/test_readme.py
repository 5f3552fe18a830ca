"""README says what the repository does."""

import re

from lessons.lesson02 import exercises
from tools.notebooks import NOTEBOOKS, PICTURES, picture, read
from tools.reproducible import ROOT

README = (ROOT / "README.md").read_text("utf-8")
(WRONG,) = re.findall(r"^```python\n(.*?)^```$", README, re.M | re.S)


def test_the_pictures_are_those_that_the_lessons_stored():
    for name, (lesson, cell_id) in PICTURES.items():
        stored = picture(read(NOTEBOOKS / lesson), cell_id)
        assert (NOTEBOOKS / name).read_bytes() == stored, f"make run stores {name}"
        assert f"notebooks/{name}" in README


def test_the_quoted_answer_of_a_check_is_what_it_says(capsys):
    scope = {}
    exec(WRONG, scope)
    exercises.attention(scope["my_attention"])
    quoted = " ".join(re.findall("^> (.+)$", README, re.MULTILINE))
    assert capsys.readouterr().out.strip() == quoted


def test_the_commands_of_make_that_are_named_exist():
    targets = set(
        re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M)
    )
    for page in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / page).read_text("utf-8")
        assert set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE)) <= targets
