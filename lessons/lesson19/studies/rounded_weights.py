"""Does a translator learn as well if its weights are kept in bf16?

A small translator trains on toy sentences in fp32. Its weights are rounded to bf16
after every step. Two controls: they are rounded once at the end; or after every step,
but up or down by chance, so that small changes are kept on average.
"""

from collections.abc import Iterator

import torch

from helpers.batching import Batch
from helpers.training import Trainer, TrainingConfig, evaluate_loss
from helpers.transformer import Transformer
from helpers.translator.small import small_transformer, toy_sentences

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
    for name in ("fp32", "every_step", "by_chance"):
        model = small_transformer(seed)
        config = TrainingConfig(
            epochs=1, tokens_per_batch=256, peak_rate=rate, seed=seed
        )
        data = words.train[:sentences], words.validation[:500]
        trainer = Trainer(model, *data, config)
        if name != "fp32":
            round_after_steps(trainer, by_chance=name == "by_chance")
        *_, report = trainer.fit()
        found |= {"steps": report.step, name: round(report.validation_loss, 3)}
        if name == "fp32":
            to_bf16(model)
            found["at_the_end"] = round(evaluate_loss(model, data[1]), 3)
    return found


def to_bf16(model: Transformer, by_chance: bool = False) -> None:
    """Round all weights to bf16: to the nearest number, or up or down by chance.

    bf16 is fp32 without its last 16 bits. A random number of 16 bits is added to them
    before they are cut off, so the nearer of the two numbers is the more probable.
    """
    with torch.no_grad():
        for weight in model.parameters():
            if by_chance:
                bits = weight.view(torch.int32)
                bits = (bits + torch.randint_like(bits, 2**16)) & -(2**16)
                weight.copy_(bits.view(torch.float32))
            else:
                weight.copy_(weight.bfloat16())


def round_after_steps(trainer: Trainer, by_chance: bool) -> None:
    """Let the trainer round the weights now, and after every step."""
    step = trainer.train_step

    def train_step(batch: Batch, progress: float) -> None:
        step(batch, progress)
        to_bf16(trainer.model, by_chance)

    trainer.train_step = train_step
    to_bf16(trainer.model, by_chance)
