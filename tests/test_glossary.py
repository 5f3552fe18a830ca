"""The glossary tells the special tokens as they are."""

import re

import helpers
from tools.reproducible import ROOT

NOTEBOOKS = ROOT / "notebooks"
GLOSSARY = (NOTEBOOKS / "glossary.md").read_text("utf-8")


def test_the_special_tokens_are_told_right():
    told = dict(re.findall(r"`(PAD|UNK|BOS|EOS)` = (\d)", GLOSSARY))
    assert {name: int(told[name]) for name in told} == {
        name: getattr(helpers, name) for name in ("PAD", "UNK", "BOS", "EOS")
    }
