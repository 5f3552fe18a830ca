"""One text, two places: a component is shown in one lesson and kept in helpers/.

The cell that shows it carries the tag `helpers` and holds complete definitions, of one
module, character for character. The functions here find the two texts, compare them
in both directions, and copy one over the other.
"""

import ast
import difflib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from nbformat import NotebookNode

from tools.reproducible import ROOT

HELPERS = ROOT / "helpers"

# {module: {name: its text}}
Kept = dict[str, dict[str, str]]

# What no lesson has to show, and why: a package, a module, or one definition.
NOT_SHOWN = {
    "__init__": "holds nothing",
    "plots": "drawing is not what the lessons teach",
    "checks": "the exercises' checks would give the answers away",
    "runtime": "the machine and its oddities",
    "provenance": "what stored results were computed with",
    "studies": "reading a table",
    "experiments": "a lesson shows of its experiment what it teaches",
    "scale.checkpoints": "files that are never half written",
    "decoding.translate_ids": "sorts and batches sources for any way to decode",
    "decoding.until_end": "cuts a list at EOS",
    "masks.four_axes": "axes of size 1, for PyTorch's fused attention",
    "transformer.TransformerConfig": "sizes; lesson 08 says which",
    "transformer.check_tokens": "refuses what is not ids; lesson 08 says so",
    "probes.best_time": "a stopwatch",
    "probes.exponent": "a straight line through logarithms",
    "settings": "a list of settings, and checks of their values",
    "averaging": "a running mean of weights; lesson 13 measures that it gains nothing",
    "bootstrap.bleu_counts": "asks sacrebleu for each sentence's counts",
    "bootstrap.draw_resamples": "random row numbers",
    "scale.runs": "a handler for Ctrl-C around the Trainer",
    "scale.processes.weighted_parts": "lesson 14 is about its weights",
    "batching.bucketed_batches": "lesson 09 says what it does: sorts, cuts, shuffles",
    "training.Trainer": "lesson 09 writes its loop, prints its step, links the rest",
    "training.EpochReport": "what the Trainer says of an epoch",
    "training.TokenLoss": "`token_loss` as a module, for compile and lesson 14's DDP",
    "caching.can_cache": "asks whether a model decodes by the code that it repeats",
    "decoding.check_decodable": "an error for bad input",
    "decoding.Decodable": "what decoding asks of a model; lesson 11 links it",
    "decoding.Decoding": "what decoding asks of a cache; lesson 11 uses it",
    "decoding.PrefixDecoding": "lesson 07's loop without a cache, as a class",
    "decoding.inference": "no dropout, no gradients, and the mode as it was",
    "decoding.start_decoding": "chooses the cache, or none",
    "decoding.check_max_length": "an error for bad input",
    "modern.language_model.LanguageModelConfig": "sizes; lesson 18 says which",
    "modern.writing.check_prompts": "errors for bad input",
    "modern.blockwise.check_blocks": "errors for bad input, a mask with all its axes",
    "corpus": "lesson 10 shows its sentences, not its grammar",
    "multi30k": "downloading and unpacking",
    "translator": "the command line",
    "evaluation": "a thin layer over sacrebleu",
    "readings": "lesson 16 reads them as they stand",
    "interop": "other people's modules, and weights to and from them",
    "debugger": "lesson 15 uses the property checks as they stand",
}

# Modules of such a package that a lesson shows all the same, every definition, and why.
SHOWN = {
    "interop.pytorch": "lessons 04 and 06 copy weights by hand",
}


def definitions(text: str) -> dict[str, str]:
    """The top-level definitions of a module or cell: {name: its text}, in order.

    A definition is a function, a class or a constant, with its decorators and the
    comment lines directly above it.
    """
    lines = text.splitlines()
    found = {}
    for node in ast.parse(text).body:
        name = _name(node)
        if name is None:
            continue
        decorators = getattr(node, "decorator_list", [])
        start = min(part.lineno for part in [node, *decorators]) - 1
        while start > 0 and lines[start - 1].startswith("#"):
            start -= 1
        found[name] = "\n".join(lines[start : node.end_lineno])
    return found


def _name(node: ast.stmt) -> str | None:
    """The name that a top-level statement defines, or None."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    if isinstance(node, ast.Assign | ast.AnnAssign):
        if len(targets) == 1 and isinstance(targets[0], ast.Name):
            return targets[0].id
        if isinstance(targets[0], ast.Tuple):  # PAD, UNK, BOS, EOS = 0, 1, 2, 3
            return ", ".join(ast.unparse(name) for name in targets[0].elts)
    return None


def join_definitions(texts: list[str]) -> str:
    """Definitions one below the other, as ruff format separates them."""
    parts = []
    for before, text in zip([None, *texts], texts, strict=False):
        if before is not None:
            both_constants = not (_is_block(before) or _is_block(text))
            parts.append("\n" if both_constants else "\n\n\n")
        parts.append(text)
    return "".join(parts)


def _is_block(text: str) -> bool:
    return isinstance(
        ast.parse(text).body[0], ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    )


def modules(folder: Path = HELPERS) -> dict[str, str]:
    """{module name: its text} of the modules in `folder`, readings included."""
    paths = {
        ".".join(path.relative_to(folder).with_suffix("").parts): path
        for path in sorted(folder.rglob("*.py"))
    }
    return {module: path.read_text("utf-8") for module, path in paths.items()}


def kept_definitions(texts: dict[str, str]) -> Kept:
    """{module: {name: its text}}; ValueError names a module that is not Python."""
    kept = {}
    for module, text in texts.items():
        try:
            kept[module] = definitions(text)
        except SyntaxError as error:
            raise ValueError(f"helpers/{module}.py is not Python: {error}") from None
    return kept


def owner(shown: Mapping[str, str], kept: Kept) -> str:
    """The one module among `kept` ({module: {name: text}}) that defines what is shown.

    Of several, the one whose definition has to be shown, or else the one that has the
    same text. Raises ValueError when no module is the one.
    """
    owners = [name for name, found in kept.items() if set(shown) <= set(found)]
    texts = {name: {n: kept[name][n] for n in shown} for name in owners}
    due = [name for name in owners if public_components({name: texts[name]})]
    same = [name for name in owners if texts[name] == shown]
    for few in (owners, due, same):
        if len(few) == 1:
            return few[0]
    listed = ", ".join(shown)
    if owners:
        raise ValueError(f"{listed}: defined in several modules: {', '.join(owners)}")
    near = sorted(name for name, found in kept.items() if set(shown) & set(found))
    raise ValueError(
        f"{listed}: no module of helpers/ defines all of these"
        + (f" ({', '.join(near)} has some; one cell shows one module)" if near else "")
    )


def helper_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells that show kept definitions."""
    return [
        cell
        for cell in notebook.cells
        if cell.cell_type == "code" and "helpers" in cell.metadata.get("tags", [])
    ]


def compare(
    notebook: NotebookNode, kept: Kept
) -> Iterator[tuple[NotebookNode, str | None, str | None]]:
    """What differs between a notebook's tagged cells and the modules.

    Args: a notebook and {module: {name: text}}. Yields (cell, module or None, fault):
    the fault is a sentence or a unified diff, and None where the texts agree.
    """
    for cell in helper_cells(notebook):
        try:
            shown = definitions(cell.source)
            strangers = [n for n in ast.parse(cell.source).body if _name(n) is None]
            if strangers or not shown:
                raise ValueError("a cell tagged helpers holds definitions only")
            module = owner(shown, kept)
        except (ValueError, SyntaxError) as error:
            yield cell, None, str(error)
            continue
        text = join_definitions([kept[module][name] for name in shown])
        yield cell, module, None if text == cell.source else _diff(text, cell, module)


def _diff(text: str, cell: NotebookNode, module: str) -> str:
    lines = difflib.unified_diff(
        text.splitlines(),
        cell.source.splitlines(),
        f"helpers/{module.replace('.', '/')}.py",
        f"cell {cell.id}",
        lineterm="",
    )
    return "\n".join(lines) or "the texts differ in the ends of lines only"


def faults(notebooks: dict[str, NotebookNode], texts: dict[str, str]) -> Iterator[str]:
    """Every breach of the rule, as sentences; empty when it holds.

    Args: {lesson name: notebook}, {module: text}. ValueError for a module that is not
    Python.
    """
    kept = kept_definitions(texts)
    shown_in = defaultdict(list)
    for lesson, notebook in notebooks.items():
        for cell, module, fault in compare(notebook, kept):
            if fault:
                yield f"{lesson}, cell {cell.id}:\n{fault}"
            if module:
                for name in definitions(cell.source):
                    shown_in[f"{module}.{name}"].append(lesson)
    yield from _ownership_faults(kept, texts, shown_in)


def _ownership_faults(
    kept: Kept, texts: dict[str, str], shown_in: dict[str, list[str]]
) -> Iterator[str]:
    for component, lessons in shown_in.items():
        module = component.rpartition(".")[0]
        if len(lessons) > 1:
            yield f"{component} is shown more than once: {', '.join(lessons)}"
        if lessons[0][:2] not in lessons_named(texts[module]):
            yield (
                f"helpers.{module}: its docstring does not name lesson "
                f'{lessons[0][:2]}, which shows {component} (write "Lesson NN")'
            )
    for component in public_components(kept):
        if component not in shown_in:
            yield (
                f"{component} is kept but shown in no lesson: show it in a cell tagged "
                "helpers, or name it in NOT_SHOWN with a reason (tools/one_text.py)"
            )


def public_components(kept: Kept) -> list[str]:
    """Names "module.component" of the public functions and classes to be shown."""
    return [
        f"{module}.{name}"
        for module, found in kept.items()
        for name, text in found.items()
        if module in SHOWN
        or NOT_SHOWN.keys().isdisjoint(
            [module.partition(".")[0], module, f"{module}.{name}"]
        )
        if not name.startswith("_") and _is_block(text)
    ]


def lessons_named(text: str) -> set[str]:
    """The lesson numbers in a module's docstring: {"02", "04"} for "Lessons 02, 04"."""
    docstring = ast.get_docstring(ast.parse(text)) or ""
    return {
        number
        for group in re.findall(r"[Ll]essons?((?:,? (?:and )?\d\d)+)\b", docstring)
        for number in re.findall(r"\d\d", group)
    }


def show(notebook: NotebookNode, texts: dict[str, str]) -> list[str]:
    """Copy the modules' text into the tagged cells; return the ids of changed cells.

    ValueError for a cell that shows what no one module defines.
    """
    kept = kept_definitions(texts)
    changed = []
    for cell, module, fault in compare(notebook, kept):
        if fault and module is None:
            raise ValueError(f"cell {cell.id}: {fault}")
        if fault:
            names = definitions(cell.source)
            cell.source = join_definitions([kept[module][name] for name in names])
            changed.append(cell.id)
    return changed


def keep(notebook: NotebookNode, texts: dict[str, str]) -> dict[str, str]:
    """Copy the tagged cells' definitions into the modules; return what changed.

    Args: a notebook and {module: text}. Returns {module: new text}. ValueError for a
    cell that shows what no one module defines.
    """
    kept = kept_definitions(texts)
    changed = {}
    for cell, module, fault in compare(notebook, kept):
        if fault and module is None:
            raise ValueError(f"cell {cell.id}: {fault}")
        for name, text in definitions(cell.source).items() if fault else ():
            before = changed.get(module, texts[module])
            changed[module] = before.replace(kept[module][name], text, 1)
    return changed
