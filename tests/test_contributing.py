"""CONTRIBUTING names what is there: commands, figures, folders, moved names."""

import pkgutil
import re

import pytest

from tools.reproducible import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
TEXT = " ".join(PAGE.split())  # without line breaks


def section(title):
    """The text below a heading of level 2."""
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)[1]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_target_of_make_that_is_named_exists(page):
    text = (ROOT / page).read_text("utf-8")
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE))
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert named and named <= targets


def test_every_folder_is_named():
    named = set(re.findall(r"^\| `(\S+/)` \|", section("Where things are"), re.M))
    folders = [ROOT / "notebooks", ROOT / "tests", ROOT / "book"]
    folders += [path.parent for path in ROOT.glob("[a-z]*/__init__.py")]
    folders += [path.parent for path in ROOT.glob("helpers/*/__init__.py")]
    there = {f"{path.relative_to(ROOT).as_posix()}/" for path in folders}
    assert named == there


# -- figures ---------------------------------------------------------------------------


def test_the_ratios_are_those_that_make_bench_stored():
    stored = (ROOT / "benchmarks" / "speed.txt").read_text("utf-8").splitlines()
    form = r"^\| (.+) \| (.*?)(\d+\.\d\d) (times as fast as|of) (.+) \|$"
    rows = re.findall(form, section("Benchmarks"), re.MULTILINE)
    assert len(rows) >= 8
    for work, verb, said, words, beside in rows:
        (line,) = (x for x in stored if x.startswith(f"{work:33} {beside:27} "))
        ratio, bar = re.search(r" (\d+\.\d\d)  ([≥≤]) ", line).groups()
        faster = words == "times as fast as"
        # A bar from above means that the stored ratio is what the course takes.
        turned = faster and bar == "≤"
        assert said == (f"{1 / float(ratio):.2f}" if turned else ratio), line
        if not faster:
            assert verb == ("takes " if bar == "≤" else "reaches "), line


def test_the_course_takes_what_make_bench_stored():
    stored = (ROOT / "benchmarks" / "course.txt").read_text("utf-8")
    (seconds,) = re.findall(r"^all, 2 at a time +(\S+) s", stored, re.MULTILINE)
    assert f"{float(seconds):.0f} s on these two" in TEXT


# -- moved names -----------------------------------------------------------------------


def moved():
    """[(old names, new names)] of the table, each without `helpers.` in front."""
    table = section("Names that have moved")
    rows = re.findall(r"^\| (`.+) \| (.+) \|$", table, re.MULTILINE)
    return [[re.findall(r"`([\w.]+)`", cell) for cell in row] for row in rows]


def resolves(name):
    try:
        pkgutil.resolve_name(f"helpers.{name}")
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("old, new", moved(), ids=str)
def test_a_name_that_has_moved_is_where_the_table_says(old, new):
    assert [name for name in old if "." in name and resolves(name)] == []
    assert [name for name in new if "." in name and not resolves(name)] == []
