"""Call a function of a notebook in several processes, by torchrun (lesson 14)."""

import ast
import inspect
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch

from helpers import mine

OWN = type, FunctionType  # what the learner's file has of its own
SECONDS = 300  # after so many a launch is given up
SURROUNDINGS = {
    "CUDA_VISIBLE_DEVICES": "-1",  # all experiments are made on CPUs
    "OMP_NUM_THREADS": "1",  # a core for each process
    "TQDM_DISABLE": "1",
    "PYTHONUTF8": "1",
}
MAIN = """
import torch
from torch import distributed as dist
from helpers.scale.processes import process_group

with process_group():
    result = {name}(*torch.load("given.pt", weights_only=False))
    torch.save(result, f"{{dist.get_rank()}}.pt")
"""


def launch(function: Callable, *, given: tuple = (), processes: int = 2) -> list[Any]:
    """What the function returned in each process, called with its own copy of `given`.

    The function's text becomes a script, with all that it uses of the notebook.
    RuntimeError, with the processes' own messages, where one fails.
    """
    script = "\n".join([*_texts(function), MAIN.format(name=function.__name__)])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "script.py").write_text(script, "utf-8")
        torch.save(given, folder / "given.pt")
        torchrun(folder, "script.py", processes=processes)
        files = [folder / f"{rank}.pt" for rank in range(processes)]
        return [torch.load(file, weights_only=False) for file in files]


def torchrun(folder: Path, script: str, *, processes: int) -> str:
    """What the script has printed in `folder`, run in so many processes."""
    course, yours = Path(__file__).parents[2], mine.path()
    paths = [str(course)] + ([str(yours.parent)] if yours else [])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--local-addr=localhost", f"--nproc-per-node={processes}"]
    ended = subprocess.run(
        [*command, script],
        cwd=folder,
        env=os.environ | SURROUNDINGS | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
    )
    if ended.returncode:
        raise RuntimeError(ended.stdout + ended.stderr)
    return ended.stdout


def _texts(function: Callable) -> list[str]:
    """The function, those that it calls, and the imports that they need."""
    imports, texts, waiting = set(), {}, [function]
    while waiting:
        function = waiting.pop()
        if function.__name__ in texts:
            continue
        text = texts[function.__name__] = inspect.getsource(function)
        nodes = ast.walk(ast.parse(text))
        for name in (node.id for node in nodes if isinstance(node, ast.Name)):
            thing = function.__globals__.get(name)
            if isinstance(thing, ModuleType):
                imports.add(f"import {thing.__name__} as {name}")
            elif getattr(thing, "__globals__", None) is function.__globals__:
                waiting.append(thing)
            elif isinstance(thing, OWN) and thing.__module__ == "my_transformer":
                imports.add(f"from my_transformer import {name}")
            elif home := _home(thing, name):
                imports.add(f"from {home} import {name}")
            elif isinstance(thing, int | float | str):
                imports.add(f"{name} = {thing!r}")
    return [*sorted(imports), *texts.values()]


def _home(thing: Any, name: str) -> str:
    """The module from which a thing can be imported by its name, if any."""
    own = [getattr(thing, "__module__", None) or ""]
    own += [module for module in sys.modules if module.startswith("helpers.")]
    found = (m for m in own if getattr(sys.modules.get(m), name, None) is thing)
    return "" if thing is None else next(found, "")
