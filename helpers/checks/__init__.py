"""The exercises' checks, a module for each lesson.

In a lesson: `from helpers import checks`, then `checks.lesson02.scaled_attention(…)`.
A check prints lines beginning ✓ (right), ✗ (wrong, with the likely mistake) or ○ (not
attempted yet), draws a picture where that helps, never raises, and returns None.
A lesson's module is loaded when it is first used.
"""

from importlib import import_module
from pathlib import Path
from types import ModuleType

LESSONS = tuple(sorted(path.stem for path in Path(__file__).parent.glob("lesson*.py")))


def __getattr__(name: str) -> ModuleType:
    """Load the checks of a lesson. AttributeError if there are none of this name."""
    if name not in LESSONS:
        raise AttributeError(f"helpers.checks has {', '.join(LESSONS)}: not {name!r}")
    return import_module(f"helpers.checks.{name}")


def __dir__() -> list[str]:
    return [*LESSONS]
