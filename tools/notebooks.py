"""Execute notebooks and store their outputs: python -m tools.notebooks [path …]

Without paths: all lessons and solutions, each in a fresh kernel under the environment
of tools/reproducible.py. What is stored is what this run gave. Lesson 13 stores a run
on captions, which it downloads: it is left out but with --long, which takes all that
the machine has.
"""

import argparse
import base64
import copy
import io
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from PIL import Image

from tools.reproducible import ROOT, make_reproducible

NOTEBOOKS = ROOT / "notebooks"
KERNELSPEC = {
    "name": "python3",
    "display_name": "Python 3 (ipykernel)",
    "language": "python",
}
LONG_RUNS = ("13_real_data.ipynb",)  # see helpers.runtime.run_kind
# Figures that README shows: the stored picture of a cell, written beside the lesson.
PICTURES = {
    "cross_attention.png": ("10_toy_translator.ipynb", "cross-attention-figure")
}


class NotebookError(Exception):
    """A notebook cannot be stored as it is; the text says where and why."""


def all_notebooks(folder: Path = NOTEBOOKS) -> list[Path]:
    """Paths of all lessons and solutions, in reading order."""
    return [*sorted(folder.glob("*.ipynb")), *sorted(folder.glob("solutions/*.ipynb"))]


def read(path: Path) -> NotebookNode:
    """The notebook at `path`."""
    return nbformat.read(path, as_version=4)


def write(notebook: NotebookNode, path: Path) -> bool:
    """Store atomically; whether the file changed."""
    nbformat.validate(notebook)
    text = nbformat.writes(notebook).rstrip("\n") + "\n"
    if path.exists() and path.read_text("utf-8") == text:
        return False
    temporary = path.with_suffix(".partial")
    temporary.write_text(text, "utf-8", newline="\n")
    os.replace(temporary, path)
    return True


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The notebook's code cells, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def has_tag(cell: NotebookNode, tag: str) -> bool:
    """Whether the cell carries `tag`."""
    return tag in cell.metadata.get("tags", [])


# -- the course's address --------------------------------------------------------------


def published(root: Path = ROOT) -> tuple[str, str]:
    """(repository, tag) from pyproject.toml; the repository is "" until it is set."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    return project["tool"]["course"]["repository"], project["tool"]["course"]["tag"]


def setup_cell(root: Path = ROOT) -> str:
    """The set-up cell's text, stamped with the repository and tag of pyproject.toml."""
    repository, tag = published(root)
    template = (root / "tools" / "setup_cell.py").read_text("utf-8").strip()
    stamp = f'REPOSITORY, TAG = "{repository}", "{tag}"'
    return re.sub(r"^REPOSITORY, TAG = .*$", stamp, template, flags=re.MULTILINE)


def badge(path: Path, root: Path = ROOT) -> str:
    """The markdown that opens the notebook at `path` in Colab; "" before publishing."""
    repository, tag = published(root)
    if not repository:
        return ""
    where = repository.removeprefix("https://github.com/")
    page = path.resolve().relative_to(root.resolve()).as_posix()
    colab = "https://colab.research.google.com"
    return (
        f"[![Open in Colab]({colab}/assets/colab-badge.svg)]"
        f"({colab}/github/{where}/blob/{tag}/{page})"
    )


def with_badge(page: str, badge: str) -> str:
    """A page's markdown with this badge, or with none, below its first heading."""
    title, newline, rest = page.partition("\n")
    if not newline:
        return f"{page}\n\n{badge}" if badge else page
    rest = re.sub(r"\A\n\[!\[Open in Colab\].*\n", "", rest)
    return f"{title}\n\n{badge}\n{rest}" if badge else f"{title}\n{rest}"


def stamp(notebook: NotebookNode, path: Path, root: Path = ROOT) -> None:
    """Write the course's address into a notebook: set-up cell, in lessons a badge."""
    for cell in notebook.cells:
        if has_tag(cell, "setup"):
            cell.source = setup_cell(root)
    if path.resolve().parent == (root / "notebooks").resolve():
        first = notebook.cells[0]
        first.source = with_badge(first.source, badge(path, root))


# -- execute, normalise, store ---------------------------------------------------------


def normalise(notebook: NotebookNode) -> NotebookNode:
    """A copy in the form that is stored: metadata by allow-list, counts from 1 on.

    Of a notebook's metadata its kernel and its request for an accelerator stay, of a
    cell's its tags and whether its source is folded, of an output's its size.
    """
    notebook = copy.deepcopy(notebook)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = allowed(notebook.metadata, "accelerator")
    notebook.metadata["kernelspec"] = nbformat.from_dict(KERNELSPEC)
    notebook.cells = [cell for cell in notebook.cells if cell.source.strip()]
    count = 0
    for cell in notebook.cells:
        cell.metadata = allowed(cell.metadata, "jupyter", "tags")
        lines = cell.source.strip("\n").splitlines()
        cell.source = "\n".join(line.rstrip() for line in lines)
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            cell.outputs = [*normal_outputs(cell)]
    return notebook


def allowed(metadata: NotebookNode, *names: str) -> NotebookNode:
    """What stands under these names and is not empty."""
    return nbformat.from_dict({n: metadata[n] for n in names if metadata.get(n)})


def normal_outputs(cell: NotebookNode) -> Iterator[NotebookNode]:
    """The cell's outputs: streams merged, of metadata a picture's size alone."""
    before = None
    for output in cell.outputs:
        if output.output_type == "stream":
            if before is not None and before.get("name") == output.name:
                before.text += output.text
                continue
        elif output.output_type in ("display_data", "execute_result"):
            output.metadata = allowed(output.metadata, "image/png")
            if "image/png" in output.data:
                output.data["image/png"] = small_png(output.data["image/png"])
            if output.output_type == "execute_result":
                output.execution_count = cell.execution_count
        before = output
        yield output


def small_png(encoded: str) -> str:
    """A base64 PNG in 256 colours: a third of the bytes."""
    image, small = Image.open(io.BytesIO(base64.b64decode(encoded))), io.BytesIO()
    if image.mode == "P":
        return encoded
    few = image.convert("RGB").quantize(256, Image.Quantize.FASTOCTREE)
    few.save(small, "PNG", optimize=True)
    return base64.b64encode(small.getvalue()).decode("ascii")


def execute(
    notebook: NotebookNode, folder: Path, *, long: bool = False, **variables: str
) -> None:
    """Run all cells in a fresh kernel of this Python, with `folder` as its directory.

    With long, lessons take the time, the threads and the GPU that they would take
    without the reproducible environment, to which `variables` are added. Raises
    NotebookError with the cell and its traceback when a cell fails.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError
    from nbval.kernel import CURRENT_ENV_KERNEL_NAME, NbvalKernelspecManager

    environment = dict(os.environ)
    make_reproducible(environment, long=long)
    environment |= variables
    client = NotebookClient(
        notebook,
        kernel_name=CURRENT_ENV_KERNEL_NAME,
        timeout=None,
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.create_kernel_manager().kernel_spec_manager = NbvalKernelspecManager()
    try:
        # The kernel's own log is no output of the notebook.
        client.execute(env=environment, stderr=subprocess.DEVNULL)
    except (CellExecutionError, DeadKernelError) as error:
        raise NotebookError(str(error)) from None


def run(path: Path, *, long: bool = False) -> bool:
    """Execute the notebook at `path`, normalise it and store it; whether it changed.

    Raises NotebookError, leaving the file as it was, when a cell fails or warns.
    """
    notebook = normalise(read(path))
    stamp(notebook, path)
    for cell in code_cells(notebook):
        cell.outputs = []
    execute(notebook, path.parent, long=long)
    notebook = normalise(notebook)
    for cell in code_cells(notebook):
        if any(output.get("name") == "stderr" for output in cell.outputs):
            raise NotebookError(f"cell {cell.id} writes to stderr: {cell.outputs}")
    for name, (lesson, cell_id) in PICTURES.items():
        if path == NOTEBOOKS / lesson:
            path.with_name(name).write_bytes(picture(notebook, cell_id))
    return write(notebook, path)


def picture(notebook: NotebookNode, cell_id: str) -> bytes:
    """The PNG that the cell with this id stored."""
    (cell,) = (cell for cell in notebook.cells if cell.id == cell_id)
    (png,) = (o.data["image/png"] for o in cell.outputs if "data" in o)
    return base64.b64decode(png)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks")
    parser.add_argument("--long", action="store_true", help="store long runs, too")
    parser.add_argument("paths", nargs="*", type=Path, metavar="path")
    options = parser.parse_args(arguments)
    for path in map(Path.resolve, options.paths or all_notebooks()):
        if path.name in LONG_RUNS and path.parent == NOTEBOOKS and not options.long:
            print(f"{path.name}: left as it is; --long stores a run on captions")
            continue
        start = time.perf_counter()
        try:
            state = "changed" if run(path, long=options.long) else "as it was"
        except NotebookError as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
        print(f"{path.name}: {state} ({time.perf_counter() - start:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
