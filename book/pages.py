"""A stored notebook as the book shows it; nothing is executed."""

import ast
import re
import tomllib
from pathlib import Path
from urllib.parse import unquote

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from tools.reproducible import ROOT

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
HEADING = re.compile(r"^#+ (.+)$", re.M)
# A text that a cell gives as a title: of a figure or of axes, not of a legend.
TITLE = re.compile(r"""(?:(?<!legend\()title ?= ?|title\(\s*)f?("[^"\n]+"|'[^'\n]+')""")


def page(notebook: NotebookNode, path: Path) -> NotebookNode:
    """A notebook as the book shows it; the one that is given is changed.

    Set-up, map and imports are folded, every picture has an alternative text, and the
    opening says where the notebook itself is.
    """
    solution, where = path.parent.name == "solutions", where_else(path)
    cells, heading = [], ""
    for number, cell in enumerate(notebook.cells):
        fold(cell)
        if any("image/png" in out.get("data", {}) for out in cell.get("outputs", [])):
            alt = in_words(cell.source, heading)
            cell.metadata["mystnb"] = {"image": {"alt": alt}}
        if cell.cell_type == "markdown":
            heading = [heading, *HEADING.findall(cell.source)][-1]
            cell.source = ANCHOR.sub(lambda m: unquote(m[0]), cell.source)
            cell.source = TRANSLATOR_LINK.sub(TRANSLATOR_PAGE, cell.source)
            cell.source = EXERCISE.sub(rf"\g<0>\n\n{where}", cell.source)
        cells.append(cell)
        if number == 0:
            found = OPENING.search(cell.source)
            purpose = found[1] if found else cell.source.split("\n")[0]
            extra = [where, description(purpose)]
            if solution:
                extra.insert(0, TRY_FIRST % f"../{path.name}")
            cells.append(new_markdown_cell("\n\n".join(extra)))
    notebook.cells = cells
    if solution:
        notebook.metadata["nosearch"] = True  # a search does not lead to an answer
    return notebook


def in_words(source: str, heading: str) -> str:
    """The alternative text of a cell's picture: its titles, or the heading above it.

    What an f-string puts into a title is an ellipsis.
    """
    titles = [ast.literal_eval(text) for text in TITLE.findall(source)]
    found = "; ".join(titles) or f"The figure under “{heading}”"
    return plain(re.sub(r"\{[^}]*\}", "…", found).replace("$", ""))


def plain(text: str) -> str:
    """Markdown without its marks, on one line."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\s+", " ", re.sub(r"[*`#]", "", text)).strip()


def fold(cell: NotebookNode) -> None:
    """Fold a cell of the set-up, the map or the imports."""
    tags = cell.metadata.get("tags", [])
    more = {FOLDED[tag] for tag in tags if tag in FOLDED}
    if cell.id == "imports":
        more.add("hide-cell")
    if more:
        cell.metadata["tags"] = sorted({*tags, *more})


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


def address() -> tuple[str, str]:
    """The course's address and its tag, from pyproject.toml; the first may be ""."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    course = project["tool"]["course"]
    return course["repository"], course["tag"]


def description(text: str) -> str:
    """What search engines are told of a page, as Markdown that shows nothing."""
    return f"```{{eval-rst}}\n.. meta::\n   :description: {plain(text)}\n```"
