"""The text of what a learner typed, with all that it needs (helpers.mine)."""

import ast
import builtins
import inspect
import linecache
import sys
from symtable import symtable
from types import FunctionType, NoneType
from typing import Any


class NotKept(Exception):
    """Why a right answer cannot stand in the file."""


def text_of(name: str, answer: Any, base: str, known: set[str]) -> str:
    """The text that makes the answer the component `name` below the text `base`.

    The names `known` are there already. NotKept if another's name would be taken, or
    something is missing.
    """
    own = vars(answer).values() if inspect.isclass(answer) else [answer]
    codes = [inspect.unwrap(x).__code__ for x in own if isinstance(x, FunctionType)]
    cell = "".join(linecache.getlines(codes[0].co_filename)) if codes else ""
    tree = ast.parse(cell)
    nodes = {x: node for node in tree.body for x in used_and_given(_own(node, cell))[1]}
    if getattr(answer, "__name__", "") not in nodes:
        raise NotKept("its text is not found: write a function or a class in a cell")
    there = {_own(node, base) for node in ast.parse(base).body}
    chosen, imports = [nodes[answer.__name__]], []
    waiting = sorted(used_and_given(_own(chosen[0], cell))[0])
    for used in waiting:  # which grows
        node = nodes.get(used)
        if isinstance(node, ast.Import | ast.ImportFrom | NoneType):
            if used not in known:
                imports.append(_import(used, cell))
        elif node not in chosen and _own(node, cell) not in there:
            if used in known:
                raise NotKept(f"another `{used}` stands there: choose another name")
            chosen.append(node)
            waiting += sorted(used_and_given(_own(node, cell))[0] - {*waiting})
    pieces = [_own(node, cell) for node in sorted(chosen, key=lambda x: x.lineno)]
    text = "\n\n\n".join(["\n".join(imports)] * bool(imports) + pieces)
    return f"{text}\n\n\n{name} = {answer.__name__}\n"


def used_and_given(source: str) -> tuple[set[str], set[str]]:
    """The names that a piece of code takes from outside, and those that it gives."""
    tables = [symtable(source, "cell", "exec")]
    symbols = tables[0].get_symbols()
    given = {x.get_name() for x in symbols if x.is_assigned() or x.is_imported()}
    taken = {x.get_name() for x in symbols if x.is_referenced()}
    while tables:
        tables += (table := tables.pop()).get_children()
        taken |= {x.get_name() for x in table.get_symbols() if x.is_global()}
    return taken - given - {*dir(builtins)}, given


def _own(node: ast.stmt, cell: str) -> str:
    """A statement's own lines in its cell, with its decorators."""
    first = min(x.lineno for x in (node, *getattr(node, "decorator_list", [])))
    return "\n".join(cell.splitlines()[first - 1 : node.end_lineno])


def _import(name: str, cell: str) -> str:
    """The line by which this cell, or one that the notebook has run, imports a name."""
    for text in (cell, *getattr(sys.modules["__main__"], "In", [])[::-1]):
        try:
            nodes = [*ast.walk(ast.parse(text))]
        except SyntaxError:
            continue
        for node in (x for x in nodes if isinstance(x, ast.Import | ast.ImportFrom)):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    node.names = [alias]
                    return ast.unparse(node)
    raise NotKept(f"it uses `{name}` of another cell: move that here")
