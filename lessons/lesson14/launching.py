"""Call functions of a notebook in several processes, by torchrun (lesson 14)."""

import ast
import inspect
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from helpers import mine

SECONDS = 300  # after so many a launch is given up
SURROUNDINGS = {
    "CUDA_VISIBLE_DEVICES": "-1",  # all experiments are made on CPUs
    "OMP_NUM_THREADS": "1",  # a core for each process
    # Processes that are started again would look for the old ones: PyTorch's 135712.
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    "TQDM_DISABLE": "1",
    "PYTHONUTF8": "1",
}
MAIN = """
import torch
from torch import distributed as dist
from helpers.scale.processes import process_group

with process_group():
    for function in ({names},):
        given = torch.load("given.pt", weights_only=False)
        result = function(*given)
        torch.save(result, f"{{function.__name__}}-{{dist.get_rank()}}.pt")
"""


def launch(
    *functions: Callable, given: tuple = (), processes: int = 2, restarts: int = 0
) -> dict[str, list]:
    """{function's name: what it returned in each process}, in a new folder.

    The functions' texts become a script, with all that they use of the notebook; each
    is called with its own copy of `given`. What the processes print is printed.
    RuntimeError, with the processes' own messages, where one fails.
    """
    names = [function.__name__ for function in functions]
    script = "\n".join([*_texts(functions), MAIN.format(names=", ".join(names))])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "script.py").write_text(script, "utf-8")
        torch.save(given, folder / "given.pt")
        said = torchrun(folder, "script.py", processes=processes, restarts=restarts)
        print(said, end="")
        return {
            name: [
                torch.load(folder / f"{name}-{rank}.pt", weights_only=False)
                for rank in range(processes)
            ]
            for name in names
        }


def torchrun(folder: Path, script: str, *, processes: int, restarts: int = 0) -> str:
    """What the script has printed in `folder`, run in so many processes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--local-addr=localhost", f"--nproc-per-node={processes}"]
    ended = subprocess.run(
        [*command, f"--max-restarts={restarts}", script],
        cwd=folder,
        env=os.environ | SURROUNDINGS | {"PYTHONPATH": os.pathsep.join(_folders())},
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
    )
    if ended.returncode:
        raise RuntimeError(ended.stdout + ended.stderr)
    return ended.stdout


def _folders() -> list[str]:
    """Where the script finds the course, and the learner's parts, if any."""
    course, yours = Path(__file__).parents[2], mine.path()
    return [str(course)] + ([str(yours.parent)] if yours else [])


def _texts(functions: Sequence[Callable]) -> list[str]:
    """The functions, those that they call, and the imports that they need."""
    imports, texts, waiting = set(), {}, [*functions]
    while waiting:
        function = waiting.pop()
        if function.__name__ in texts:
            continue
        text = texts[function.__name__] = inspect.getsource(function)
        names = (node.id for node in ast.walk(ast.parse(text)) if _is_name(node))
        for name in names:
            thing = function.__globals__.get(name)
            if isinstance(thing, ModuleType):
                imports.add(f"import {thing.__name__} as {name}")
            elif getattr(thing, "__globals__", None) is function.__globals__:
                waiting.append(thing)
            elif getattr(thing, "__module__", "") == "my_transformer":
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


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)
