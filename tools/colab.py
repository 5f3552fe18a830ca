"""Run the lessons as Colab would: python -m tools.colab [notebook …]

Colab opens one notebook, in a kernel with its own, older versions of Jupyter's parts,
with `google.colab` imported and nothing of the course at hand but what the set-up cell
fetches. Here the same is built without Colab: an environment with Colab's versions, a
stand-in for `google.colab`, a bare git repository of this working tree as the published
address, and for every notebook a folder that holds it alone. Each is executed from its
first cell to its last; an exception, a failed assert for one, ends the run.

The environment stays in .cache/colab for the next time, without what the set-up cell
installs.
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
from pathlib import Path

from tools import laws, notebooks
from tools.reproducible import CACHE, ROOT

# The parts of Colab's runtime that the lessons meet, as of August 2026.
COLAB = (
    "ipython==7.34.0",
    "ipykernel==6.17.1",
    "ipywidgets==7.7.1",
    "jupyter_client==7.4.9",
    "jupyter_core==5.9.1",
    "matplotlib==3.10.0",
    "matplotlib-inline==0.2.2",
    "numpy==2.1.3",
    "pandas==2.2.3",
    "pillow==11.3.0",
    "requests==2.32.4",
    "safetensors==0.8.0",
    "scipy==1.16.3",
    "seaborn==0.13.2",
    "tokenizers==0.22.2",
    "tqdm==4.67.3",
)
TORCH = "torch"  # the version that requirements.txt pins: Colab's has no CPU build
FETCHED = ("sacrebleu", "d2l")  # what the set-up cell has to install itself
ENVIRONMENT = CACHE / "colab"


def pins(*names):
    """The lines of requirements.txt that pin these packages."""
    lines = (ROOT / "requirements.txt").read_text("utf-8").split()
    return [line for line in lines if line.partition("==")[0] in names]


def python(folder=ENVIRONMENT):
    """The interpreter of an environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def make_environment(folder=ENVIRONMENT):
    """Install Colab's versions into `folder`, if that is not done yet."""
    wanted = [*COLAB, *pins(TORCH)]
    stamp = folder / "stamp.json"
    if stamp.exists() and json.loads(stamp.read_text("utf-8")) == wanted:
        return
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    # pkg_resources, which IPython 7.34 still needs, left setuptools in version 81.
    pip(folder, "install", "-q", "setuptools<81", *wanted)
    stamp.write_text(json.dumps(wanted), "utf-8")


def pip(folder, *arguments):
    """Run the environment's pip; a failure raises CalledProcessError."""
    command = [python(folder), "-m", "pip", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True)


def publish(folder):
    """A bare repository of the working tree as it is now; gives its address."""
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
    return bare.as_uri()


def make_stand_in(folder):
    """A package google.colab, and a start-up file that imports it in every kernel."""
    package = folder / "site" / "google" / "colab"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    startup = folder / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "colab.py").write_text("import google.colab\n")
    return {
        "PYTHONPATH": str(folder / "site"),
        "IPYTHONDIR": str(folder / "ipython"),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }


def prepare(notebook, address, content):
    """Point the set-up cell at the address, and at `content` instead of /content."""
    (setup,) = (c for c in laws.code_cells(notebook) if laws.has_tag(c, "setup"))
    stamp = f'REPOSITORY, TAG = "{address}", "main"'
    source = re.sub(r"(?m)^REPOSITORY, TAG = .*$", stamp, setup.source)
    setup.source = source.replace("/content", content.as_posix())
    # Colab has no other copy of the course to import by accident; neither has this.
    setup.source += "\n\nimport helpers\nassert str(course) in helpers.__file__"


def run(path, address, environment):
    """Execute one notebook alone in a folder, in a kernel of Colab's versions."""
    from nbclient import NotebookClient

    notebook = notebooks.read(path)
    with tempfile.TemporaryDirectory() as folder:
        content = Path(folder)
        prepare(notebook, address, content)
        where = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=None, resources=where)
        launch = "-m ipykernel_launcher -f {connection_file}"
        client.create_kernel_manager().kernel_cmd = [str(python()), *launch.split()]
        client.execute(env={**os.environ, **environment})


def main(arguments=None):
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.colab",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", type=Path, metavar="notebook")
    lessons = sorted(notebooks.NOTEBOOKS.glob("*.ipynb"))
    paths = parser.parse_args(arguments).paths or lessons
    make_environment()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        address = publish(Path(folder))
        environment = make_stand_in(Path(folder))
        for path in paths:
            pip(ENVIRONMENT, "uninstall", "-q", "-y", *FETCHED)
            start = time.perf_counter()
            try:
                run(path, address, environment)
                state = "ran"
            except Exception as error:  # the next lesson is run all the same
                print(error, file=sys.stderr)
                failed.append(path.name)
                state = "FAILED"
            seconds = time.perf_counter() - start
            print(f"{path.name}: {state} ({seconds:.0f} s)", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
