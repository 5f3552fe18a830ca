"""Nothing rests on the encoding that a machine happens to have.

On Windows it is not UTF-8, so a file written or read without a word about it comes out
otherwise there, and nobody on another system notices.
"""

import ast

import pytest

from tools import notebooks
from tools.reproducible import ROOT

# Calls that may leave the encoding open: {(file, called): reason}.
OPEN = {
    ("the set-up cell", "read_text"): "it reads on Colab, and a list in ASCII",
}
# The place of the encoding among the arguments, for what reads or writes text.
PLACE = {"read_text": 0, "write_text": 1, "open": 3, "fdopen": 3}
# In a text form only if asked for.
PROCESSES = {"run", "Popen", "check_output"}


def faults(source):
    """(called, line) of every call in a Python text that leaves the encoding open."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        if "encoding" in named:
            continue
        if called in PROCESSES and named.keys() & {"text", "universal_newlines"}:
            yield called, node.lineno
        if called not in PLACE or len(node.args) > PLACE[called]:
            continue
        if called in ("open", "fdopen") and not opens_text(node, named):
            continue
        yield called, node.lineno


def opens_text(node, named):
    """Whether a call of some `open` opens a file as text, as far as one can see."""
    owner = getattr(getattr(node.func, "value", None), "id", "")
    modes = [*node.args, *named.values()]
    modes = [m.value for m in modes if isinstance(m, ast.Constant)]
    binary = any(isinstance(m, str) and "b" in m and len(m) <= 3 for m in modes)
    return not binary and owner != "Image"


def sources():
    for folder in ("helpers", "tools", "tests", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
    yield "conftest.py", (ROOT / "conftest.py").read_text("utf-8")


def lessons():
    for path in notebooks.all_notebooks():
        for cell in notebooks.read(path).cells:
            if cell.cell_type == "code" and cell.source != notebooks.setup_cell():
                yield f"{path.name}, cell {cell.id}", cell.source


@pytest.mark.parametrize("texts", [sources, lessons], ids=["modules", "notebooks"])
def test_every_file_is_read_and_written_in_a_named_encoding(texts):
    found = []
    for name, source in texts():
        name = "the set-up cell" if name == "tools/setup_cell.py" else name
        found += [
            f"{name}, line {line}: {called} without encoding="
            for called, line in faults(source)
            if (name, called) not in OPEN
        ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "call",
    [
        "path.read_text()",
        "path.write_text(text)",
        "open(path)",
        'open(path, "w")',
        'path.open("a")',
        "subprocess.run(command, text=True)",
        "Popen(command, universal_newlines=True)",
    ],
)
def test_an_encoding_left_open_is_found(call):
    assert [*faults(call)]


@pytest.mark.parametrize(
    "call",
    [
        'path.read_text("utf-8")',
        'path.write_text(text, encoding="utf-8")',
        'open(path, "rb")',
        'gzip.open(path, mode="rb")',
        'open(path, encoding="ascii")',
        "Image.open(path)",
        "subprocess.run(command, capture_output=True)",
        'subprocess.run(command, encoding="utf-8")',
    ],
)
def test_what_is_named_or_binary_passes(call):
    assert not [*faults(call)]
