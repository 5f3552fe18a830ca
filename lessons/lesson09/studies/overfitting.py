"""What do dropout, more sentences and more steps change about overfitting?

A small translator trains on 3,000 toy sentences for 10 or 20 epochs, with dropout and
without, and, for as many steps as in 20 epochs, on 24,000 sentences without dropout.
The ten epochs are run with a second peak rate, too.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import torch

from helpers.batching import Batch
from helpers.training import Trainer, TrainingConfig, evaluate_loss
from helpers.translator.small import small_transformer, toy_sentences

RUNS = (  # sentences, dropout, steps, peak rate
    (3000, 0.0, 1020, 0.004),
    (3000, 0.1, 1020, 0.004),
    (24000, 0.0, 1020, 0.004),
    (3000, 0.0, 510, 0.004),
    (3000, 0.1, 510, 0.004),
    (3000, 0.0, 510, 0.008),
    (3000, 0.1, 510, 0.008),
)
SEEDS = range(5)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each run and seed; `tiny`: a few."""
    runs, seeds = (RUNS[1:2], SEEDS[:1]) if tiny else (RUNS, SEEDS)
    grid = [(*run, seed) for seed in seeds for run in runs]
    if tiny:
        yield from (learn((100, 0.1, 4, 0.004, seed)) for *_, seed in grid)
        return
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(1, mp_context=context, **one_thread) as pool:
        yield from pool.map(learn, grid)


def learn(where: tuple[int, float, int, float, int]) -> dict:
    """Train one translator; its losses on sentences trained on, and on others."""
    sentences, dropout, steps, peak, seed = where
    words = toy_sentences()
    some = words.train[:sentences]
    model = small_transformer(seed, dropout=dropout)
    config = TrainingConfig(
        epochs=100,  # ended by the number of steps
        tokens_per_batch=512,
        peak_rate=peak,
        label_smoothing=0.0,
        seed=seed,
    )
    trainer = Limited(model, some, words.validation[:100], config, steps=steps)
    trainer.fit()
    return {
        "sentences": sentences,
        "dropout": dropout,
        "steps": trainer.step,
        "peak": peak,
        "seed": seed,
        "train": round(evaluate_loss(model, some[:1000]), 4),
        "validation": round(evaluate_loss(model, words.validation), 4),
    }


class Limited(Trainer):
    """A Trainer whose budget is a number of steps."""

    def __init__(self, *given: object, steps: int):
        super().__init__(*given)
        self.steps = steps

    def progress(self, batches: int) -> float:
        """The share of the steps that are done."""
        return self.step / self.steps

    def train_step(self, batch: Batch, progress: float) -> None:
        """A step, after the last of which it stops."""
        super().train_step(batch, progress)
        self.stop_requested = self.step == self.steps
