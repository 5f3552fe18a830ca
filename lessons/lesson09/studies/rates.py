"""Which learning rate, which schedule, and with a warm-up or without?

A translator of one layer a side and 32 features, wired as in the paper (norm last),
trains for two epochs of 3,000 toy sentences, about 200 steps. The rate rises for a
tenth of the run, or starts at its peak; after that tenth both are the same: they fall
as the paper's 1/√step, or as a cosine.
"""

import math
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import torch

from helpers.training import Trainer, TrainingConfig, cosine_rate
from helpers.translator.small import small_transformer, toy_sentences

PEAKS = (0.004, 0.008, 0.016, 0.032, 0.064)
SEEDS = range(5)
WARMUP = 0.1  # share of the run


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each schedule, start, peak rate and seed; `tiny`: a few."""
    peaks, seeds = (PEAKS[:1], SEEDS[:1]) if tiny else (PEAKS, SEEDS)
    grid = [
        {"schedule": schedule, "warm_up": warm_up, "peak": peak, "seed": seed}
        for seed in seeds
        for peak in peaks
        for schedule in ("1/√step", "cosine")
        for warm_up in (True, False)
    ]
    if tiny:
        yield from (learn(where, sentences=100) for where in grid)
        return
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(1, mp_context=context, **one_thread) as pool:
        yield from pool.map(learn, grid)


def rate_of(schedule: str, warm_up: bool, peak: float) -> Callable[[int, float], float]:
    """The schedule as a Trainer wants it: (step, share of the run) to a rate."""

    def rate(step: int, progress: float) -> float:
        if progress < WARMUP:
            return peak * progress / WARMUP if warm_up else peak
        if schedule == "cosine":
            return cosine_rate(progress, peak=peak, warmup=WARMUP)
        return peak * math.sqrt(WARMUP / progress)

    return rate


def learn(where: dict, sentences: int = 3000) -> dict:
    """Train one translator; its loss on sentences that it has not seen."""
    words, seed = toy_sentences(), where["seed"]
    model = small_transformer(seed, d_model=32, d_ff=64, norm_first=False)
    config = TrainingConfig(
        epochs=2,
        tokens_per_batch=256,
        label_smoothing=0.0,
        weight_decay=0.0,
        seed=seed,
    )
    schedule = rate_of(where["schedule"], where["warm_up"], where["peak"])
    data = words.train[:sentences], words.validation[:500]
    *_, report = Trainer(model, *data, config, schedule=schedule).fit()
    return where | {"steps": report.step, "loss": round(report.validation_loss, 3)}
