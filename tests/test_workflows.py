"""The workflows for a fork on GitHub: what they name is there, and what we rely on."""

import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from tools import newest, notebooks, setup_venv
from tools.reproducible import ROOT

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text("utf-8"))
    for path in sorted(FOLDER.glob("*.y*ml"))
}
JOBS = {
    f"{workflow}-{name}": job
    for workflow, content in WORKFLOWS.items()
    for name, job in content["jobs"].items()
}
TIME_MEASURED = re.compile(r"perf_counter|best_time|time\.time")


def commands(job):
    """The shell text of all steps of a job."""
    return "\n".join(step["run"] for step in job["steps"] if "run" in step)


def pythons(job):
    """The versions of Python that a job asks for."""
    matrix = job.get("strategy", {}).get("matrix", {})
    listed = [*matrix.get("python", ())]
    listed += [row["python"] for row in matrix.get("include", ())]
    return listed or [
        step["with"]["python-version"]
        for step in job["steps"]
        if "setup-python" in step.get("uses", "")
    ]


def triggers(workflow):
    """What starts it: YAML takes the key `on` for the truth value."""
    return workflow[True]


def test_every_supported_python_is_tested_on_linux():
    minors = range(setup_venv.OLDEST[1], setup_venv.NEWEST[1] + 1)
    assert pythons(JOBS["test-linux"]) == [f"3.{minor}" for minor in minors]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["requires-python"] == f">=3.{minors[0]},<3.{minors[-1] + 1}"
    assert commands(JOBS["test-linux"]) == ".ci/run"


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_bounded_and_may_only_read(name):
    job, workflow = JOBS[name], WORKFLOWS[name.partition("-")[0]]
    assert job["timeout-minutes"] <= 90
    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in job
    assert workflow["concurrency"]["cancel-in-progress"] is True
    # bash stops at the first failing command of a pipe only where it is named.
    assert workflow["defaults"]["run"]["shell"] == "bash"


@pytest.mark.parametrize("name", JOBS)
def test_a_job_asks_for_versions_that_stay(name):
    job = JOBS[name]
    for step in job["steps"]:
        if "uses" in step:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"])
    for version in pythons(job):
        assert isinstance(version, str), "unquoted, 3.10 is the number 3.1"
        assert setup_venv.OLDEST <= (3, int(version[2:])) <= setup_venv.NEWEST


@pytest.mark.parametrize("name", JOBS)
def test_a_job_calls_what_is_there(name):
    text = commands(JOBS[name])
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"^make (\S+)", text, re.MULTILINE):
        assert re.search(rf"^{target}:.*##", makefile, re.MULTILINE), target
    for path in re.findall(r"\b(?:notebooks|tools|tests)/[\w./]+", text):
        assert (ROOT / path).is_file(), path
    for path in re.findall(r"^\.[\w/]+$", text, re.MULTILINE):
        assert (ROOT / path).is_file(), path


def test_other_systems_run_three_lessons_that_measure_no_time():
    job = JOBS["test-elsewhere"]
    systems = {row["system"] for row in job["strategy"]["matrix"]["include"]}
    assert systems == {"macos-latest", "windows-latest"}
    lessons = re.findall(r"notebooks/\S+\.ipynb", commands(job))
    assert len(lessons) == 3
    for lesson in lessons:
        for cell in notebooks.read(ROOT / lesson).cells:
            assert not TIME_MEASURED.search(cell.source), f"{lesson}, cell {cell.id}"


def test_lessons_run_with_colabs_own_torch():
    assert commands(JOBS["test-colab"]) == "make test-colab ARGS=--colab-torch"


def test_newest_releases_are_tried_weekly_and_block_nothing():
    workflow = WORKFLOWS["newest"]
    (timer,) = triggers(workflow)["schedule"]
    minute, hour, day, month, weekday = timer["cron"].split()
    assert 0 < int(minute) < 60 and 0 <= int(hour) < 24  # on the hour all others run
    assert (day, month) == ("*", "*") and 0 <= int(weekday) < 7
    # GitHub keeps no calendar for forks that nobody touches: it can be asked for, too.
    assert triggers(workflow).keys() == {"schedule", "workflow_dispatch"}
    (job,) = workflow["jobs"].values()
    assert job["continue-on-error"] is True
    assert "GITHUB_STEP_SUMMARY" in commands(job) and "pip freeze" in commands(job)
    for name, other in JOBS.items():
        assert name == "newest-newest" or "continue-on-error" not in other


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
