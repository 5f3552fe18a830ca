"""The pages' sources: the stored notebooks as the book shows them, and four pages more.

Nothing is executed. What a page says comes from the notebooks and from README, so the
book follows the lessons without handwork.
"""

import ast
import html
import importlib
import inspect
import re
import shutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from tools.notebooks import NOTEBOOKS
from tools.reproducible import ROOT

BOOK = Path(__file__).parent
SOURCES, SITE = BOOK / "_sources", BOOK / "_build" / "html"
TITLES = {"title", "titles"}
MORE = [
    "solutions",
    "notebooks/glossary",
    "claims",
    "javascript",
    *sorted(f"book/{path.stem}" for path in BOOK.glob("*.md")),
    "notebooks/five_readings",
    "differs",
]
FOLDED = {"setup": "hide-cell", "map": "hide-input"}
TRY_FIRST = """```{admonition} Try first
:class: tip
These are worked answers. Before you read one, write your own in
[the lesson](%s), and let the check answer it.
```"""
OPENING = re.compile(r"\*\*What you'll do\.\*\* (.+)")
# A notebook links to the translator's page in the repository, which the site has, too.
TRANSLATOR_LINK = re.compile(r"\[([^\]]+)\]\(\.\./book/translator/index\.html\)")
TRANSLATOR_PAGE = r'<a href="../translator/index.html">\1</a>'
EXERCISE = re.compile(r"^### Exercise .+$", re.M)
ANCHOR = re.compile(r"(?<=\.ipynb)#[^)\s]+")
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


class BookError(ValueError):
    """A notebook that the book cannot show as it should; the text says which cell."""


@dataclass(frozen=True)
class Figure:
    """One picture of a lesson, and what it claims."""

    lesson: str  # the notebook's name without its suffix
    title: str  # of the lesson
    cell: str  # the cell's id, which is its anchor on the page
    text: str  # the alternative text
    claim: bool  # whether the text is the figure's own title
    study: str  # the study whose table it draws, or ""


def read(path: Path) -> NotebookNode:
    """A stored notebook."""
    return nbformat.read(path, as_version=4)


def has_picture(cell: NotebookNode) -> bool:
    """Whether the cell's stored outputs hold a picture."""
    return any("image/png" in out.get("data", {}) for out in cell.get("outputs", []))


def titles(source: str) -> list[str]:
    """What a cell calls `title` or `titles`, as variables or as arguments."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign):
            names = {getattr(target, "id", "") for target in node.targets}
            given = [node.value] if names & TITLES else []
        elif isinstance(node, ast.Call):
            given = [word.value for word in node.keywords if word.arg in TITLES]
            if getattr(node.func, "attr", "") in ("set_title", "suptitle", "title"):
                given += node.args[:1]
        else:
            continue
        found += [text for value in given for text in texts(value)]
    return list(dict.fromkeys(found))


def texts(node: ast.expr) -> Iterator[str]:
    """The texts in an expression; a number put into one becomes an ellipsis."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = (getattr(part, "value", None) for part in node.values)
        yield "".join(p if isinstance(p, str) else "…" for p in parts)
    elif isinstance(node, ast.Dict):
        for value in node.values:
            yield from texts(value)
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        for value in node.elts:
            yield from texts(value)


def drawings(lesson: NotebookNode) -> dict[str, str]:
    """{name in the lesson: first line of its docstring} of what it draws with.

    A module of helpers.plots that is imported gives all of its functions.
    """
    found = {}
    for cell in lesson.cells:
        if cell.cell_type != "code":
            continue
        for node in ast.walk(ast.parse(cell.source)):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if not node.module.startswith("helpers.plots"):
                continue
            for alias in node.names:
                name = alias.asname or alias.name
                found |= first_lines(node.module, alias.name, name)
    return found


def first_lines(module: str, name: str, known_as: str) -> dict[str, str]:
    """{name as called: first line of the docstring} of a function, or of a module's."""
    thing = getattr(importlib.import_module(module), name, None)
    if thing is None:
        thing = importlib.import_module(f"{module}.{name}")
    if not inspect.ismodule(thing):
        return {known_as: (inspect.getdoc(thing) or "").split("\n")[0]}
    functions = inspect.getmembers(thing, inspect.isfunction)
    return {
        f"{known_as}.{key}": (inspect.getdoc(value) or "").split("\n")[0]
        for key, value in functions
    }


def drawn_by(source: str, known: dict[str, str]) -> str:
    """What the functions say of themselves with which a cell draws."""
    calls = (n.func for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call))
    said = (known.get(ast.unparse(function), "") for function in calls)
    return " ".join(dict.fromkeys(line for line in said if line))


def plain(text: str) -> str:
    """Markdown without its marks, on one line."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\s+", " ", re.sub(r"[*`#]", "", text)).strip()


def last_sentence(text: str) -> str:
    """The last sentence of prose in a markdown cell, or its heading."""
    blocks = [b for b in text.split("\n\n") if b.strip() and not b.startswith("```")]
    prose = [b for b in blocks if b[0].isalpha() or b[0] in "*["]
    sentences = re.split(r"(?<=[.?!])\s+", plain((prose or blocks or [""])[-1]))
    return sentences[-1] if sentences else ""


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
        if "map" in cell.metadata.get("tags", []):
            text, claim = f"The parts of the Transformer that belong to: {title}", False
        else:
            said = "; ".join(titles(cell.source))
            claim = bool(said)
            does = drawn_by(cell.source, known) or before
            text = said or f"{heading}: {does}"
        text = plain(text)
        if len(text) < 10:
            raise BookError(f"{name}, cell {cell.id!r}: the picture needs a title")
        study = re.search(r"\bstudy\(\s*\"(\w+)\"", cell.source)
        yield Figure(name, title, cell.id, text, claim, study[1] if study else "")


def address() -> tuple[str, str]:
    """The course's address and its tag, from pyproject.toml; the first may be ""."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    course = project["tool"]["course"]
    return course["repository"], course["tag"]


def where_else(path: Path) -> str:
    """A line with the notebook itself and, where the course has an address, Colab."""
    line = f"{{download}}`The notebook <files/{path.name}>`"
    repository, tag = address()
    if repository:
        inside = repository.removeprefix("https://github.com/")
        place = path.relative_to(ROOT).as_posix()
        colab = f"https://colab.research.google.com/github/{inside}/blob/{tag}/{place}"
        line += f" · [open in Colab]({colab})"
    return line


def page(path: Path) -> NotebookNode:
    """A notebook as the book shows it.

    Set-up, map and imports are folded, every cell that draws has an anchor and an
    alternative text, and the opening says where the notebook itself is.
    """
    notebook = read(path)
    solution = path.parent.name == "solutions"
    drawn = {figure.cell: figure for figure in figures(notebook, path.stem)}
    cells = []
    for number, cell in enumerate(notebook.cells):
        tags = cell.metadata.get("tags", [])
        fold = {FOLDED[tag] for tag in tags if tag in FOLDED}
        if cell.id == "imports":
            fold.add("hide-cell")
        if fold:
            cell.metadata["tags"] = sorted({*tags, *fold})
        if cell.id in drawn:
            cells.append(new_markdown_cell(f'<span id="{cell.id}"></span>'))
            cell.metadata["mystnb"] = {"image": {"alt": drawn[cell.id].text}}
        if cell.cell_type == "markdown":
            cell.source = ANCHOR.sub(lambda m: unquote(m[0]), cell.source)
            cell.source = TRANSLATOR_LINK.sub(TRANSLATOR_PAGE, cell.source)
            cell.source = EXERCISE.sub(rf"\g<0>\n\n{where_else(path)}", cell.source)
        cells.append(cell)
        if number == 0:
            found = OPENING.search(cell.source)
            purpose = found[1] if found else cell.source.split("\n")[0]
            extra = [where_else(path), description(purpose)]
            if solution:
                extra.insert(0, TRY_FIRST % f"../{path.name}")
            cells.append(new_markdown_cell("\n\n".join(extra)))
    notebook.cells = cells
    if solution:
        notebook.metadata["nosearch"] = True  # a search does not lead to an answer
    return notebook


def description(text: str) -> str:
    """What search engines are told of a page, as Markdown that shows nothing."""
    return f"```{{eval-rst}}\n.. meta::\n   :description: {plain(text)}\n```"


def section(text: str, heading: str) -> str:
    """What stands under a heading of the second level. KeyError without it."""
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        first, _, rest = part.partition("\n")
        if first.strip() == heading:
            return rest.strip()
    raise KeyError(heading)


LIVE = """```{raw} html
<link rel="stylesheet" href="translator/translator.css">
<script defer src="translator/transformer.js"></script>
<script defer src="translator/text.js"></script>
<script defer src="translator/heatmap.js"></script>
<script defer src="translator/translator.js"></script>
<div class="live-translator" data-live-translator="small">
<noscript><img src="translator/data/still.png" alt="An attention map of the translator
with the true alignment over it"></noscript>
</div>
```

It runs in this page; nothing is sent anywhere. <a href="translator/index.html">The live
translator</a> shows all its layers and heads, its steps, and what becomes of a sentence
when a head is switched off or a vector patched."""


def home(names: list[str]) -> str:
    """The first page, from README: what one can do afterwards, lessons, routes."""
    text = (ROOT / "README.md").read_text("utf-8")
    opening = text.split("\n## ")[0]
    opening = opening[: opening.index("<img ")] + LIVE
    contents = [f"notebooks/{name}" for name in names]
    parts = [
        opening,
        "## The lessons\n\n" + section(text, "The lessons"),
        "## Beside the lessons\n\n"
        "- [Glossary](notebooks/glossary.md)\n"
        "- [Every figure and what it claims](claims.md)\n"
        "- [The Transformer in plain JavaScript](javascript.md)\n"
        "- [How it differs from others](differs.md)",
        toctree("Lessons", contents),
        toctree("More", MORE),
    ]
    return "\n\n".join(parts)


def toctree(caption: str, entries: list[str]) -> str:
    """A part of the table of contents, which shows in the side bar alone."""
    head = f"```{{toctree}}\n:hidden:\n:maxdepth: 1\n:caption: {caption}\n\n"
    return head + "\n".join(entries) + "\n```"


def in_javascript() -> str:
    """The page that shows the Transformer once more, as the live translator runs it."""
    return """# The Transformer in plain JavaScript

[The live translator](index.md) runs this file. It has the names and the order of the
course's Python, so each function can be read beside its lesson.

```{literalinclude} transformer.js
:language: javascript
```"""


def solutions(names: list[str]) -> str:
    """The page that leads to all worked answers."""
    entries = "\n".join(f"notebooks/solutions/{name}" for name in names)
    return (
        "# Solutions\n\nEach exercise has a check in its lesson. Try it first, then "
        f"read on here.\n\n```{{toctree}}\n:maxdepth: 1\n\n{entries}\n```"
    )


def differs() -> str:
    """The page that compares the course with others, from README."""
    text = (ROOT / "README.md").read_text("utf-8")
    return "# How it differs\n\n" + section(text, "How it differs")


def claims(found: list[Figure]) -> str:
    """The index of claims: each figure's title, its lesson, and its command."""
    lines = ["# What the figures claim", ""]
    lines += [
        "Each figure's title is a finding. The link leads to the figure, the command "
        "computes it again.",
        "",
    ]
    for lesson in dict.fromkeys(figure.lesson for figure in found):
        rows = [f for f in found if f.lesson == lesson and f.claim]
        if not rows:
            continue
        lines += [f"## {rows[0].title}", "", "| finding | command |", "|---|---|"]
        for row in rows:
            command = f"make run ARGS=notebooks/{lesson}.ipynb"
            if row.study:
                command = f"make studies NAME={row.study}"
            said = html.escape(row.text).replace("|", "\\|")
            link = f'<a href="notebooks/{lesson}.html#{row.cell}">{said}</a>'
            lines.append(f"| {link} | `{command}` |")
        lines.append("")
    return "\n".join(lines)


def copy_linked(text: str, origin: Path, target: Path) -> None:
    """Copy what a page links to and the book has no page of, beside the pages."""
    for link in set(LINK.findall(text)):
        path = (origin / link).resolve()
        inside = path.is_relative_to(ROOT) and path.is_file()
        if inside and path.suffix not in (".ipynb", ".md"):
            copy = target / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)


def write(target: Path = SOURCES) -> list[Figure]:
    """Write all pages' sources into a new folder; give the lessons' figures."""
    shutil.rmtree(target, ignore_errors=True)
    folder = target / "notebooks"
    (folder / "solutions").mkdir(parents=True)
    found, names = [], []
    for path in sorted(NOTEBOOKS.rglob("*.ipynb")):
        place = folder / path.relative_to(NOTEBOOKS)
        nbformat.write(page(path), place)
        files = place.parent / "files"
        files.mkdir(exist_ok=True)
        shutil.copy(path, files / path.name)
        copy_linked(path.read_text("utf-8"), path.parent, target)
        if path.parent == NOTEBOOKS:
            found += figures(read(path), path.stem)
            names.append(path.stem)
    for path in NOTEBOOKS.glob("*.md"):
        shutil.copy(path, folder / path.name)
        copy_linked(path.read_text("utf-8"), path.parent, target)
    copy_linked((ROOT / "README.md").read_text("utf-8"), ROOT, target)
    pages = {}
    for path in BOOK.glob("*.md"):  # in their folder, for their links start there
        text = path.read_text("utf-8")
        copy_linked(text, BOOK, target)
        pages[f"book/{path.stem}"] = text, text.split("\n")[0]
    pages |= {
        "index": (home(names), "The Transformer, built piece by piece in PyTorch"),
        "solutions": (solutions(names), "Worked answers to all exercises"),
        "differs": (differs(), "How the course differs from others"),
        "claims": (claims(found), "Every figure, what it claims, and its command"),
        "javascript": (in_javascript(), "The Transformer in plain JavaScript"),
    }
    for name, (text, purpose) in pages.items():
        text = f"{text}\n\n{description(purpose)}\n"
        place = target / f"{name}.md"
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, "utf-8", newline="\n")
    for name in ("conf.py", "anchors.py", "translator/transformer.js"):
        shutil.copy(BOOK / name, target)
    shutil.copytree(BOOK / "_static", target / "_static")
    return found
