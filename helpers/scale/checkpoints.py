"""Saving without halves: atomic files, training runs that go on (lesson 09)."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:  # training imports this package
    from helpers.training import Trainer


class CheckpointError(ValueError):
    """A saved model or run that is missing, damaged, or of another configuration."""


def write_atomically(path: str | Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file, then move it over `path` in one step.

    A crash at any moment leaves either the old file or the new one, never a half.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    part = Path(name)
    try:
        write(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def save_run(path: str | Path, trainer: "Trainer", settings: dict) -> None:
    """Save a training run, and the settings it was started with, for `resume_run`."""
    state = {"settings": settings, "trainer": trainer.state_dict()}
    if trainer.processes.rank == 0:
        write_atomically(path, lambda part: torch.save(state, part))


def resume_run(path: str | Path, trainer: "Trainer", settings: dict) -> None:
    """Bring trainer to where the saved run stood.

    CheckpointError if the file is damaged or was started with other settings.
    """
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
        then, saved = state["settings"], state["trainer"]
    except Exception as error:  # a damaged pickle may raise almost anything
        raise CheckpointError(f"{path} is damaged or cut short: {error}") from error
    changed = [
        f"{name} is {settings.get(name)!r}, was {then.get(name)!r}"
        for name in sorted({*settings, *then})
        if settings.get(name) != then.get(name)
    ]
    if changed:
        raise CheckpointError(
            f"{path} holds a run with other settings: {'; '.join(changed)}"
        )
    try:
        trainer.load_state_dict(saved)
    except KeyError as error:
        raise CheckpointError(f"{path} is of another version: no {error}") from None
