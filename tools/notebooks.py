"""Execute and store the notebooks: python -m tools.notebooks run | sync | rerun

    run   [--fresh] [--long] [path …] execute in a fresh kernel and store in place
    sync  [--check | --from-notebook] [path …]
                                      one text, two places: copy the definitions in
                                      helpers/ into the cells that show them
    rerun [path …]                    say which cells print something else when they
                                      are run again (tools/rerun.py)

Without paths: all lessons and solutions. What `run` stores depends on the notebook
and the code alone, so a second run changes nothing: numbers printed after "≈" and
pictures stay as they are stored while the code that computes them is the same, which
tools/computed_with.py tells (--fresh, --long: new ones in any case). Lesson 13 stores a
run of many minutes: it is repeated with --long only, on real data and all that the
machine has; else its minute's version is held against what is stored.
"""

import argparse
import base64
import copy
import io
import os
import re
import struct
import subprocess
import sys
import time
import tomllib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import nbformat
import numpy as np
from nbformat import NotebookNode
from PIL import Image

from tools import computed_with, laws, one_text
from tools.reproducible import ROOT, make_reproducible

NOTEBOOKS = ROOT / "notebooks"
SANITIZE = ROOT / "tests" / "nbval_sanitize.cfg"
KERNELSPEC = {
    "name": "python3",
    "display_name": "Python 3 (ipykernel)",
    "language": "python",
}

# Lessons that store a long run, which a check cannot repeat (helpers.runtime.run_kind).
LONG_RUNS = ("13_real_data.ipynb",)

# Figures that README shows: the stored picture of a cell, written beside the lesson.
PICTURES = {
    "cross_attention.png": ("10_toy_translator.ipynb", "cross-attention-figure")
}

NO_ADDRESS = "the-course-has-no-address-yet"  # in set-up cells, before publishing

# What is said of a notebook: after run and sync, and after rerun.
STATES = ("as it was", "changed"), ("runs again", "cannot be run again as it stands")


class NotebookError(Exception):
    """A notebook cannot be stored as it is; the text says where and why."""


def all_notebooks(folder: Path = NOTEBOOKS) -> list[Path]:
    """Paths of all lessons and solutions, in reading order."""
    return [*sorted(folder.glob("*.ipynb")), *sorted(folder.glob("solutions/*.ipynb"))]


def published(root: Path = ROOT) -> tuple[str, str]:
    """(repository, tag) from pyproject.toml; the repository is "" until it is set."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    return project["tool"]["course"]["repository"], project["tool"]["course"]["tag"]


def setup_cell(root: Path = ROOT) -> str:
    """The set-up cell's text, stamped with the repository and tag of pyproject.toml."""
    repository, tag = published(root)
    template = (root / "tools" / "setup_cell.py").read_text("utf-8").strip()
    # Without an address, git's own error says on Colab what is missing.
    stamp = f'REPOSITORY, TAG = "{repository or NO_ADDRESS}", "{tag}"'
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
        if "setup" in cell.metadata.get("tags", []):
            cell.source = setup_cell(root)
    if path.resolve().parent == (root / "notebooks").resolve():
        first = notebook.cells[0]
        first.source = with_badge(first.source, badge(path, root))


def normalise(notebook: NotebookNode, *, gpu: bool = False) -> NotebookNode:
    """A copy in the one form that is stored: see the laws in tools/laws.py.

    `gpu` keeps the notebook's request for an accelerator on Colab.
    """
    notebook = copy.deepcopy(notebook)
    accelerator = notebook.metadata.get("accelerator") if gpu else None
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC})
    if accelerator:
        notebook.metadata["accelerator"] = accelerator
    notebook.cells = [cell for cell in notebook.cells if cell.source.strip()]
    count = 0
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict({"tags": tags} if tags else {})
        lines = cell.source.strip("\n").splitlines()
        cell.source = "\n".join(line.rstrip() for line in lines)
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            cell.outputs = [*normal_outputs(cell)]
    name_cells(notebook)
    return notebook


def normal_outputs(cell: NotebookNode) -> Iterator[NotebookNode]:
    """The cell's outputs: streams merged, PNGs bare, of metadata their size alone."""
    before = None
    for output in cell.outputs:
        if output.output_type == "stream":
            if before is not None and before.get("name") == output.name:
                before.text += output.text
                continue
        elif output.output_type in ("display_data", "execute_result"):
            size = output.metadata.get("image/png", {})
            output.metadata = {}
            if "image/png" in output.data:
                output.data["image/png"] = bare_png(output.data["image/png"])
                if {"width", "height"} <= size.keys():
                    size = {"height": size["height"], "width": size["width"]}
                    output.metadata = {"image/png": size}
            if output.output_type == "execute_result":
                output.execution_count = cell.execution_count
        before = output
        yield output


def bare_png(encoded: str) -> str:
    """A base64 PNG in few colours, a third of the size, without notes and dates."""
    png = base64.b64decode(encoded)
    image = Image.open(io.BytesIO(png))
    if image.mode != "P":  # a second time would choose other colours
        small = io.BytesIO()
        in_few_colours(image.convert("RGB")).save(small, "PNG", optimize=True)
        png = small.getvalue()
    kept, start = [png[:8]], 8
    while start < len(png):
        (length,) = struct.unpack(">I", png[start : start + 4])
        end = start + 12 + length
        if png[start + 4 : start + 8] not in (b"tEXt", b"iTXt", b"zTXt", b"tIME"):
            kept.append(png[start:end])
        start = end
    return base64.b64encode(b"".join(kept)).decode("ascii")


def in_few_colours(image: Image.Image) -> Image.Image:
    """An RGB image in 96 colours: the 32 that it has most of, and 64 among the rest.

    So the cells of a heatmap keep their colours, and its scale has no gaps; Pillow
    alone does one or the other. Dark greys, most of them in letters, become sixteen.
    """
    pixels = np.asarray(image, dtype=int)
    darkest, lightest = pixels.min(axis=-1), pixels.max(axis=-1)
    greys = (lightest - darkest < 9) & (lightest < 240)
    pixels = np.where(greys[..., None], 15 * np.rint(lightest / 15)[..., None], pixels)
    spread = Image.fromarray(pixels.astype(np.uint8)).quantize(
        64, Image.Quantize.MAXCOVERAGE
    )
    codes = pixels.astype(int) @ (1 << 16, 1 << 8, 1)
    codes, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    colours = codes[:, None] >> (16, 8, 0) & 255
    often = colours[(-counts).argsort(kind="stable")[:32]]
    palette = np.concatenate([often, np.reshape(spread.getpalette(), (-1, 3))])
    nearest = np.square(colours[:, None] - palette).sum(axis=-1).argmin(axis=-1)
    few = Image.fromarray(nearest[places].astype(np.uint8).reshape(greys.shape))
    few.putpalette(palette.astype(np.uint8).tobytes())
    return few


def name_cells(notebook: NotebookNode) -> None:
    """Give each cell without a readable id one: from its tag, definition or heading."""
    taken = {cell.id for cell in notebook.cells if laws.is_readable_id(cell.id)}
    seen, heading, exercise = set(), "cell", ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (title := laws.headings(cell.source)):
            heading = _slug(title[0])
            number = re.match(r"exercise-\d\d-\d+", heading)
            exercise = number.group() if number else exercise
        if not laws.is_readable_id(cell.id) or cell.id in seen:
            base = _base_of_id(cell, heading, exercise)
            names = [base, *(f"{base}-{number}" for number in range(2, 999))]
            cell.id = next(name for name in names if name not in taken | seen)
        seen.add(cell.id)


def _base_of_id(cell: NotebookNode, heading: str, exercise: str) -> str:
    tags = cell.metadata.get("tags", [])
    if cell.cell_type == "markdown":
        return heading if laws.headings(cell.source) else f"{heading}-text"
    if tags and tags[0] in ("exercise", "check") and exercise:
        return f"{exercise}-{'stub' if tags[0] == 'exercise' else 'check'}"
    if tags and tags[0] in ("setup", "map"):
        return tags[0]
    defined = re.search(r"^(?:def|class) (\w+)", cell.source, re.MULTILINE)
    return f"define-{_slug(defined.group(1))}" if defined else f"{heading}-code"


def _slug(text: str) -> str:
    """The first words of `text` as an id: lower-case ASCII letters and digits."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    while words and not words[0][0].isalpha():
        words.pop(0)  # an id starts with a letter, a title often with a number
    slug = ""
    for word in words:
        if len(slug) + len(word) > 40:
            break
        slug += f"-{word}" if slug else word
    return slug or "cell"


def read(path: Path) -> NotebookNode:
    """The notebook at `path`."""
    return nbformat.read(path, as_version=4)


def write(notebook: NotebookNode, path: Path) -> bool:
    """Store atomically, as nbformat does: sorted keys, a newline at the end."""
    nbformat.validate(notebook)
    text = nbformat.writes(notebook).rstrip("\n") + "\n"
    if path.exists() and path.read_text("utf-8") == text:
        return False
    temporary = path.with_suffix(".partial")
    temporary.write_text(text, "utf-8", newline="\n")
    os.replace(temporary, path)
    return True


def execute(
    notebook: NotebookNode,
    folder: Path,
    *,
    long: bool = False,
    allow_errors: bool = False,
) -> None:
    """Run all cells in a fresh kernel of this Python, with `folder` as its directory.

    With long, lessons take the time, the threads and the GPU that they would take
    without the reproducible environment. Raises NotebookError with the cell and its
    traceback when a cell fails; with allow_errors, the run goes on.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError
    from nbval.kernel import CURRENT_ENV_KERNEL_NAME, NbvalKernelspecManager

    environment = dict(os.environ)
    make_reproducible(environment, long=long)
    client = NotebookClient(
        notebook,
        kernel_name=CURRENT_ENV_KERNEL_NAME,
        timeout=None,
        allow_errors=allow_errors,
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.create_kernel_manager().kernel_spec_manager = NbvalKernelspecManager()
    try:
        # The kernel's own log is no output of the notebook.
        client.execute(env=environment, stderr=subprocess.DEVNULL)
    except (CellExecutionError, DeadKernelError) as error:
        raise NotebookError(_where(notebook, error)) from None


def _where(notebook: NotebookNode, error: Exception) -> str:
    failed = [
        cell.id
        for cell in notebook.cells
        if any(o.output_type == "error" for o in cell.get("outputs", []))
    ]
    return f"cell {failed[0] if failed else '(unknown)'} failed:\n{error}"


def sanitised(text: str) -> str:
    """`text` as nbval compares it: with tests/nbval_sanitize.cfg applied."""
    from nbval.plugin import get_sanitize_patterns

    for regex, replacement in get_sanitize_patterns(SANITIZE.read_text("ascii")):
        text = re.sub(regex, replacement, text)
    return text


def keep_outputs(
    notebook: NotebookNode, stored: NotebookNode, same: Collection[str]
) -> None:
    """Put stored outputs back: of the cells `same`, where the text is as compared."""
    before = {cell.id: cell for cell in laws.code_cells(stored)}
    for cell in laws.code_cells(notebook):
        old = before.get(cell.id) if cell.id in same else None
        if old and as_compared(old.outputs) == as_compared(cell.outputs):
            cell.outputs = old.outputs


def keep_long_run(notebook: NotebookNode, stored: NotebookNode) -> None:
    """Put the outputs of the stored long run back, each where the text fits its own.

    Raises NotebookError with the cells where it does not.
    """
    long_runs = {cell.id: cell for cell in stored.cells if cell.cell_type == "code"}
    differ = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            old = long_runs.get(cell.id)
            same = old is not None and old.source == cell.source
            if not same or as_compared(old.outputs) != as_compared(cell.outputs):
                differ.append(cell.id)
            else:
                cell.outputs = old.outputs
    if differ:
        raise NotebookError(
            f"cells {', '.join(differ)} differ from the stored long run; "
            "store a new one: python -m tools.notebooks run --long"
        )


def as_compared(outputs: Sequence[NotebookNode]) -> list[tuple[str, str]]:
    """A cell's outputs, as far as nbval compares them."""
    return [(o.output_type, sanitised(laws.text_of(o))) for o in outputs]


def run(path: Path, *, fresh: bool = False, long: bool = False) -> bool:
    """Execute the notebook at `path`, normalise it and store it in place.

    A lesson of LONG_RUNS is executed in its minute's version, whose outputs must agree
    with the stored ones, and keeps those; with long it stores what it can reach here.
    Returns whether the file changed. Raises NotebookError, leaving the file as it was,
    when a cell fails, leaves an output that may not be stored, or shows a definition
    that differs from helpers/.
    """
    stored = read(path)
    notebook = normalise(stored, gpu=path.name.startswith("13"))
    stamp(notebook, path)
    _demand_one_text(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    execute(notebook, path.parent, long=long)
    notebook = normalise(notebook, gpu=path.name.startswith("13"))
    if faults := [*laws.output_faults(notebook)]:
        raise NotebookError("\n".join(faults))
    now = computed_with.hashes(notebook)
    if path.name in LONG_RUNS and path.parent.name != "solutions" and not long:
        keep_long_run(notebook, stored)
    elif not (fresh or long):
        noted = computed_with.stored_hashes(path).items()
        keep_outputs(notebook, stored, dict(now.items() & noted))
    for name, (lesson, cell_id) in PICTURES.items():
        if path.name == lesson and path.parent.name != "solutions":
            path.with_name(name).write_bytes(picture(notebook, cell_id))
    computed_with.store(path, now)
    return write(notebook, path)


def picture(notebook: NotebookNode, cell_id: str) -> bytes:
    """The PNG that the cell with this id stored."""
    (cell,) = (cell for cell in notebook.cells if cell.id == cell_id)
    (png,) = (o.data["image/png"] for o in cell.outputs if "data" in o)
    return base64.b64decode(png)


def _demand_one_text(notebook: NotebookNode) -> None:
    if not one_text.helper_cells(notebook):
        return
    kept = one_text.kept_definitions(one_text.modules())
    broken = [fault for *_, fault in one_text.compare(notebook, kept) if fault]
    if broken:
        repair = "this differs from helpers/; repair: python -m tools.notebooks sync"
        raise NotebookError("\n".join([*broken, repair]))


def sync(path: Path, *, check: bool = False, from_notebook: bool = False) -> bool:
    """Make the shown and the kept definitions agree; return whether they differed."""
    notebook, texts = read(path), one_text.modules()
    if from_notebook and not check:
        changed = one_text.keep(notebook, texts)
        for module, text in changed.items():
            file = one_text.HELPERS.joinpath(*module.split(".")).with_suffix(".py")
            file.write_text(text, "utf-8", newline="\n")
        return bool(changed)
    kept = one_text.kept_definitions(texts)
    for cell, _, fault in one_text.compare(notebook, kept):
        if fault:
            print(f"{path.name}, cell {cell.id}:\n{fault}")
    changed = one_text.show(notebook, texts)
    if not check:
        write(notebook, path)
    return bool(changed)


def peak_memory() -> float:
    """The most memory, in GB, that one kernel so far has held; 0 where none tells."""
    try:
        import resource  # not on Windows
    except ImportError:
        return 0.0
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return most / (2**30 if sys.platform == "darwin" else 2**20)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.notebooks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runner = commands.add_parser("run", help="execute, normalise and store in place")
    runner.add_argument("--fresh", action="store_true", help="store new digits after ≈")
    runner.add_argument(
        "--long", action="store_true", help="take the time a long lesson can use here"
    )
    syncer = commands.add_parser("sync", help="one text, two places: repair it")
    direction = syncer.add_mutually_exclusive_group()
    direction.add_argument("--check", action="store_true", help="only say what differs")
    direction.add_argument(
        "--from-notebook", action="store_true", help="copy the cells into helpers/"
    )
    again = commands.add_parser("rerun", help="say which cells cannot be run again")
    for command in (runner, syncer, again):
        command.add_argument("paths", nargs="*", type=Path, metavar="path")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit status."""
    options = _parse(arguments)
    differed = False
    for path in options.paths or all_notebooks():
        start = time.perf_counter()
        try:
            if options.command == "rerun":
                from tools.rerun import rerun  # it imports this module

                found = rerun(path)
                print(*found, sep="\n", end="\n" * bool(found))
                changed = bool(found)
            elif options.command == "run":
                changed = run(path, fresh=options.fresh, long=options.long)
            else:
                changed = sync(
                    path, check=options.check, from_notebook=options.from_notebook
                )
        except (NotebookError, ValueError, OSError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 1
        seconds = time.perf_counter() - start
        state = STATES[options.command == "rerun"][changed]
        memory = f", peak so far {peak_memory():.1f} GB" if peak_memory() else ""
        print(f"{path.name}: {state} ({seconds:.0f} s{memory})", flush=True)
        differed = differed or changed
    failing = options.command == "rerun" or (
        options.command == "sync" and options.check
    )
    return int(failing and differed)


if __name__ == "__main__":
    sys.exit(main())
