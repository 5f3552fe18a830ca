"""The exercises' checks, a module for each lesson.

In a lesson: `from helpers import checks`, then `checks.lesson02.scaled_attention(…)`.
A check prints lines beginning ✓ (right), ✗ (wrong, with the likely mistake) or ○ (not
attempted yet), draws a picture where that helps, never raises, and returns None.
"""

from helpers.checks import (
    lesson01,
    lesson02,
    lesson03,
    lesson04,
    lesson05,
    lesson06,
    lesson07,
    lesson08,
    lesson09,
    lesson10,
    lesson11,
    lesson12,
    lesson13,
    lesson14,
    lesson15,
    lesson16,
)
from helpers.checks.sealed import sealed

__all__ = [
    "lesson01",
    "lesson02",
    "lesson03",
    "lesson04",
    "lesson05",
    "lesson06",
    "lesson07",
    "lesson08",
    "lesson09",
    "lesson10",
    "lesson11",
    "lesson12",
    "lesson13",
    "lesson14",
    "lesson15",
    "lesson16",
    "sealed",
]
