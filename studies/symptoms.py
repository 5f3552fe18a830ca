"""Which checks of the debugger fail for which silent fault?

A fault is put into a small model with random weights, three times with other weights.
All checks are asked but "overfits one batch", which trains.
"""

from collections.abc import Iterator

from helpers.debugger import mutants  # noqa: F401  fills MUTANTS
from helpers.debugger.adapters import of_course
from helpers.debugger.breaking import MUTANTS, small_model
from helpers.debugger.report import report_on
from helpers.experiments.patients import OneLength, SidesSwapped
from helpers.transformer import Transformer

SEEDS = range(3)
TRAINS = ("overfits one batch",)
PADDED = {"none, one length": OneLength, "cross mask of the target": SidesSwapped}
FAULTS = (
    "heads split by view alone",
    "masks repeated in another order than heads",
    "norm over length and features",
    "result of masked_fill thrown away",
    "no causal mask",
    "causal mask one place too wide",
    "weights applied to the keys",
    "the residual taken and never added",
    "softmax before the cross-entropy",
    "the positional table is no buffer",
    "hidden scores filled with -1e9",
    "hidden scores filled with -inf",
    "no scale",
    "scale from d_head // heads",
    "norm by the unbiased standard deviation",
)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each fault and seed; `tiny`: one."""
    faults = "none", *PADDED, *FAULTS
    grid = [(fault, seed) for fault in faults for seed in SEEDS]
    for fault, seed in grid[:1] if tiny else grid:
        model = small_model(seed, PADDED.get(fault, Transformer))
        if fault in MUTANTS:
            MUTANTS[fault].damage(model)
        # The maps of a model that pads its input have other shapes than their batch.
        options = {"attention": None} if fault in PADDED else {}
        report = report_on(of_course(model, seed=seed, skip=TRAINS, **options))
        yield {
            "fault": fault,
            "seed": seed,
            "failed": "; ".join(verdict.name for verdict in report.failed),
            "first_suspect": report.suspects[0].text if report.suspects else "",
        }
