"""Modules import downwards only: see CONTRIBUTING, "Where things are"."""

import re

import pytest

from tools.reproducible import ROOT

IMPORT = re.compile(r"^ *(?:from|import) (helpers|lessons|transformer_checkup)\b", re.M)
OTHER_LESSON = re.compile(r"^ *(?:from|import) lessons\.(lesson\d\d)", re.M)
BELOW = {
    "helpers": {"helpers"},
    "checkup/transformer_checkup": {"transformer_checkup"},
    "lessons": {"helpers", "lessons", "transformer_checkup"},
}


@pytest.mark.parametrize("folder", BELOW)
def test_a_folder_imports_only_what_lies_below(folder):
    for path in (ROOT / folder).rglob("*.py"):
        text = path.read_text("utf-8")
        assert {*IMPORT.findall(text)} <= BELOW[folder], path
        if folder == "lessons":
            own = path.relative_to(ROOT / "lessons").parts[0]
            assert {*OTHER_LESSON.findall(text)} <= {own}, path
