"""The pages' sources: the stored notebooks as the book shows them, and a few more.

Nothing is executed. What a page says comes from the notebooks, from README and from
book/*.md, so the book follows the lessons without handwork. What is the book's own, its
first page for one, is in book/site.
"""

import re
import shutil
from pathlib import Path

import nbformat

from book.pages import page
from tools.notebooks import NOTEBOOKS, all_notebooks
from tools.reproducible import ROOT

BOOK = Path(__file__).parent
SOURCES, SITE = BOOK / "_sources", BOOK / "_build" / "html"
LINK = re.compile(r"""(?:\]\(|src=")(?!https?:)([^)#"\s]+)""")


def write(target: Path = SOURCES) -> None:
    """Write all pages' sources into a new folder."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(BOOK / "site", target)
    notebooks = all_notebooks(NOTEBOOKS)
    for path in notebooks:
        place = target / path.relative_to(ROOT)
        files = place.parent / "files"
        files.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, files)
        nbformat.write(page(nbformat.read(path, as_version=4), path), place)
    texts = [ROOT / "README.md", *NOTEBOOKS.glob("*.md"), *BOOK.glob("*.md")]
    for path in texts:
        copy(path, target)
    for path in linked([*notebooks, *texts]):
        copy(path, target)


def copy(path: Path, target: Path) -> None:
    """Copy a file of the repository to the same place below the target."""
    place = target / path.relative_to(ROOT)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, place)


def linked(texts: list[Path]) -> set[Path]:
    """The files that these texts link to or show, and the book has no page of."""
    links = {
        (text.parent / link).resolve()
        for text in texts
        for link in LINK.findall(text.read_text("utf-8"))
    }
    pages = (".ipynb", ".md")
    return {path for path in links if path.is_file() and path.suffix not in pages}
