"""Set-up: clear errors, nothing done twice, and one list of dependencies."""

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import packages_distributions

import pytest

from tools import notebooks, setup_venv
from tools.reproducible import ROOT

REQUIREMENTS = (ROOT / "requirements.txt").read_text("utf-8")


# What is imported only where it happens to be: {package: reason}.
OPTIONAL = {"torchvision": "d2l imports it; helpers.runtime has a stand-in for it"}


def pins():
    """{name: line} of requirements.txt, the editable install of the course left out."""
    lines = [line.split("#")[0].strip() for line in REQUIREMENTS.splitlines()]
    lines = [line for line in lines if line and line != "-e ."]
    return {re.split("[=<>~!]", line)[0]: line for line in lines}


# -- errors ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [(3, 8), (3, 10), (3, 14)])
def test_an_unsuitable_python_is_named(version):
    with pytest.raises(setup_venv.SetupError) as error:
        setup_venv.check_version(version, "/usr/bin/python3")
    found, needed = f"Python {version[0]}.{version[1]}", "needs Python 3.11 to 3.13"
    assert found in str(error.value)
    assert needed in str(error.value)


@pytest.mark.parametrize("version", [(3, 11), (3, 12, 4), (3, 13)])
def test_a_suitable_python_passes(version):
    setup_venv.check_version(version)


@pytest.mark.parametrize("missing", ["venv", "ensurepip"])
def test_a_missing_venv_module_names_the_package(missing):
    def import_module(name):
        if name == missing:
            raise ImportError(name=name)

    with pytest.raises(setup_venv.SetupError) as error:
        setup_venv.check_venv_module(import_module)
    assert f"no module {missing}" in str(error.value)
    minor = sys.version_info[1]
    assert f"apt install python3.{minor}-venv" in str(error.value)


def test_an_unreachable_index_is_told_from_other_failures(tmp_path, monkeypatch, capfd):
    (tmp_path / "requirements.txt").write_text("no-such-thing==1.0\n", "utf-8")
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(setup_venv.SetupError, match="No package index could be"):
        setup_venv.pip_install(sys.executable, tmp_path)
    assert "no-such-thing" in capfd.readouterr().err
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(setup_venv.SetupError, match="pip could not install"):
        setup_venv.pip_install(sys.executable, tmp_path)


def test_an_old_python_gets_as_far_as_the_message():
    source = (ROOT / "tools" / "setup_venv.py").read_text("utf-8")
    ast.parse(source, feature_version=(3, 6))
    imported = {alias.name for alias in imports(source)}
    assert imported <= set(sys.stdlib_module_names)
    assert source.isascii()


# -- once, and whole -------------------------------------------------------------------


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course that needs nothing installed; counts what set_up does."""
    (tmp_path / "requirements.txt").touch()
    (tmp_path / "pyproject.toml").touch()
    done = []
    install = setup_venv.pip_install
    make = setup_venv.make_venv
    monkeypatch.setattr(
        setup_venv, "pip_install", lambda *a: (done.append("install"), install(*a))
    )
    monkeypatch.setattr(
        setup_venv, "make_venv", lambda *a: (done.append("make"), make(*a))
    )
    return tmp_path, done


def test_set_up_once_then_again_only_when_the_lists_change(course):
    root, done = course
    assert setup_venv.set_up(str(root))
    assert done == ["make", "install"]
    assert not setup_venv.set_up(str(root))
    assert done == ["make", "install"]
    (root / "requirements.txt").write_text("# changed\n", "utf-8")
    assert setup_venv.set_up(str(root))
    assert done == ["make", "install", "install"]
    # Interrupted in the middle of making it: no stamp, and half an environment.
    (root / ".venv" / "course-stamp").unlink()
    shutil.rmtree(sysconfig.get_path("purelib", vars={"base": str(root / ".venv")}))
    assert setup_venv.set_up(str(root))
    assert done[3:] == ["make", "install"]
    assert setup_venv.venv_works(str(root / ".venv"))


def test_a_failed_installation_is_taken_up_again(course, monkeypatch):
    root, done = course
    monkeypatch.setattr(setup_venv, "venv_python", lambda venv: sys.executable)
    lists = "--no-index\nno-such-thing==1.0\n"
    (root / "requirements.txt").write_text(lists, "utf-8")
    for _ in range(2):
        (root / ".venv").mkdir(exist_ok=True)
        with pytest.raises(setup_venv.SetupError):
            setup_venv.set_up(str(root))
    assert done == ["install", "install"]


# -- one list --------------------------------------------------------------------------


def test_every_requirement_is_pinned_exactly():
    for name, line in pins().items():
        assert re.fullmatch(r"[a-z0-9][a-z0-9_-]*==\d[\w.]*", line), line
        assert name == name.lower()
    assert REQUIREMENTS.splitlines()[-1] == "-e .", "the package helpers comes last"


def test_conda_reads_the_same_list():
    environment = (ROOT / "environment.yml").read_text("utf-8")
    dependencies = re.findall(
        r"^ +- (.+)$", environment.partition("dependencies:")[2], re.M
    )
    assert dependencies == ["python=3.11", "pip", "pip:", "-r requirements.txt"]


def test_every_import_is_in_the_list():
    ours = {"helpers", "tools", "benchmarks"}
    ours |= {path.stem for path in (ROOT / "tests").glob("*.py")}
    installed = packages_distributions()
    listed = {name.replace("_", "-") for name in pins()}
    for path, source in sources():
        for name in {alias.name.partition(".")[0] for alias in imports(source)}:
            if name in {*ours, *OPTIONAL, *sys.stdlib_module_names}:
                continue
            owners = {d.lower().replace("_", "-") for d in installed.get(name, [name])}
            assert owners & listed, f"{path} imports {name}: pin it in requirements.txt"


def sources():
    """(path, Python text) of all that the course imports in its code and notebooks."""
    for folder in ("helpers", "tools", "tests", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT), path.read_text("utf-8")
    for path in notebooks.all_notebooks():
        for cell in notebooks.read(path).cells:
            if cell.cell_type == "code":
                yield path.relative_to(ROOT), cell.source


def imports(source):
    """The names that a module or cell imports, as ast.alias objects."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from node.names
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield ast.alias(node.module)


def test_any_folder_finds_these_helpers(tmp_path):
    command = [sys.executable, "-c", "import helpers; print(helpers.__file__)"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8")
    here = str(ROOT / "helpers" / "__init__.py")
    assert found.stdout.strip() == here, "set up again: python tools/setup_venv.py"


# -- make ------------------------------------------------------------------------------

# Windows may have a make, but not the shell that its recipes are written for; there
# README names the commands that do without.
needs_make = pytest.mark.skipif(
    os.name == "nt" or not shutil.which("make"), reason="no make for POSIX here"
)


@needs_make
def test_make_alone_describes_every_target():
    said = subprocess.run(["make"], cwd=ROOT, capture_output=True, encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"^([a-z]+):", makefile, re.MULTILINE)
    assert set(targets) >= {"help", "lab", "test", "run", "lint", "bench"}
    described = re.findall(r"^make (\w+) +\w", said.stdout, re.MULTILINE)
    assert described == targets
    assert said.returncode == 0


@needs_make
@pytest.mark.parametrize("target", ["lab", "test", "run", "lint", "bench"])
def test_every_target_sets_up_first_and_passes_arguments(target):
    plan = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", target, "ARGS=--one --two"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    first, last = plan.splitlines()[0], plan.splitlines()[-1]
    assert first.endswith("tools/setup_venv.py")
    assert last.endswith("--one --two") or target == "lint"


def test_ci_runs_make_test_and_nothing_else():
    script = ROOT / ".ci" / "run"
    lines = [
        line
        for line in script.read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert lines == ['cd "$(dirname "$0")/.." && exec make test']
    assert os.access(script, os.X_OK) or os.name == "nt"
