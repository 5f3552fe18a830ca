"""What a lesson does where the course is not at hand, and where a host keeps things."""

import os
import shutil
import sys
from types import ModuleType

import pytest

from tools import hosted_setup, notebooks, publish
from tools.reproducible import ROOT


def test_an_address_goes_into_every_set_up_cell_and_badge(tmp_path):
    for name in ("pyproject.toml", "README.md", "tools", "notebooks"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    with pytest.raises(ValueError, match=r"gitlab\.com.*github\.com"):
        publish.publish("https://gitlab.com/a/b", root=tmp_path)
    url = "https://github.com/someone/course"
    publish.publish(f"{url}.git", "v3", tmp_path)
    assert "/blob/v3/notebooks/00_" in (tmp_path / "README.md").read_text("utf-8")
    for path in notebooks.all_notebooks(tmp_path / "notebooks"):
        cells = notebooks.read(path).cells
        (cell,) = (cell for cell in cells if notebooks.has_tag(cell, "setup"))
        assert f'REPOSITORY, TAG = "{url}", "v3"' in cell.source
        solution = path.parent.name == "solutions"
        assert (f"/blob/v3/notebooks/{path.name})" in cells[0].source) != solution


def run_set_up(monkeypatch, folder, address):
    """Run the cell where `helpers` is not at hand; what it asked the shell for."""
    asked = []

    class Shell:
        system = run_line_magic = lambda self, *words: asked.append(" ".join(words))

    monkeypatch.chdir(folder)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    text = (ROOT / "tools/setup_cell.py").read_text("utf-8")
    text = text.replace('REPOSITORY, TAG = ""', f'REPOSITORY, TAG = "{address}"')
    exec(text, {"get_ipython": Shell})
    return asked


def test_a_lesson_alone_fetches_the_course_once_or_says_that_it_cannot(
    tmp_path, monkeypatch
):
    with pytest.raises(AssertionError, match="has no address"):
        run_set_up(monkeypatch, tmp_path, "")
    ready = "run course/tools/hosted_setup.py"
    clone, after = run_set_up(monkeypatch, tmp_path, "https://github.com/a/b")
    assert clone.startswith("test -d course || git clone ") and after == ready
    assert clone.endswith(" https://github.com/a/b course")


def test_what_a_learner_writes_outlives_the_session_where_drive_is_allowed(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("COURSE_MINE", raising=False)
    assert "ends with this session" in hosted_setup.keep(tmp_path)  # on Kaggle

    def refuse(place):
        raise ValueError("mount failed")

    google, colab, drive = map(ModuleType, ("google", "colab", "drive"))
    colab.drive, drive.mount = drive, refuse
    for name, module in {"": google, ".colab": colab, ".colab.drive": drive}.items():
        monkeypatch.setitem(sys.modules, f"google{name}", module)
    said = hosted_setup.keep(tmp_path)
    assert "ends with this session" in said and "mount failed" in said
    assert "COURSE_MINE" not in os.environ
    drive.mount = lambda place: (tmp_path / "MyDrive").mkdir()
    assert "kept in Google Drive" in hosted_setup.keep(tmp_path)
    assert os.environ["COURSE_MINE"] == str(tmp_path / "MyDrive/transformer-course")
    assert (tmp_path / "MyDrive/transformer-course").is_dir()
    monkeypatch.delenv("COURSE_MINE")
