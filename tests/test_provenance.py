"""What makes a stored result stale, and what does not."""

import pytest

from helpers.provenance import (
    ROOT,
    code_hash,
    imported,
    modules_used,
)

CODE = """\
def half(x):
    return x / 2  # exact
"""


@pytest.mark.parametrize(
    "same",
    [
        'def half(x):\n    """Half of x."""\n\n    return x / 2\n',
        '"""A module."""\n\n\n# Halves.\ndef half(x):\n    return x / 2\n',
    ],
)
def test_comments_docstrings_and_blank_lines_compute_nothing(same):
    assert code_hash([same]) == code_hash([CODE])


@pytest.mark.parametrize(
    "other",
    [
        CODE.replace("2", "3"),
        f"{CODE}half(1)\n",
    ],
)
def test_other_code_has_another_hash(other):
    assert code_hash([other]) != code_hash([CODE])


def test_what_follows_a_hash_sign_in_a_string_is_code():
    assert code_hash(['x = "# one"']) != code_hash(['x = "# two"'])


def test_the_hash_changes_with_what_else_is_named_and_with_the_order():
    hashes = {code_hash([CODE]), code_hash([CODE], "torch 2"), code_hash([CODE] * 2)}
    hashes |= {code_hash([CODE, "x"]), code_hash(["x", CODE])}
    assert len(hashes) == 5


def names(paths):
    return {
        path.relative_to(ROOT / "helpers").with_suffix("").as_posix() for path in paths
    }


def test_imports_are_followed_into_packages_and_no_further_than_they_lead():
    found = names(modules_used("training", "transformer", "corpus"))
    assert {"__init__", "attention", "scale/precision", "corpus/words"} <= found
    others = {"readings/__init__", "multi30k", "evaluation", "translator/recipes"}
    assert not others & found


def test_every_form_of_import_counts():
    text = """
import torch
from helpers import EOS, text
from helpersx import nothing

def late():
    import helpers.plots
    from helpers.corpus.words import NOUNS
"""
    found = names(imported(text))
    assert found == {"__init__", "text", "plots/__init__", "corpus/words"}


def test_an_unknown_module_is_named():
    with pytest.raises(ValueError, match="no module nothing"):
        modules_used("text", "nothing")
