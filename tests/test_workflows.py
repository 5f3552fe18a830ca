"""The workflows for a fork on GitHub: what they call is there."""

import re
import subprocess
import sys

import yaml

from tools import newest, setup_venv
from tools.reproducible import ROOT

WORKFLOWS = [
    yaml.safe_load(path.read_text("utf-8"))
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))
]
JOBS = [job for workflow in WORKFLOWS for job in workflow["jobs"].values()]


def test_jobs_call_what_is_there():
    called = "\n".join(
        step["run"] for job in JOBS for step in job["steps"] if "run" in step
    )
    targets = set(re.findall(r"^make ([a-z-]+)", called, re.MULTILINE))
    targets |= {
        part.split()[0]
        for job in JOBS
        for part in job.get("strategy", {}).get("matrix", {}).get("part", ())
    }
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in targets:
        assert re.search(rf"^{target}:.*##", makefile, re.MULTILINE), target
    paths = re.findall(r"\b(?:notebooks|tools|tests)/[\w./]+", called)
    paths += re.findall(r"^\.[\w/]+$", called, re.MULTILINE)
    assert targets and paths
    for path in paths:
        assert (ROOT / path).is_file(), path


def test_every_supported_python_is_tested_on_linux():
    (matrix,) = (
        job["strategy"]["matrix"] for job in JOBS if ".ci/run" in str(job["steps"])
    )
    minors = range(setup_venv.OLDEST[1], setup_venv.NEWEST[1] + 1)
    assert matrix["python"] == [f"3.{minor}" for minor in minors]


def test_the_newest_list_is_the_one_list_without_its_pins():
    command = [sys.executable, ROOT / "tools" / "newest.py"]
    found = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    pinned = newest.REQUIREMENTS.read_text("utf-8").splitlines()
    open_ = found.stdout.splitlines()
    assert len(open_) == len(pinned)
    for before, after in zip(pinned, open_, strict=True):
        name = before.partition("==")[0]
        assert after == (before if name in newest.KEPT else name)
    assert [line for line in open_ if "==" in line] == ["d2l==0.17.0"]
    assert open_[-1] == "-e ."
