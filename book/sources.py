"""The pages' sources: the stored notebooks as the book shows them, and a few more.

Nothing is executed. What a page says comes from the notebooks, from README and from
book/*.md, so the book follows the lessons without handwork.
"""

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import nbformat

from book.pages import description, page
from tools.notebooks import NOTEBOOKS, all_notebooks
from tools.reproducible import ROOT

BOOK = Path(__file__).parent
SOURCES, SITE = BOOK / "_sources", BOOK / "_build" / "html"
MORE = [
    "solutions",
    "notebooks/glossary",
    "javascript",
    *sorted(f"book/{path.stem}" for path in BOOK.glob("*.md")),
    "notebooks/five_readings",
    "differs",
]
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def write(target: Path = SOURCES) -> None:
    """Write all pages' sources into a new folder."""
    shutil.rmtree(target, ignore_errors=True)
    folder = target / "notebooks"
    (folder / "solutions").mkdir(parents=True)
    for path in all_notebooks(NOTEBOOKS):
        place = folder / path.relative_to(NOTEBOOKS)
        nbformat.write(page(nbformat.read(path, as_version=4), path), place)
        files = place.parent / "files"
        files.mkdir(exist_ok=True)
        shutil.copy(path, files / path.name)
    for path in NOTEBOOKS.glob("*.md"):
        shutil.copy(path, folder / path.name)
    for name, (text, purpose) in more_pages().items():
        place = target / f"{name}.md"
        place.parent.mkdir(exist_ok=True)
        text = f"{text}\n\n{description(purpose)}\n"
        place.write_text(text, "utf-8", newline="\n")
    for name in ("conf.py", "anchors.py", "translator/transformer.js"):
        shutil.copy(BOOK / name, target)
    shutil.copytree(BOOK / "_static", target / "_static")
    copy_linked(NOTEBOOKS.rglob("*.ipynb"), target)
    copy_linked([*NOTEBOOKS.glob("*.md"), *BOOK.glob("*.md")], target)
    copy_linked([ROOT / "README.md"], target)


def copy_linked(texts: Iterable[Path], target: Path) -> None:
    """Copy what these texts link to and the book has no page of, beside the pages."""
    for text in texts:
        for link in set(LINK.findall(text.read_text("utf-8"))):
            path = (text.parent / link).resolve()
            inside = path.is_relative_to(ROOT) and path.is_file()
            if inside and path.suffix not in (".ipynb", ".md"):
                copy = target / path.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)


def more_pages() -> dict[str, tuple[str, str]]:
    """{name: (text, description)} of the pages that are no notebooks."""
    names = sorted(path.stem for path in NOTEBOOKS.glob("[0-9]*.ipynb"))
    found = {
        "index": (home(names), "The Transformer, built piece by piece in PyTorch"),
        "solutions": (solutions(names), "Worked answers to all exercises"),
        "differs": (differs(), "How the course differs from others"),
        "javascript": (JAVASCRIPT, "The Transformer in plain JavaScript"),
    }
    for path in BOOK.glob("*.md"):
        text = path.read_text("utf-8")
        found[f"book/{path.stem}"] = text, text.split("\n")[0]
    return found


def section(text: str, heading: str) -> str:
    """What stands under a heading of the second level. KeyError without it."""
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        first, _, rest = part.partition("\n")
        if first.strip() == heading:
            return rest.strip()
    raise KeyError(heading)


LIVE = """## A translator in this page

The translator of [lesson 10](notebooks/10_toy_translator.ipynb) runs here; nothing is
sent anywhere.

```{raw} html
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

<a href="translator/index.html">The live translator</a> shows all its layers and heads,
its steps, and what becomes of a sentence when a head is switched off or a vector
patched."""

JAVASCRIPT = """# The Transformer in plain JavaScript

[The live translator](index.md) runs this file. It has the names and the order of the
course's Python, so each function can be read beside its lesson.

```{literalinclude} transformer.js
:language: javascript
```"""


def home(names: list[str]) -> str:
    """The first page, from README: what one can do afterwards, lessons, routes."""
    text = (ROOT / "README.md").read_text("utf-8")
    opening = text.split("\n## ")[0]
    routes = "## Routes\n\n" + opening[opening.index("| route ") :]
    opening = opening[: opening.index("<img ")] + LIVE
    first, *others = names
    contents = [f"notebooks/{name}" for name in (first, "on_one_page", *others)]
    parts = [
        opening,
        routes,
        "## The lessons\n\n" + section(text, "The lessons"),
        "## Beside the lessons\n\n"
        "- [Glossary](notebooks/glossary.md)\n"
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
