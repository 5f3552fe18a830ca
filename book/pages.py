"""A stored notebook as the book shows it; nothing is executed."""

import ast
import re
import tomllib
from pathlib import Path
from urllib.parse import unquote

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from tools.reproducible import ROOT

# The cells that are folded, by their tags or ids.
FOLDED = {"setup": "hide-cell", "imports": "hide-cell", "map": "hide-input"}
TRY_FIRST = """```{admonition} Try first
:class: tip
These are worked answers. Before you read one, write your own in
[the lesson](../%s), and let the check answer it.
```

"""
OPENING = re.compile(r"\*\*What you'll do\.\*\* (.+)")
# A notebook links to the translator's page in the repository, which the site has, too.
TRANSLATOR_LINK = re.compile(r"\[([^\]]+)\]\(\.\./book/translator/index\.html\)")
TRANSLATOR_PAGE = r'<a href="../translator/index.html">\1</a>'
ANCHOR = re.compile(r"(?<=\.ipynb)#[^)\s]+")
HEADING = re.compile(r"^#+ (.+)$", re.M)
# A text that a cell gives as a title: of a figure or of axes, not of a legend.
TITLE = re.compile(r"""(?:(?<!legend\()title ?= ?|title\(\s*)f?("[^"\n]+"|'[^'\n]+')""")


def page(notebook: NotebookNode, path: Path) -> NotebookNode:
    """A notebook as the book shows it; the one that is given is changed.

    Set-up, map and imports are folded, every picture has an alternative text, and below
    the opening is a link to the notebook itself.
    """
    # What search engines are told of the page.
    opening = notebook.cells[0].source
    found = OPENING.search(opening)
    purpose = plain(found[1] if found else opening.split("\n")[0])
    notebook.metadata["myst"] = {"html_meta": {"description": purpose}}
    heading = ""
    for cell in notebook.cells:
        tags = cell.metadata.setdefault("tags", [])
        tags += {FOLDED[name] for name in (cell.id, *tags) if name in FOLDED}
        if any("image/png" in out.get("data", {}) for out in cell.get("outputs", [])):
            alt = in_words(cell.source, heading)
            cell.metadata["mystnb"] = {"image": {"alt": alt}}
        if cell.cell_type == "markdown":
            heading = [heading, *HEADING.findall(cell.source)][-1]
            cell.source = ANCHOR.sub(lambda m: unquote(m[0]), cell.source)
            cell.source = TRANSLATOR_LINK.sub(TRANSLATOR_PAGE, cell.source)
    more = where_else(path)
    if path.parent.name == "solutions":
        more = TRY_FIRST % path.name + more
        notebook.metadata["nosearch"] = True  # a search does not lead to an answer
    notebook.cells.insert(1, new_markdown_cell(more))
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


def where_else(path: Path) -> str:
    """A line with the notebook itself and, where the course has an address, Colab."""
    line = f"[Download this notebook](path:files/{path.name})"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    repository, tag = (project["tool"]["course"][key] for key in ("repository", "tag"))
    if repository:
        inside = repository.removeprefix("https://github.com/")
        place = path.relative_to(ROOT).as_posix()
        colab = f"https://colab.research.google.com/github/{inside}/blob/{tag}/{place}"
        line += f" · [open in Colab]({colab})"
    return line
