"""`make publish` stamps the course's address everywhere, and nothing else."""

import re
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from tools import laws, notebooks, publish
from tools.reproducible import ROOT

# What JupyterLab and Python leave in folders.
EDITORS = shutil.ignore_patterns(".ipynb_checkpoints", "__pycache__")
URL = "https://github.com/an-owner/transformer-course"


@pytest.fixture
def copy(tmp_path):
    """What publishing reads and writes, in a folder of its own."""
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("tools", "notebooks"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=EDITORS)
    return tmp_path


def texts(folder):
    paths = [*folder.rglob("*.ipynb"), folder / "README.md", folder / "pyproject.toml"]
    return {path: path.read_text("utf-8") for path in paths}


def test_publishing_stamps_every_notebook_once(copy):
    changed = publish.publish(URL + ".git/", "v1.0-x", copy)
    assert {path.name for path in changed} >= {"pyproject.toml", "README.md"}
    assert len(changed) == 2 + len(notebooks.all_notebooks(copy / "notebooks"))
    for path in notebooks.all_notebooks(copy / "notebooks"):
        notebook = notebooks.read(path)
        assert (
            f'REPOSITORY, TAG = "{URL}", "v1.0-x"'
            in laws.code_cells(notebook)[0].source
        )
        page = path.relative_to(copy).as_posix()
        opens = f"/github/an-owner/transformer-course/blob/v1.0-x/{page})"
        solution = path.parent.name == "solutions"
        assert notebook.cells[0].source.count(opens) == (0 if solution else 1)
        if not solution:
            assert not [*laws.opening_faults(notebook, path.name[:2])]
    readme = (copy / "README.md").read_text("utf-8")
    assert readme.count("/blob/v1.0-x/notebooks/00_start_here.ipynb)") == 1


@pytest.mark.slow
def test_publishing_again_changes_nothing_and_another_address_replaces_it(copy):
    publish.publish(URL, "v1.0-x", copy)
    before = texts(copy)
    assert publish.publish(URL, "v1.0-x", copy) == []
    assert texts(copy) == before
    publish.publish("https://github.com/other/place", "v2", copy)
    after = texts(copy)
    assert not any("an-owner" in text or "v1.0-x" in text for text in after.values())
    publish.publish(URL, "v1.0-x", copy)
    assert texts(copy) == before


def test_nothing_but_set_up_cells_and_badges_changes(copy):
    before = texts(copy)
    publish.publish(URL, "v1.0-x", copy)
    stamped = re.compile(
        r' *"REPOSITORY, TAG = .*'  # a set-up cell
        r'| *"?\[!\[Open in Colab\]\(.*'  # a badge, and the blank line below it
        r'|| *"\\n",'
        r'|(repository|tag) = ".*"'  # pyproject.toml
    )
    for path, text in texts(copy).items():
        old, new = (Counter(t.splitlines()) for t in (before[path], text))
        assert old != new, path.name
        for line in (old - new) + (new - old):
            assert stamped.fullmatch(line), f"{path.name}: {line}"


@pytest.mark.parametrize(
    "url, tag",
    [
        ("git@github.com:an-owner/course.git", "main"),
        ("https://gitlab.com/an-owner/course", "main"),
        ("https://github.com/an-owner", "main"),
        ("", "main"),
        (URL, "a tag"),
        (URL, '"'),
    ],
)
def test_an_address_of_another_form_changes_nothing(copy, url, tag):
    before = texts(copy)
    with pytest.raises(publish.AddressError):
        publish.publish(url, tag, copy)
    assert texts(copy) == before


def test_the_command_line_says_what_is_wrong(capsys):
    assert publish.main(["https://example.org/x"]) == 1
    assert "https://github.com/<owner>/<name>" in capsys.readouterr().err


def test_a_badge_comes_and_goes_below_the_heading():
    page = "# 01 · Title\n\nText.\n"
    with_one = notebooks.with_badge(page, "[![Open in Colab](a)](b)")
    assert with_one == "# 01 · Title\n\n[![Open in Colab](a)](b)\n\nText.\n"
    assert notebooks.with_badge(with_one, "") == page
    assert notebooks.with_badge(with_one, "[![Open in Colab](a)](c)").count("![") == 1


def test_the_course_is_stamped_as_pyproject_says():
    for path in notebooks.all_notebooks():
        notebook = notebooks.read(path)
        notebooks.stamp(notebook, path)
        assert notebook == notebooks.read(path), f"{path.name}: make run renews it"


@pytest.mark.slow
def test_the_copy_runs_as_a_module(copy):
    command = [sys.executable, "-m", "tools.publish", URL]
    run = subprocess.run(command, cwd=copy, capture_output=True, encoding="utf-8")
    assert run.returncode == 0, run.stderr
    assert "notebooks/solutions/02_attention.ipynb" in run.stdout
