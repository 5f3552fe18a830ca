"""Run the lessons as Colab would: python -m tools.colab [--colab-torch] [notebook …]

Colab opens one notebook, in a kernel with its own, older versions of Jupyter's parts,
with `google.colab` imported and nothing of the course at hand but what the set-up cell
fetches. Here the same is built without Colab: an environment with Colab's versions, a
stand-in for `google.colab`, a bare git repository of this working tree as the published
address, and for every notebook a folder that holds it alone. It fails where a cell
raises (an assert, for one) or warns, and where the set-up cell changes a version that
Colab has. Stored outputs are not compared: other versions print other digits.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from tools.notebooks import code_cells, has_tag, read
from tools.reproducible import CACHE, ROOT

# What Colab's runtime of August 2026 has, as far as the lessons meet it, in a cell or
# behind the kernel. IPython 7.34 needs pkg_resources, which setuptools 81 left out.
COLAB = (
    "setuptools<81",
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
    "requests==2.32.4",
    "safetensors==0.8.0",
    "scipy==1.16.3",
    "seaborn==0.13.2",
    "tokenizers==0.22.2",
    "tqdm==4.67.3",
    "transformers==5.15.1",
)
# Colab's torch. pip's has the libraries for GPUs with it, some gigabytes, so without
# --colab-torch it is the torch that requirements.txt pins, in any build at hand.
COLAB_TORCH = ("torch==2.11.0", "torchvision==0.26.0")
LIKE_A_CHECK = {
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "COURSE_RUN": "check",  # long lessons compute for a minute (helpers.runtime)
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # else it fills the log with advice
}


def pinned(*names: str) -> list[str]:
    """The lines of requirements.txt that pin these packages."""
    lines = (ROOT / "requirements.txt").read_text("utf-8").split()
    return [line for line in lines if line.partition("==")[0] in names]


def make_environment(folder: Path, packages: Sequence[str]) -> Path:
    """The Python of a new environment that has these packages, and what they need."""
    venv.create(folder, with_pip=True, clear=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    command = [python, "-m", "pip", "install", "-q", *packages]
    subprocess.run(command, check=True)
    return python


def installed(python: Path) -> set[str]:
    """name==version of all packages that an environment has."""
    command = [python, "-m", "pip", "freeze", "--all"]
    run = subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
    return {*run.stdout.split()}


def publish(folder: Path) -> str:
    """The address of a bare repository of the working tree as it is now."""
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
        ["clone", "-q", "--bare", ".", str(bare)],
    ):
        subprocess.run(["git", *command], cwd=tree, check=True)
    return bare.as_uri()


def make_stand_in(folder: Path) -> dict[str, str]:
    """A package google.colab, and a start-up file that imports it in every kernel."""
    package = folder / "site" / "google" / "colab"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    refusal = 'def mount(place):\n    raise ValueError("mount failed")\n'
    (package / "drive.py").write_text(refusal, "utf-8")
    startup = folder / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "colab.py").write_text("import google.colab\n", "utf-8")
    places = {"PYTHONPATH": folder / "site", "IPYTHONDIR": folder / "ipython"}
    return LIKE_A_CHECK | {name: str(place) for name, place in places.items()}


def prepare(notebook: NotebookNode, address: str, content: Path, prefix: Path) -> None:
    """Point the set-up cell at the address.

    The cell then also asserts that the kernel is that of the environment in `prefix`,
    and the course the one that it fetched: another one would prove nothing.
    """
    (setup,) = (cell for cell in code_cells(notebook) if has_tag(cell, "setup"))
    stamp = f'REPOSITORY, TAG = "{address}", "main"'
    setup.source = re.sub(r"(?m)^REPOSITORY, TAG = .*$", stamp, setup.source)
    course = (content / "course").as_posix()
    setup.source += f"\n\nimport helpers\nassert {course!r} in helpers.__file__"
    setup.source += f"\nassert sys.prefix == {str(prefix)!r}, sys.prefix"


def kernel_of(python: Path) -> Any:
    """A manager of kernel specifications that knows this Python's kernel alone."""
    from nbval.kernel import NbvalKernelspecManager

    launch = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]

    class Only(NbvalKernelspecManager):
        def get_kernel_spec(self, kernel_name: str) -> Any:
            return self.kernel_spec_class(argv=launch, language="python")

    return Only()


def run(notebook: NotebookNode, address: str, python: Path, variables: dict) -> None:
    """Execute a notebook alone in a folder; RuntimeError where a cell warns.

    Raises what a failing cell raises. In the set-up cell, pip may speak.
    """
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as folder:
        prepare(notebook, address, Path(folder), python.parents[1])
        where = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=None, resources=where)
        client.create_kernel_manager().kernel_spec_manager = kernel_of(python)
        client.execute(env={**os.environ, **variables})
    for cell in code_cells(notebook):
        for output in cell.outputs:
            if output.get("name") == "stderr" and not has_tag(cell, "setup"):
                raise RuntimeError(f"cell {cell.id} warns: {output.text.strip()}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.colab")
    parser.add_argument(
        "--colab-torch",
        action="store_true",
        help="with Colab's torch and torchvision, gigabytes, instead of the pinned one",
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="notebook")
    options = parser.parse_args(arguments)
    torch = COLAB_TORCH if options.colab_torch else pinned("torch")
    python = make_environment(CACHE / "colab", [*COLAB, *torch])
    first, failed = installed(python), []
    with tempfile.TemporaryDirectory() as folder:
        address, variables = publish(Path(folder)), make_stand_in(Path(folder))
        for path in options.paths or sorted((ROOT / "notebooks").glob("*.ipynb")):
            start, state = time.perf_counter(), "ran"
            try:
                run(read(path), address, python, variables)
            except Exception as error:  # the next lesson is run all the same
                print(error, file=sys.stderr)
                failed.append(path.name)
                state = "FAILED"
            seconds = time.perf_counter() - start
            print(f"{path.name}: {state} ({seconds:.0f} s)", flush=True)
    if changed := first - installed(python):
        print(f"the set-up cell changed {', '.join(sorted(changed))}", file=sys.stderr)
    print("failed: " + ", ".join(failed) if failed else "all ran as on Colab")
    return int(bool(failed or changed))


if __name__ == "__main__":
    sys.exit(main())
