"""Lesson 00 lists the lessons, and the glossary the special tokens as they are."""

import re

import nbformat

import helpers
from helpers.plots import PARTS
from tools.reproducible import ROOT

NOTEBOOKS = ROOT / "notebooks"
TEXT = "\n".join(
    cell.source
    for cell in nbformat.read(NOTEBOOKS / "00_start_here.ipynb", as_version=4).cells
    if cell.cell_type == "markdown"
)
ROWS = dict(re.findall(r"^\| (\d\d) \| (.+?) \| .+ \| \d+ \|$", TEXT, re.MULTILINE))
GLOSSARY = (NOTEBOOKS / "glossary.md").read_text("utf-8")


def test_the_lessons_are_listed_with_links_to_them():
    names = {path.name[:2]: path.name for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
    assert list(ROWS) == list(names)
    assert all(f"({names[n]})" in title for n, title in ROWS.items() if n != "00")
    assert {lesson for lesson, _ in PARTS.values()} <= set(ROWS)


def test_the_special_tokens_are_told_right():
    told = dict(re.findall(r"`(PAD|UNK|BOS|EOS)` = (\d)", GLOSSARY))
    assert {name: int(told[name]) for name in told} == {
        name: getattr(helpers, name) for name in ("PAD", "UNK", "BOS", "EOS")
    }
