"""Which checks of the check-up fail for which silent fault?

A fault is put into a small model with random weights, three times with other weights.
All checks are asked but "overfits one batch", which trains.
"""

from collections.abc import Iterator

from helpers.transformer import Transformer
from lessons.lesson15.adapters import of_course
from lessons.lesson15.breaking import MUTANTS, small_model
from lessons.lesson15.patients import OneLength, SidesSwapped
from lessons.lesson15.sealed import SHOWN
from transformer_checkup.report import report_on

SEEDS = range(3)
TRAINS = ("overfits one batch",)
PADDED = {"none, one length": OneLength, "cross mask of the target": SidesSwapped}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each fault and seed; `tiny`: one."""
    faults = "none", *PADDED, *SHOWN
    grid = [(fault, seed) for fault in faults for seed in SEEDS]
    for fault, seed in grid[:1] if tiny else grid:
        model = small_model(seed, PADDED.get(fault, Transformer))
        if fault in MUTANTS:
            MUTANTS[fault].damage(model)
        report = report_on(of_course(model, seed=seed, skip=TRAINS))
        yield {
            "fault": fault,
            "seed": seed,
            "failed": "; ".join(verdict.name for verdict in report.failed),
            "first_suspect": report.suspects[0].text if report.suspects else "",
        }
