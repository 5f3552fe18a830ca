"""What a lesson shows is what helpers/ keeps, character for character."""

import pytest
from nbformat import v4

from tools import notebooks, one_text
from tools.reproducible import ROOT


def test_lessons_show_what_helpers_keeps():
    lessons = {
        path.stem: notebooks.read(path)
        for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
    }
    faults = [*one_text.faults(lessons, one_text.modules())]
    repair = "a differing cell is repaired by: python -m tools.notebooks sync"
    assert not faults, "\n" + "\n\n".join([*faults, repair])


def test_modules_exempt_from_being_shown_are_few_and_reasoned():
    assert all(one_text.NOT_SHOWN.values())
    model = {"positions", "masks", "attention", "layers", "encoder", "decoder"}
    model |= {"transformer", "decoding", "training", "batching", "text"}
    assert not model & set(one_text.NOT_SHOWN)


def test_modules_shown_from_an_exempt_package_exist_and_are_reasoned():
    assert all(one_text.SHOWN.values())
    for module in one_text.SHOWN:
        assert module.partition(".")[0] in one_text.NOT_SHOWN
        assert module in one_text.modules()


# -- each breach is found --------------------------------------------------------------

MODULE = '''\
"""Doubling (lesson 02)."""

import math

# Twice.
TIMES = 2


def double(number):
    """Twice the number."""
    return TIMES * number


@math.cache
class _Doubler:
    """Doubles."""
'''

SHOWN = '''\
# Twice.
TIMES = 2


def double(number):
    """Twice the number."""
    return TIMES * number'''


def lesson(*sources, tags=("helpers",)):
    cells = [v4.new_code_cell(source) for source in sources]
    for number, cell in enumerate(cells):
        cell.metadata.tags = list(tags)
        cell.id = f"cell-{number}"
    return v4.new_notebook(cells=cells)


def faults(*sources, module=MODULE, name="02_double", tags="helpers"):
    shown = {name: lesson(*sources, tags=[tags])}
    return "\n".join(one_text.faults(shown, {"maths": module}))


def test_the_same_text_is_no_fault():
    assert faults(SHOWN) == ""


def test_definitions_carry_their_decorators_and_comments():
    found = one_text.definitions(MODULE)
    assert list(found) == ["TIMES", "double", "_Doubler"]
    assert found["TIMES"].startswith("# Twice.\n")
    assert found["_Doubler"].startswith("@math.cache\nclass")


@pytest.mark.parametrize(
    ("breach", "message"),
    [
        ({"sources": [SHOWN.replace("the number", "it")]}, '+    """Twice it."""'),
        ({"sources": [SHOWN + "\n"]}, "cell cell-0"),
        ({"sources": [SHOWN + "\n\n\ndouble(2)"]}, "definitions only"),
        ({"sources": ["import math"]}, "definitions only"),
        ({"sources": ["def triple():\n    pass"]}, "no module of helpers/ defines"),
        ({"sources": [SHOWN, SHOWN]}, "shown more than once"),
        ({"sources": [SHOWN], "name": "03_x"}, "does not name lesson 03"),
        ({"sources": [SHOWN], "tags": "map"}, "double is kept but shown in no"),
    ],
)
def test_each_breach_is_found(breach, message):
    breach = dict(breach)
    assert message in faults(*breach.pop("sources"), **breach)


def test_a_cell_shows_one_module():
    texts = {"one": "def f():\n    pass\n", "two": "def g():\n    pass\n"}
    shown = {"02_x": lesson("def f():\n    pass\n\n\ndef g():\n    pass")}
    found = "\n".join(one_text.faults(shown, texts))
    assert "one cell shows one module" in found


def test_a_module_of_others_may_have_to_be_shown_and_the_checks_not():
    texts = {
        "interop.pytorch": MODULE,
        "checks.lesson02": MODULE.replace("ouble", "rop"),
    }
    found = "\n".join(one_text.faults({}, texts))
    assert "interop.pytorch.double is kept but shown in no" in found
    assert "lesson02" not in found


def test_a_definition_of_such_a_module_that_differs_from_its_cell_is_found():
    texts = {"interop.pytorch": MODULE}
    same, changed = SHOWN, SHOWN.replace("the number", "it")
    assert [*one_text.faults({"02_x": lesson(same)}, texts)] == []
    (fault,) = one_text.faults({"02_x": lesson(changed)}, texts)
    assert "helpers/interop/pytorch.py" in fault and '+    """Twice it."""' in fault


def test_of_two_modules_the_one_that_must_be_shown_or_is_the_same_is_meant():
    other = MODULE.replace("TIMES * number", "number * TIMES")
    texts = {"maths": MODULE, "experiments.maths": other, "debugger.maths": other}
    assert [*one_text.faults({"02_x": lesson(SHOWN)}, texts)] == []
    found = "\n".join(one_text.faults({"02_x": lesson(SHOWN + "  # x")}, texts))
    assert "helpers/maths.py" in found
    del texts["maths"]
    texts["experiments.maths"] = MODULE
    assert [*one_text.faults({"02_x": lesson(SHOWN)}, texts)] == []
    found = "\n".join(one_text.faults({"02_x": lesson(SHOWN + "  # x")}, texts))
    assert "several modules: experiments.maths, debugger.maths" in found


def test_lessons_are_read_from_docstrings():
    assert one_text.lessons_named('"""A (lesson 02) and b (lesson 04)."""') == {
        "02",
        "04",
    }
    assert one_text.lessons_named('"""Lessons 07, 08 and 11; 64 wide."""') == {
        "07",
        "08",
        "11",
    }
    assert one_text.lessons_named("x = 1") == set()


# -- and repaired ----------------------------------------------------------------------


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """(notebook path, module path) whose texts differ."""
    monkeypatch.setattr(one_text, "HELPERS", tmp_path / "helpers")
    monkeypatch.setattr(
        one_text, "modules", lambda: {"maths": module.read_text("utf-8")}
    )
    module = tmp_path / "helpers" / "maths.py"
    module.parent.mkdir()
    module.write_text(MODULE, "utf-8")
    page = tmp_path / "02_double.ipynb"
    notebooks.write(lesson(SHOWN.replace("the number", "it")), page)
    return page, module


def test_sync_check_shows_a_diff_and_changes_nothing(broken, capsys):
    page, module = broken
    before = page.read_bytes()
    assert notebooks.main(["sync", "--check", str(page)]) == 1
    assert '-    """Twice the number."""' in capsys.readouterr().out
    assert page.read_bytes() == before
    assert module.read_text("utf-8") == MODULE


def test_sync_copies_the_module_into_the_notebook(broken):
    page, module = broken
    assert notebooks.main(["sync", str(page)]) == 0
    assert notebooks.read(page).cells[0].source == SHOWN
    assert module.read_text("utf-8") == MODULE
    assert notebooks.main(["sync", "--check", str(page)]) == 0


def test_sync_copies_the_notebook_into_the_module(broken):
    page, module = broken
    assert notebooks.main(["sync", "--from-notebook", str(page)]) == 0
    assert module.read_text("utf-8") == MODULE.replace("the number", "it")
    assert notebooks.main(["sync", "--check", str(page)]) == 0
