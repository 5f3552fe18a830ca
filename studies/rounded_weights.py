"""Does a translator learn as well if its weights are kept in bf16?

A small translator trains on toy sentences in fp32. Its weights are rounded to bf16
after every step, or, as a control, once at the end.
"""

from collections.abc import Iterator

import torch

from helpers.batching import Batch
from helpers.experiments.small_translator import small_transformer, toy_sentences
from helpers.training import Trainer, TrainingConfig, evaluate_loss
from helpers.transformer import Transformer

RATES = (1e-3, 3e-3)
SEEDS = range(3)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each rate and seed, with a loss for each way; `tiny`: one, short."""
    for rate in RATES[:1] if tiny else RATES:
        for seed in SEEDS[:1] if tiny else SEEDS:
            yield learn(rate, seed, sentences=60 if tiny else 6000)


def learn(rate: float, seed: int, sentences: int) -> dict:
    """Validation losses of the run in fp32, rounded at its end, and of the other."""
    words, found = toy_sentences(), {"rate": rate, "seed": seed}
    for name in ("fp32", "every_step"):
        model = small_transformer(seed)
        config = TrainingConfig(
            epochs=1, tokens_per_batch=256, peak_rate=rate, seed=seed
        )
        data = words.train[:sentences], words.validation[:500]
        trainer = Trainer(model, *data, config)
        if name == "every_step":
            round_after_steps(trainer)
        *_, report = trainer.fit()
        found |= {"steps": report.step, name: round(report.validation_loss, 3)}
        if name == "fp32":
            to_bf16(model)
            found["at_the_end"] = round(evaluate_loss(model, data[1]), 3)
    return found


def to_bf16(model: Transformer) -> None:
    """Round all weights to bf16."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(weight.bfloat16())


def round_after_steps(trainer: Trainer) -> None:
    """Let the trainer round the weights now, and after every step."""
    step = trainer.train_step

    def train_step(batch: Batch, progress: float) -> None:
        step(batch, progress)
        to_bf16(trainer.model)

    trainer.train_step = train_step
    to_bf16(trainer.model)
