"""What a lesson's figures show, in words, and the studies behind them.

Nothing is executed. The words are a figure's own title, as the code has it, or what the
function that draws it says of itself.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass

from nbformat import NotebookNode

from tools.laws import code_cells, has_tag

TITLES = {"title", "titles"}


class BookError(ValueError):
    """A notebook that the book cannot show as it should; the text says which cell."""


@dataclass(frozen=True)
class Figure:
    """A cell that draws."""

    cell: str  # its id, which is its anchor on the page
    text: str  # for those who cannot see the picture
    titled: bool  # whether the text is the figure's own title


def has_picture(cell: NotebookNode) -> bool:
    """Whether the cell's stored outputs hold a picture."""
    return any("image/png" in out.get("data", {}) for out in cell.get("outputs", []))


def plain(text: str) -> str:
    """Markdown without its marks, on one line."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\s+", " ", re.sub(r"[*`#]", "", text)).strip()


def figures(lesson: NotebookNode, name: str) -> Iterator[Figure]:
    """Every cell of a lesson that draws, with a text for those who cannot see it.

    That is its title; or else the heading above it, with what the function that draws
    it says it does, or with the last sentence above it.
    BookError for a picture of which nothing can be said.
    """
    title = plain(lesson.cells[0].source.split("\n")[0])
    heading, before, known = title, "", drawings(lesson)
    for cell in lesson.cells:
        if cell.cell_type == "markdown":
            found = re.findall(r"^#+ (.+)$", cell.source, flags=re.M)
            heading = plain(found[-1]) if found else heading
            before = last_sentence(cell.source)
        if cell.cell_type != "code" or not has_picture(cell):
            continue
        said = ""
        if has_tag(cell, "map"):
            text = f"The parts of the Transformer that belong to: {title}"
        else:
            said = "; ".join(titles(cell.source))
            text = said or f"{heading}: {drawn_by(cell.source, known) or before}"
        text = plain(text)
        if len(text) < 10:
            raise BookError(f"{name}, cell {cell.id!r}: the picture needs a title")
        yield Figure(cell.id, text, bool(said))


# -- titles ----------------------------------------------------------------------------


def titles(source: str) -> list[str]:
    """What a cell calls `title` or `titles`, as variables or as arguments."""
    found = []
    for node in ast.walk(ast.parse(source)):
        given = []
        if isinstance(node, ast.Assign):
            names = {getattr(target, "id", "") for target in node.targets}
            given = [node.value] if names & TITLES else []
        elif isinstance(node, ast.Call):
            called = getattr(node.func, "attr", "")
            if called != "legend":
                given = [word.value for word in node.keywords if word.arg in TITLES]
            if called in ("set_title", "suptitle", "title"):
                given += node.args[:1]
        found += [text for value in given for text in texts(value) if text]
    return list(dict.fromkeys(found))


def texts(node: ast.expr) -> Iterator[str]:
    """The texts in an expression; a number put into one becomes an ellipsis."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = (getattr(part, "value", None) for part in node.values)
        yield "".join(p if isinstance(p, str) else "…" for p in parts)
    elif isinstance(node, ast.Dict | ast.List | ast.Tuple | ast.Set):
        values = node.values if isinstance(node, ast.Dict) else node.elts
        for value in values:
            yield from texts(value)


# -- what draws ------------------------------------------------------------------------


def drawings(lesson: NotebookNode) -> dict[str, str]:
    """{name in the lesson: first line of its docstring} of what it draws with.

    A module of helpers.plots that is imported gives all of its functions.
    """
    found = {}
    for cell in code_cells(lesson):
        for node in ast.walk(ast.parse(cell.source)):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module.startswith("helpers.plots"):
                for alias in node.names:
                    known_as = alias.asname or alias.name
                    found |= first_lines(node.module, alias.name, known_as)
    return found


def first_lines(module: str, name: str, known_as: str) -> dict[str, str]:
    """{name as called: first line of the docstring} of a function, or of a module's."""
    thing = getattr(importlib.import_module(module), name, None)
    if thing is None:
        thing = importlib.import_module(f"{module}.{name}")
    functions = {known_as: thing}
    if inspect.ismodule(thing):
        members = inspect.getmembers(thing, inspect.isfunction)
        functions = {f"{known_as}.{key}": value for key, value in members}
    return {
        key: (inspect.getdoc(value) or "").split("\n")[0]
        for key, value in functions.items()
    }


def drawn_by(source: str, known: dict[str, str]) -> str:
    """What the functions say of themselves with which a cell draws."""
    calls = (n.func for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call))
    said = (known.get(ast.unparse(function), "") for function in calls)
    return " ".join(dict.fromkeys(line for line in said if line))


def last_sentence(text: str) -> str:
    """The last sentence of prose in a markdown cell, or its heading."""
    blocks = [b for b in text.split("\n\n") if b.strip() and not b.startswith("```")]
    prose = [b for b in blocks if b[0].isalpha() or b[0] in "*["]
    return re.split(r"(?<=[.?!])\s+", plain((prose or blocks or [""])[-1]))[-1]


# -- studies ---------------------------------------------------------------------------


def studies(lesson: NotebookNode) -> dict[str, list[str]]:
    """{id of a cell: the studies whose tables it reads}, itself or from a variable.

    A variable of the lesson holds a table, or what was made of one, from the assignment
    until the name gets another value.
    """
    found, held = {}, {}
    for cell in code_cells(lesson):
        read = []
        for statement in ast.parse(cell.source).body:
            targets = getattr(statement, "targets", [])  # of an assignment
            kept = {name for target in targets for name in names(target, ast.Store)}
            inner = names(statement, ast.Store) - kept  # of loops, of comprehensions
            known = {name: held[name] for name in {*held} - inner}
            used = tables(statement, known)
            held = known | dict.fromkeys(kept, used)
            read += used
        if read:
            found[cell.id] = list(dict.fromkeys(read))
    return found


def names(node: ast.AST, use: type[ast.expr_context]) -> set[str]:
    """The variables in a piece of code that are read (Load) or set (Store)."""
    found = (n for n in ast.walk(node) if isinstance(n, ast.Name))
    return {name.id for name in found if isinstance(name.ctx, use)}


def tables(statement: ast.stmt, held: dict[str, list[str]]) -> list[str]:
    """The studies that a statement reads; `held` says what is in which variable."""
    calls = (node for node in ast.walk(statement) if isinstance(node, ast.Call))
    found = [
        ast.literal_eval(call.args[0])
        for call in calls
        if ast.unparse(call.func) == "study"
    ]
    read = names(statement, ast.Load)
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        read = set()  # its names may be its own
    return found + [name for key in held if key in read for name in held[key]]
