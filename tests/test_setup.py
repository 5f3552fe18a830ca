"""Set-up: clear errors, nothing twice, nothing left half done, files that exist."""

import ast
import ctypes
import json
import os
import re
import subprocess
import sys

import pytest

from tools import setup_venv
from tools.reproducible import ROOT


@pytest.mark.parametrize("old", [(3, 6), (3, 10)])
def test_an_old_python_is_told_which_ones_will_do(old):
    ast.parse((ROOT / "tools/setup_venv.py").read_text("ascii"), feature_version=(3, 6))
    with pytest.raises(SystemExit, match=rf"Python 3\.{old[1]} .*needs Python 3\.11"):
        setup_venv.check_version(old)
    setup_venv.check_version((3, 13))


@pytest.fixture
def pip(tmp_path, monkeypatch):
    """What pip is asked for in a course that lacks packages; "full" makes it fail."""
    asked = []

    def install(pip, *arguments, patience=0):
        asked.append(" ".join(arguments))
        setup_venv.LOG.write_text("No space left")
        return "-r" in arguments and os.path.exists("full")

    (tmp_path / "checkup").mkdir()
    for name in (*setup_venv.LISTS, "pyproject.toml", "checkup/pyproject.toml"):
        (tmp_path / name).write_text("# pins\ntorch==2.13.0\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH", "cpu")
    monkeypatch.setattr(setup_venv, "IMPORTS", ("", ""))
    monkeypatch.setattr(setup_venv, "install", install)
    return asked


def test_a_second_call_does_nothing_until_more_is_asked_for(pip, tmp_path, capfd):
    for dev, name in enumerate(setup_venv.LISTS):
        setup_venv.set_up(dev)
        assert f"-r {name}" in pip[-1] and "Ready after" in capfd.readouterr().out
        done = len(pip)
        setup_venv.set_up()
        assert len(pip) == done and capfd.readouterr() == ("", "")
    (tmp_path / "pyproject.toml").write_text("# another")
    setup_venv.set_up()
    assert len(pip) > done


def test_what_failed_is_named_and_taken_up_again(pip, tmp_path):
    setup_venv.set_up()
    (tmp_path / "full").touch()
    for dev in (True, False):  # the first call's stamp must not hide what is missing
        with pytest.raises(SystemExit, match=r"No space left\n.*pip\.log"):
            setup_venv.set_up(dev)
    (tmp_path / "full").unlink()
    done = len(pip)
    setup_venv.set_up()
    assert len(pip) > done


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere, one build")
def test_torch_and_the_driver_decide_which_torch_is_installed(pip, monkeypatch):
    setup_venv.set_up()
    assert "torch==2.13.0+cpu" in pip[-2] and setup_venv.CPU_INDEX in pip[-2]
    monkeypatch.setenv("TORCH", "cuda")
    setup_venv.set_up()
    assert "torch!=2.13.0+cpu" in pip[-1], "pip would take it for a 2.13.0"
    monkeypatch.setenv("TORCH", "gpu")
    with pytest.raises(SystemExit, match="TORCH=gpu: expected TORCH=cpu or TORCH=cuda"):
        setup_venv.set_up()
    monkeypatch.delenv("TORCH")
    monkeypatch.setattr(ctypes, "CDLL", os.listdir)  # OSError: no such library
    assert [setup_venv.torch_build(), setup_venv.torch_build("cuda")] == ["cpu", "cuda"]


def test_the_files_that_other_tools_read_name_files_that_exist():
    container = (ROOT / ".devcontainer/devcontainer.json").read_text("utf-8")
    named = [json.loads(container)["postCreateCommand"].split()[-1]]
    for name in ("environment.yml", *setup_venv.LISTS):
        named += re.findall(r"(?m)^[ -]*-[re] (.+)$", (ROOT / name).read_text("utf-8"))
    assert len(named) == 5 and all((ROOT / name).exists() for name in named)


@pytest.mark.skipif(os.name == "nt", reason="README names commands without make")
def test_only_root_gives_jupyterlab_leave_to_run_as_root(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for user in ("0", "1000"):
        (tmp_path / "id").write_text(f"#!/bin/sh\necho {user}\n")
        (tmp_path / "id").chmod(0o755)
        plan = subprocess.check_output(["make", "-n", "-C", ROOT, "lab"])
        assert (b" --allow-root" in plan) == (user == "0")
