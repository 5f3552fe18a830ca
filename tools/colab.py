"""Run the lessons as Colab would: python -m tools.colab [--colab-torch] [notebook …]

Colab opens one notebook, in a kernel with its own, older versions of Jupyter's parts,
with `google.colab` imported and nothing of the course at hand but what the set-up cell
fetches. Here the same is built without Colab: an environment with Colab's versions, a
stand-in for `google.colab`, a bare git repository of this working tree as the published
address, and for every notebook a folder that holds it alone. Each is executed from its
first cell to its last. It fails where a cell raises (an assert, for one) or warns, and
where the set-up cell installs anything but what Colab lacks. Stored outputs are not
compared: other versions print other digits.

The environment stays in .cache for the next time, less what the set-up cell installed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock
from nbformat import NotebookNode

from tools import laws, notebooks
from tools.reproducible import CACHE, ROOT

# What Colab's runtime of August 2026 has, as far as the lessons meet it, in a cell or
# behind the kernel; and pytest, with which one may run the course's tests there.
COLAB = (
    "ipython==7.34.0",
    "ipykernel==6.17.1",
    "ipywidgets==7.7.1",
    "jupyter_client==7.4.9",
    "jupyter_core==5.9.1",
    "jupyter_server==2.20.0",
    "matplotlib==3.10.0",
    "matplotlib-inline==0.2.2",
    "nbformat==5.11.1",
    "numpy==2.1.3",
    "pandas==2.2.3",
    "pillow==11.3.0",
    "pytest==8.4.2",
    "requests==2.32.4",
    "safetensors==0.8.0",
    "scipy==1.16.3",
    "seaborn==0.13.2",
    "tokenizers==0.22.2",
    "tqdm==4.67.3",
)
# Colab's torch. pip's has the libraries for GPUs with it, some gigabytes, so without
# --colab-torch it is the torch that requirements.txt pins, in any build at hand.
COLAB_TORCH = ("torch==2.11.0", "torchvision==0.26.0")
FETCHED = {"pooch", "sacrebleu", "d2l"}  # what the set-up cell has to install itself
# What sacrebleu needs: it may come along.
COMPANIONS = {"colorama", "lxml", "portalocker", "regex", "tabulate"}


def pins(*names: str) -> list[str]:
    """The lines of requirements.txt that pin these packages."""
    lines = (ROOT / "requirements.txt").read_text("utf-8").split()
    return [line for line in lines if line.partition("==")[0] in names]


class ColabError(Exception):
    """A lesson ran to its end, yet not as it should on Colab; the text says what."""


class Environment:
    """A virtual environment with Colab's versions, in `folder`; `torch` lists pins."""

    def __init__(self, folder: Path, torch: Iterable[str]):
        self.folder = folder
        # pkg_resources, which IPython 7.34 still needs, left setuptools in version 81.
        self.packages = ["setuptools<81", *COLAB, *torch]
        self.wanted = [f"python {sys.version_info[0]}.{sys.version_info[1]}"]
        self.wanted += self.packages
        bin_folder = "Scripts/python.exe" if os.name == "nt" else "bin/python"
        self.python = folder / bin_folder
        self.stamp = folder / "versions.json"

    def renew(self) -> dict[str, str]:
        """Bring it to what Colab has at its start, and nothing more; give that.

        What the last set-up cell installed goes; an environment that lacks anything,
        was made for other versions or does not answer is made anew.
        """
        try:
            stamp = json.loads(self.stamp.read_text("utf-8"))
            first, had = stamp["installed"], self.installed()
        except (OSError, ValueError, subprocess.CalledProcessError):
            return self._make()
        if stamp["wanted"] != self.wanted or not first.items() <= had.items():
            return self._make()
        if surplus := had.keys() - first.keys():
            self.pip("uninstall", "-q", "-y", *sorted(surplus))
        return first

    def _make(self) -> dict[str, str]:
        print(f"making {self.folder}", flush=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        venv.create(self.folder, with_pip=True)
        self.pip("install", "-q", *self.packages)
        first = self.installed()
        stamp = {"wanted": self.wanted, "installed": first}
        self.stamp.write_text(json.dumps(stamp, indent=1), "utf-8")
        return first

    def pip(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess:
        """Run the environment's pip; a failure raises CalledProcessError."""
        command = [self.python, "-m", "pip", "--disable-pip-version-check", *arguments]
        return subprocess.run(command, check=True, **options)

    def installed(self) -> dict[str, str]:
        """{name: version} of the packages that are there now."""
        listing = self.pip(
            "list", "--format=json", stdout=subprocess.PIPE, encoding="utf-8"
        ).stdout
        return {
            package["name"].lower().replace("_", "-"): package["version"]
            for package in json.loads(listing)
        }


def set_up_faults(before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    """What a set-up cell installed that it should not have, and what it did not."""
    for name, version in before.items():
        if after.get(name) != version:
            now = after.get(name, "nothing")
            yield f"the set-up cell changed {name} from {version} to {now}"
    for name in sorted(FETCHED - after.keys()):
        yield f"the set-up cell did not install {name}"
    for name in sorted(after.keys() - before.keys() - FETCHED - COMPANIONS):
        yield f"the set-up cell brought {name}, for which nobody asked"


def warnings_in(notebook: NotebookNode) -> Iterator[str]:
    """What a run's cells wrote to stderr, but for what pip said in the set-up cell."""
    for cell in laws.code_cells(notebook):
        if not laws.has_tag(cell, "setup"):
            for output in cell.outputs:
                if output.get("name") == "stderr":
                    yield f"cell {cell.id} warns: {output.text.strip()}"


def publish(folder: Path) -> tuple[Path, str]:
    """A bare repository of the working tree as it is now; gives tree and address."""
    tree, bare = folder / "tree", folder / "course.git"
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if (ROOT / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    identity = ["-c", "user.name=course", "-c", "user.email=course@example.org"]
    for command in (
        ["init", "-q", "-b", "main"],
        ["add", "."],
        [*identity, "commit", "-q", "-m", "The course"],
    ):
        subprocess.run(["git", *command], cwd=tree, check=True)
    subprocess.run(["git", "clone", "-q", "--bare", tree, bare], check=True)
    return tree, bare.as_uri()


def make_stand_in(folder: Path) -> dict[str, str]:
    """A package google.colab, and a start-up file that imports it in every kernel."""
    package = folder / "site" / "google" / "colab"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    startup = folder / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "colab.py").write_text("import google.colab\n", "utf-8")
    return {
        "PYTHONPATH": str(folder / "site"),
        "IPYTHONDIR": str(folder / "ipython"),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "COURSE_RUN": "check",  # long lessons compute for a minute (helpers.runtime)
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # else it fills the log with advice
    }


def prepare(notebook: NotebookNode, address: str, content: Path, prefix: Path) -> None:
    """Point the set-up cell at the address, and at `content` instead of /content.

    The cell then also asserts that the kernel is that of the environment in `prefix`.
    """
    (setup,) = (c for c in laws.code_cells(notebook) if laws.has_tag(c, "setup"))
    stamp = f'REPOSITORY, TAG = "{address}", "main"'
    source = re.sub(r"(?m)^REPOSITORY, TAG = .*$", stamp, setup.source)
    setup.source = source.replace("/content", content.as_posix())
    # Colab has no other copy of the course to import by accident; neither has this.
    course = (content / "course").as_posix()
    setup.source += f"\n\nimport helpers\nassert {course!r} in helpers.__file__"
    # A kernel of the course's own .venv would pass everything and prove nothing.
    setup.source += f"\nassert sys.prefix == {str(prefix)!r}, sys.prefix"


def kernel_of(python: Path) -> Any:
    """A manager of kernel specifications that knows this Python's kernel alone."""
    from nbval.kernel import NbvalKernelspecManager

    launch = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]

    class Only(NbvalKernelspecManager):
        def get_kernel_spec(self, kernel_name: str) -> Any:
            return self.kernel_spec_class(argv=launch, language="python")

    return Only()


def run(
    notebook: NotebookNode,
    address: str,
    environment: Environment,
    variables: dict[str, str],
) -> None:
    """Execute a notebook alone in a folder, in a kernel of Colab's versions.

    Raises what a failing cell raises, and ColabError for the faults found afterwards.
    """
    from nbclient import NotebookClient

    before = environment.renew()
    with tempfile.TemporaryDirectory() as folder:
        prepare(notebook, address, Path(folder), environment.folder)
        where = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=None, resources=where)
        manager = client.create_kernel_manager()
        manager.kernel_spec_manager = kernel_of(environment.python)
        client.execute(env={**os.environ, **variables})
    faults = [*set_up_faults(before, environment.installed()), *warnings_in(notebook)]
    if faults:
        raise ColabError("\n".join(faults))


def run_all(paths: Iterable[Path], environment: Environment) -> list[str]:
    """Run these notebooks, or all lessons; the names of those that failed."""
    environment.renew()  # no network, for one: an error that no lesson would mend
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        tree, address = publish(Path(folder))
        variables = make_stand_in(Path(folder))
        for path in paths or sorted((tree / "notebooks").glob("*.ipynb")):
            start = time.perf_counter()
            try:
                run(notebooks.read(path), address, environment, variables)
                state = "ran"
            except Exception as error:  # the next lesson is run all the same
                print(error, file=sys.stderr)
                failed.append(path.name)
                state = "FAILED"
            seconds = time.perf_counter() - start
            print(f"{path.name}: {state} ({seconds:.0f} s)", flush=True)
    return failed


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.colab",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--colab-torch",
        action="store_true",
        help="with Colab's torch and torchvision, gigabytes, instead of the pinned one",
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="notebook")
    options = parser.parse_args(arguments)
    if options.colab_torch:
        environment = Environment(CACHE / "colab-torch", COLAB_TORCH)
    else:
        environment = Environment(CACHE / "colab", pins("torch"))
    CACHE.mkdir(exist_ok=True)
    # Two runs at once would clear away each other's packages: the second one waits.
    with FileLock(f"{environment.folder}.lock"):
        failed = run_all(options.paths, environment)
    print("failed: " + ", ".join(failed) if failed else "all ran as on Colab")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
