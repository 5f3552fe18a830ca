"""Set-up: clear errors, nothing done twice, and one list of dependencies."""

import ast
import http.server
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
import time
import zipfile
from importlib.metadata import packages_distributions

import pytest

from tools import notebooks, setup_venv
from tools.reproducible import ROOT

pytestmark = pytest.mark.slow  # pip runs

REQUIREMENTS = (ROOT / "requirements.txt").read_text("utf-8")


# What is imported only where it happens to be: {package: reason}.
OPTIONAL = {
    "ctranslate2": "only the export needs it, and says so where it is missing",
    "torchvision": "d2l imports it; helpers.runtime has a stand-in for it",
}


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
def test_a_missing_venv_module_names_the_package(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(setup_venv.SetupError) as error:
        setup_venv.check_venv_module()
    assert f"no module {missing}" in str(error.value)
    minor = sys.version_info[1]
    assert f"apt install python3.{minor}-venv" in str(error.value)


def test_an_old_python_gets_as_far_as_the_message():
    source = (ROOT / "tools" / "setup_venv.py").read_text("utf-8")
    ast.parse(source, feature_version=(3, 6))
    imported = {alias.name for alias in imports(source)}
    assert imported <= set(sys.stdlib_module_names)
    assert source.isascii()


# -- a course of two small packages, and the indexes they come from --------------------

on_linux = pytest.mark.skipif(
    not setup_venv.LINUX, reason="PyPI has a choice of torch for Linux only"
)
LISTS = "torch==2.13.0\nsmall==1.0\n"


def add_wheel(index, name, version, requires=()):
    """A wheel with nothing but its metadata, in a folder that serves as an index."""
    folder, info = index / name.replace("_", "-"), f"{name}-{version}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {other}\n" for other in requires)
    tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(f"{info}/WHEEL", tags)
        wheel.writestr(f"{info}/RECORD", "")


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder of indexes on this machine, and notes what it is asked for."""

    def __init__(self, folder):
        server, self.asked = self, []

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=folder)

            def log_message(self, *_):
                server.asked.append(self.path)

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"


@pytest.fixture(scope="module")
def indexes(tmp_path_factory):
    """pip's own index, PyTorch's, and one that has not the build that is asked for."""
    folder = tmp_path_factory.mktemp("indexes")
    add_wheel(folder / "pip", "torch", "2.13.0", ["small", "nvidia_cublas"])
    add_wheel(folder / "pip", "nvidia_cublas", "13.1")
    add_wheel(folder / "pip", "small", "1.0")
    add_wheel(folder / "pip", "small", "1.1")
    add_wheel(folder / "cpu", "torch", "2.13.0+cpu", ["small"])
    add_wheel(folder / "other", "torch", "2.12.0+cpu")
    # As pip's own index may be where an institute keeps one.
    add_wheel(folder / "cpu-only", "torch", "2.13.0+cpu", ["small"])
    add_wheel(folder / "cpu-only", "small", "1.0")
    shutil.copytree(folder / "pip", folder / "both")
    shutil.copytree(folder / "cpu-only", folder / "both", dirs_exist_ok=True)
    with Server(folder) as server:
        threading.Thread(target=server.serve_forever).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def empty_venv(tmp_path_factory):
    venv = tmp_path_factory.mktemp("made") / ".venv"
    setup_venv.make_venv(str(venv))
    return venv


class Course:
    """A course in a folder, as somebody has it who calls the set-up there."""

    def __init__(self, root, monkeypatch, indexes):
        self.root, self.venv = root, root / ".venv"
        self.monkeypatch, self.indexes = monkeypatch, indexes
        (root / "requirements.txt").write_text(LISTS, "utf-8")
        (root / "pyproject.toml").touch()

    def set_up(self, torch="", cpu_index="cpu"):
        self.monkeypatch.setenv("TORCH", torch)
        index = cpu_index if ":" in cpu_index else f"{self.indexes.url}/{cpu_index}"
        return setup_venv.set_up(str(self.root), index)

    def use(self, index):
        """Set pip to another index."""
        self.monkeypatch.setenv("PIP_INDEX_URL", f"{self.indexes.url}/{index}")

    def installed(self):
        found = setup_venv.installed(str(self.venv))
        return {name: found[name] for name in found.keys() - {"pip", "setuptools"}}

    def asked_cpu_index(self):
        return [path for path in self.indexes.asked if path.startswith("/cpu/")]


CPU = {"torch": "2.13.0+cpu", "small": "1.0"}
CUDA = {"torch": "2.13.0", "small": "1.0", "nvidia_cublas": "13.1"}


@pytest.fixture
def course(tmp_path, monkeypatch, indexes, empty_venv):
    """A course with an empty .venv, on a machine without a driver."""
    for name in os.environ:
        if name.startswith("PIP_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setattr(setup_venv, "has_nvidia_driver", lambda: False)
    shutil.copytree(empty_venv, tmp_path / ".venv", symlinks=True)
    indexes.asked.clear()
    course = Course(tmp_path, monkeypatch, indexes)
    course.use("pip")
    return course


# -- once, and whole -------------------------------------------------------------------


def test_a_second_call_does_and_says_nothing(course, monkeypatch, capfd):
    monkeypatch.setattr(setup_venv, "EVERY", 0)
    assert course.set_up()
    said = capfd.readouterr().out
    assert re.search(r"^  0:00:0\d  \w", said, re.MULTILINE), "what pip does"
    assert re.search(r"^Ready after 0:00:\d\d, with torch 2.13.0", said, re.M)
    log = (course.venv / "pip.log").read_text("utf-8")
    assert "Successfully installed" in log and "Successfully installed" not in said
    assert not course.set_up()
    assert capfd.readouterr() == ("", "")


def test_it_is_called_again_when_the_lists_change(course):
    course.set_up()
    (course.root / "requirements.txt").write_text(LISTS.replace("1.0", "1.1"), "utf-8")
    assert course.set_up()
    assert course.installed()["small"] == "1.1"


def test_half_an_environment_is_made_anew(course, capfd):
    course.set_up()
    (course.venv / "course-stamp").unlink()
    shutil.rmtree(sysconfig.get_path("purelib", vars={"base": str(course.venv)}))
    assert course.set_up()
    assert f"Creating {course.venv}" in capfd.readouterr().out
    assert course.installed()["small"] == "1.0"


def test_a_failed_installation_is_named_and_taken_up_again(course, capfd):
    course.monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    for _ in range(2):
        with pytest.raises(setup_venv.SetupError, match="No package index could be"):
            course.set_up()
    course.use("other")
    with pytest.raises(setup_venv.SetupError, match="pip could not install") as error:
        course.set_up()
    assert "No matching distribution found for small==1.0" in str(error.value)
    assert str(course.venv / "pip.log") in str(error.value)
    course.use("pip")
    assert course.set_up()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals")
def test_a_terminal_sees_one_line_written_again_and_again(course):
    leader, follower = os.openpty()
    code = (
        f"from tools.setup_venv import run_pip; run_pip({str(course.venv)!r}, 'list')"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=follower, check=True)
    os.close(follower)
    said = os.read(leader, 10_000).decode("ascii")
    os.close(leader)
    assert said.startswith("\r  0:00:00  Waiting for the index")
    assert said.count("\n") == 1


# -- which build of torch --------------------------------------------------------------


@on_linux
def test_without_a_driver_torch_alone_comes_from_pytorchs_index(course, capfd):
    assert course.set_up()
    assert course.installed() == CPU
    pages = {path.split("/")[2] for path in course.asked_cpu_index()}
    assert pages == {"torch"}
    assert "1.5 GB on disk" in capfd.readouterr().out


@on_linux
def test_with_a_driver_everything_comes_from_pips_index(course, monkeypatch):
    monkeypatch.setattr(setup_venv, "has_nvidia_driver", lambda: True)
    assert course.set_up()
    assert course.installed() == CUDA
    assert not course.asked_cpu_index()


@on_linux
def test_a_torch_that_is_there_is_kept(course):
    course.set_up("cuda")
    (course.venv / "course-stamp").unlink()
    course.use("both")  # where pip by itself would take 2.13.0+cpu
    assert course.set_up()
    assert course.installed() == CUDA
    assert not course.asked_cpu_index()


@pytest.fixture
def silent():
    """The address of a server that takes calls and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@on_linux
@pytest.mark.parametrize(
    ("index", "reason"),
    [
        ("http://127.0.0.1:9", "no answer"),
        ("silent", "no answer"),
        ("other", "No matching distribution found for torch==2.13.0+cpu"),
    ],
)
def test_without_pytorchs_index_pips_own_is_used(
    course, silent, index, reason, monkeypatch, capfd
):
    start = time.monotonic()
    with monkeypatch.context() as patch:
        if index == "silent":
            index = silent
            patch.setattr(setup_venv, "PATIENCE", 3)
        assert course.set_up(cpu_index=index)
    assert time.monotonic() - start < 40, "pip alone waits 15 s, three times"
    assert course.installed() == CUDA
    assert f"{reason}; using pip's own index" in capfd.readouterr().out
    assert not course.set_up()
    # Asked for, it is tried again.
    assert course.set_up("cpu")
    assert course.installed() == CPU


@on_linux
def test_torch_decides_and_stays_decided(course):
    course.use("both")
    for torch, build in [("cuda", CUDA), ("cpu", CPU), ("cuda", CUDA)]:
        assert course.set_up(torch)
        assert course.installed() == build
        assert not course.set_up(torch)
        assert not course.set_up()
    (course.root / "requirements.txt").write_text(LISTS + "# changed\n", "utf-8")
    assert course.set_up()
    assert course.installed() == CUDA


@on_linux
def test_a_build_that_cannot_be_had_leaves_the_other(course):
    course.use("cpu-only")
    course.set_up()
    with pytest.raises(setup_venv.SetupError, match=r"versions: 2.13.0\+cpu"):
        course.set_up("cuda")
    assert not course.set_up()
    assert course.installed() == CPU


@on_linux
def test_an_interrupted_change_is_taken_up_again(course):
    course.set_up()
    # pip was ended after it removed one build and before it installed the other.
    [info] = course.venv.rglob("torch-2.13.0+cpu.dist-info")
    shutil.rmtree(info)
    assert course.set_up()
    assert course.installed() == CPU


def test_other_systems_have_one_build(course, monkeypatch):
    monkeypatch.setattr(setup_venv, "LINUX", False)
    assert course.set_up("cpu")
    assert course.installed() == CUDA  # what pip's index has
    assert not course.asked_cpu_index()
    with pytest.raises(setup_venv.SetupError, match="for Linux only"):
        course.set_up("cuda")


@on_linux
def test_a_driver_is_known_by_its_library():
    assert setup_venv.has_nvidia_driver("libc.so.6")
    assert not setup_venv.has_nvidia_driver("libno-such-driver.so.1")


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
    ours = {"helpers", "tools", "benchmarks", "studies"}
    # pytest puts tests/ on the path: its modules, and its folders of examples.
    ours |= {path.stem for path in (ROOT / "tests").iterdir()}
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
    for folder in ("helpers", "tools", "tests", "benchmarks", "studies"):
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


@needs_make
def test_make_passes_torch_on():
    command = ["make", "setup", "TORCH=gpu", f"PYTHON={sys.executable}"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert "TORCH=gpu: expected TORCH=cpu or TORCH=cuda" in said.stderr
    assert said.returncode


def test_ci_runs_make_test_and_nothing_else():
    script = ROOT / ".ci" / "run"
    lines = [
        line
        for line in script.read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert lines == ['cd "$(dirname "$0")/.." && exec make test']
    assert os.access(script, os.X_OK) or os.name == "nt"
