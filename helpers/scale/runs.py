"""Training runs that are kept, and that Ctrl-C does not harm (lesson 13)."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.scale.checkpoints import save_run

if TYPE_CHECKING:  # training imports this package
    from helpers.training import EpochReport, Trainer


def saved_epochs(
    trainer: "Trainer", path: str | Path, settings: dict
) -> Iterator["EpochReport"]:
    """Train as `trainer.epochs()` does; saved after each epoch, and where it stops.

    The first Ctrl-C, or a notebook's stop button, ends it after the current step.
    `resume_run` goes on from there.
    """
    with stopping_at_interrupt(trainer):
        for report in trainer.epochs():
            save_run(path, trainer, settings)
            yield report
    save_run(path, trainer, settings)


@contextmanager
def stopping_at_interrupt(trainer: "Trainer") -> Iterator[None]:
    """Let Ctrl-C end the run between two steps; a second Ctrl-C ends it at once."""

    def stop(number: int, frame: object) -> None:
        trainer.stop_requested = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
