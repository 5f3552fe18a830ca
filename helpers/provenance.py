"""What a stored result was computed with: its modules, and a hash of their code.

A result is stale when its code has changed, whatever the files' dates say; comments,
docstrings and blank lines compute nothing and are left out.
"""

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("helpers", "studies")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_hash(texts: Iterable[str], *also: str) -> str:
    """Twelve hex digits that change with the code in `texts`, and with `also`.

    texts are Python modules or cells; also is what else the result depends on, a
    version for example. SyntaxError for a text that is not Python.
    """
    digest = hashlib.sha256()
    for part in (*map(bare_code, texts), *also):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:12]


@cache
def bare_code(text: str) -> str:
    """The lines of Python that compute something: what `code_hash` hashes.

    Written out by hand, since `ast.dump` differs between versions of Python.
    SyntaxError if the text is not Python.
    """
    lines = text.split("\n")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, start = token.start
            lines[line - 1] = lines[line - 1][:start]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            for line in range(docstring.lineno, docstring.end_lineno + 1):
                lines[line - 1] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


def modules_used(*names: str) -> list[Path]:
    """The files of these modules of helpers/ and of all that they import from it.

    names: for example "training" or "corpus.words". ValueError if there is none such.
    """
    if unknown := [name for name in names if _file_of(f"helpers.{name}") is None]:
        raise ValueError(f"helpers/ has no module {', '.join(unknown)}")
    return with_imports(_file_of(f"helpers.{name}") for name in names)


def with_imports(paths: Iterable[Path]) -> list[Path]:
    """These files, and those of the course that they import, and so on."""
    found, todo = set(), {*paths}
    while todo:
        path = todo.pop()
        found.add(path)
        todo |= imported(path.read_text("utf-8")) - found
    return sorted(found)


def imported(text: str) -> set[Path]:
    """The course's files that a text of Python imports, at its top or later."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # `from helpers import text` names a module, `from helpers import EOS` none.
            names |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
    return {_file_of(name) for name in names} - {None}


def _file_of(module: str) -> Path | None:
    """The file of a module of the course, "helpers.text" for example, or None."""
    if module.partition(".")[0] not in PACKAGES:
        return None
    place = ROOT / module.replace(".", "/")
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return path if path.is_file() else None
