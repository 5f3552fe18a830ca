"""Is it a sound Transformer? Twenty-four property checks for any model.

from transformer_checkup import Subject, assert_sound, examine
"""

from .report import assert_sound, examine
from .subject import Subject

__all__ = ["Subject", "assert_sound", "examine"]
