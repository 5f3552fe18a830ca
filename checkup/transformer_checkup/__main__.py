"""Examine a model from a shell: python -m transformer_checkup module:build_model

build_model() gives a Subject, a model of Hugging Face's, or any Module or function that
takes ids and gives logits; then --vocab is needed, unless its `config` has the numbers
`source_vocab` and `target_vocab`. The exit status is 0 if no check fails, 1 if one
does, 2 if there is nothing to examine. What stands in the working directory can be
imported.
"""

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace

from torch import nn

from .adapters import of_hugging_face
from .given import KINDS
from .report import CHECKS, chosen, examine, for_console, report_on
from .subject import Subject, says


def main(arguments: Sequence[str] | None = None) -> int:
    """Examine what the command line names."""
    options = parser().parse_args(arguments)
    only = options.only or None
    try:
        subject = subject_of(imported(options.builder), options)
        chosen(subject, only)  # whether there are such checks
    except (Exception, SystemExit) as error:  # whatever the builder's module may raise
        said = str(error) if isinstance(error, ValueError) else says(error)
        line = for_console(f"{options.builder}: {said}", sys.stderr.encoding)
        print(line, file=sys.stderr)
        return 2
    if options.json:
        report = report_on(subject, only=only)
        print(json.dumps(report.data, indent=1))
    else:
        report = examine(subject, draw=False, only=only)
    if not report.judged:
        return 2
    return 0 if report.sound else 1


def parser() -> argparse.ArgumentParser:
    """What the command line takes."""
    made = argparse.ArgumentParser(
        prog="python -m transformer_checkup",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("builder", metavar="MODULE:FUNCTION")
    made.add_argument("--kind", choices=KINDS, help="encoder-decoder unless told")
    made.add_argument(
        "--vocab", type=int, dest="source_vocab", help="of the source, or both sides"
    )
    made.add_argument("--target-vocab", type=int)
    made.add_argument("--longest", type=int, help="a length that it ought to take")
    made.add_argument("--pad", type=int, help="the id of padding, 0 unless told")
    made.add_argument("--bos", type=int, help="the id of a translation's start, or 2")
    made.add_argument("--json", action="store_true", help="the report, for programs")
    for name in ("--trained", "--left-padding"):
        made.add_argument(name, action="store_true")
    names = {"metavar": "CHECK", "action": "append", "default": []}
    made.add_argument("--skip", help=", ".join(CHECKS), **names)
    made.add_argument("--only", **names)
    return made


def imported(name: str) -> Callable:
    """The function package.module:function. ValueError if there is none."""
    module, _, function = name.partition(":")
    if not function:
        raise ValueError("write package.module:function")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"cannot be imported: {error}") from error


def subject_of(build: Callable, options: argparse.Namespace) -> Subject:
    """What the function builds, as a Subject with the options of the command line."""
    built, own = build(), {field.name for field in fields(Subject)}
    given = {
        name: tuple(value) if name == "skip" else value
        for name, value in vars(options).items()
        if name in own and value is not None and value is not False and value != []
    }
    if isinstance(built, Subject):
        for name in ("kind", "source_vocab", "target_vocab"):
            if name in given:
                raise ValueError(f"a Subject is built, which says its own {name}")
        return replace(built, **given)
    given["rebuild"] = lambda: _adapted(build(), dict(given))
    return _adapted(built, given)


def _adapted(built: nn.Module | Callable, given: dict) -> Subject:
    """A model with the adapter that fits it."""
    config = getattr(built, "config", None)
    if config is not None and hasattr(built, "get_input_embeddings"):
        return of_hugging_face(built, **given)
    for name in ("source_vocab", "target_vocab"):
        if isinstance(getattr(config, name, None), int):
            given.setdefault(name, getattr(config, name))
    if "source_vocab" not in given:
        raise ValueError(
            f"how large is its vocabulary? Say --vocab (it is a {type(built).__name__})"
        )
    return Subject(built, **given)


if __name__ == "__main__":
    sys.exit(main())
