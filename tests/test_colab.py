"""The stand-in for Colab: what it builds, and that it finds what it looks for."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nbformat import v4

from tools import colab, laws, notebooks
from tools.reproducible import ROOT


def cell(source, *tags, said=""):
    made = v4.new_code_cell(source, metadata={"tags": list(tags)})
    if said:
        made.outputs = [v4.new_output("stream", name="stderr", text=said)]
    return made


# -- the environment -------------------------------------------------------------------


def test_the_versions_are_exact_and_the_set_up_cell_has_something_left_to_install():
    exact = [re.fullmatch(r"([a-z0-9_-]+)==\d[\w.]*", line) for line in colab.COLAB]
    assert all(exact)
    names = [match[1] for match in exact]
    assert len(names) == len(set(names))
    assert not colab.FETCHED & set(names)
    assert [pin.partition("==")[0] for pin in colab.pins("torch")] == ["torch"]
    for name in colab.FETCHED:
        assert colab.pins(name), f"the set-up cell reads the pin of {name}"


class Pretended(colab.Environment):
    """An environment without any: `there` is what is installed, `done` what was done"""

    def __init__(self, folder, torch):
        super().__init__(folder, torch)
        self.there, self.done = {}, []

    def pip(self, command, *arguments, **options):
        self.done.append(command)
        if command == "uninstall":
            for name in arguments[2:]:
                del self.there[name]

    def installed(self):
        return dict(self.there)

    def _make(self):
        self.done.append("make")
        self.there = {"numpy": "2.1.3", "torch": "2.13.0"}
        self.folder.mkdir(exist_ok=True)
        stamp = {"wanted": self.wanted, "installed": self.there}
        self.stamp.write_text(json.dumps(stamp), "utf-8")
        return self.installed()


def test_an_environment_is_made_once_and_renewed_for_every_lesson(tmp_path):
    environment = Pretended(tmp_path / "colab", ["torch==2.13.0"])
    first = environment.renew()
    assert environment.renew() == first
    assert environment.done == ["make"]
    environment.there |= {"sacrebleu": "2.6.0", "lxml": "6.1"}
    assert environment.renew() == first == environment.there
    assert environment.done == ["make", "uninstall"]
    # A lesson broke it; it was made for another torch; its stamp was cut short.
    environment.there["numpy"] = "2.4.6"
    assert environment.renew() == first
    again = Pretended(environment.folder, ["torch==2.11.0"])
    again.renew()
    again.stamp.write_text("{", "utf-8")
    again.renew()
    assert environment.done[2:] == again.done[1:] == ["make"]


def test_a_set_up_cell_installs_what_is_missing_and_nothing_else():
    before = {"numpy": "2.1.3", "torch": "2.11.0", "tqdm": "4.67.3"}
    fetched = {"pooch": "1.9.0", "sacrebleu": "2.6.0", "d2l": "0.17.0"}
    after = before | fetched | {"portalocker": "3"}
    assert not [*colab.set_up_faults(before, after)]
    broken = {**after, "numpy": "2.4.6", "jupyter": "1.1.1"}
    del broken["torch"], broken["d2l"]
    assert [*colab.set_up_faults(before, broken)] == [
        "the set-up cell changed numpy from 2.1.3 to 2.4.6",
        "the set-up cell changed torch from 2.11.0 to nothing",
        "the set-up cell did not install d2l",
        "the set-up cell brought jupyter, for which nobody asked",
    ]


# -- the published course --------------------------------------------------------------

needs_git = pytest.mark.skipif(
    not (shutil.which("git") and (ROOT / ".git").exists()),
    reason="the course is published from a git checkout",
)


@needs_git
def test_the_working_tree_is_published_as_it_is(tmp_path):
    tree, address = colab.publish(tmp_path / "published")
    for file in ("requirements.txt", "helpers/masks.py", "notebooks/03_masks.ipynb"):
        assert (tree / file).read_bytes() == (ROOT / file).read_bytes()
    assert not (tree / ".venv").exists()
    clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", "main", address]
    subprocess.run([*clone, tmp_path / "course"], check=True)
    fetched = tmp_path / "course" / "helpers" / "masks.py"
    assert fetched.read_text("utf-8") == (ROOT / "helpers/masks.py").read_text("utf-8")


@pytest.mark.parametrize(
    "path", sorted(notebooks.NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem
)
def test_every_lesson_can_be_pointed_at_an_address(path, tmp_path):
    notebook = notebooks.read(path)
    before = {c.id: c.source for c in notebook.cells}
    colab.prepare(notebook, "file:///some/where.git", tmp_path, tmp_path / "colab")
    (changed,) = (c for c in notebook.cells if c.source != before[c.id])
    assert laws.has_tag(changed, "setup")
    source = changed.source
    assert 'REPOSITORY, TAG = "file:///some/where.git", "main"' in source
    assert f"{tmp_path.as_posix()}/course/tools/colab_setup.py" in source
    assert "/content" not in source.replace(tmp_path.as_posix(), "")
    compile(source, "set-up", "exec")


def test_a_kernel_of_another_environment_is_refused(tmp_path):
    (tmp_path / "course" / "helpers").mkdir(parents=True)
    (tmp_path / "course" / "helpers" / "__init__.py").touch()
    setup = (ROOT / "tools" / "setup_cell.py").read_text("utf-8")
    for prefix, accepted in ((Path(sys.prefix), True), (tmp_path, False)):
        notebook = v4.new_notebook(cells=[cell(setup, "setup")])
        colab.prepare(notebook, "file:///x", tmp_path, prefix)
        # Without google.colab the cell fetches nothing; the course lies there already.
        source = f"import sys\nsys.path.insert(0, {str(tmp_path / 'course')!r})\n"
        source += notebook.cells[0].source
        run = subprocess.run([sys.executable, "-c", source], capture_output=True)
        assert (run.returncode == 0) == accepted, run.stderr
        assert (b"AssertionError" in run.stderr) != accepted


# -- the kernel ------------------------------------------------------------------------


def test_kernels_import_the_stand_in_before_the_first_cell(tmp_path):
    variables = colab.make_stand_in(tmp_path)
    startup = Path(variables["IPYTHONDIR"]) / "profile_default" / "startup" / "colab.py"
    ask = (
        startup.read_text("utf-8") + "import sys; print('google.colab' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", ask], env=variables, capture_output=True, check=True
    )
    assert run.stdout.strip() == b"True"


def test_the_kernel_is_the_python_asked_for_whatever_the_notebook_names(tmp_path):
    spec = colab.kernel_of(tmp_path / "python").get_kernel_spec("python3")
    assert spec.argv[:3] == [str(tmp_path / "python"), "-m", "ipykernel_launcher"]
    assert "{connection_file}" in spec.argv


def test_a_cell_that_warns_is_named_but_pip_may_speak():
    cells = [cell("1", "setup", said="a new pip"), cell("2"), cell("3", said="Old!\n")]
    cells[2].id = "third"
    notebook = v4.new_notebook(cells=cells)
    assert [*colab.warnings_in(notebook)] == ["cell third warns: Old!"]


# -- the command line ------------------------------------------------------------------


@pytest.fixture
def pretended(monkeypatch, tmp_path):
    """The command line with everything slow taken out; lists the lessons it ran."""
    (tmp_path / "notebooks").mkdir()
    for name in ("00_a.ipynb", "01_b.ipynb"):
        notebooks.write(
            v4.new_notebook(cells=[cell("1")]), tmp_path / "notebooks" / name
        )
    monkeypatch.setattr(colab, "Environment", Pretended)
    monkeypatch.setattr(colab, "CACHE", tmp_path)
    monkeypatch.setattr(colab, "publish", lambda folder: (tmp_path, "file:///x"))
    ran = []

    def run(notebook, address, environment, variables):
        ran.append(environment.folder.name)
        if len(ran) == 1:
            raise colab.ColabError("the set-up cell changed numpy")

    monkeypatch.setattr(colab, "run", run)
    return ran


def test_a_failing_lesson_is_named_and_the_others_run_all_the_same(pretended, capsys):
    assert colab.main([]) == 1
    said = capsys.readouterr()
    assert "the set-up cell changed numpy" in said.err
    assert re.findall(r"(\S+): (ran|FAILED)", said.out) == [
        ("00_a.ipynb", "FAILED"),
        ("01_b.ipynb", "ran"),
    ]
    assert said.out.endswith("failed: 00_a.ipynb\n")


def test_colabs_own_torch_has_an_environment_of_its_own(pretended, tmp_path, capsys):
    assert colab.main(["--colab-torch"]) == 1
    assert colab.main([str(tmp_path / "notebooks" / "01_b.ipynb")]) == 0
    assert pretended == ["colab-torch", "colab-torch", "colab"]
    assert capsys.readouterr().out.endswith("all ran as on Colab\n")
