"""A training step of the course and of its rivals: what is timed, wherever it runs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from benchmarks.compare import Work
from benchmarks.rivals import D2lTrainer, PlainTrainer, d2l_model, pytorch_model
from benchmarks.workload import Sizes, new_model, sentence_pairs
from helpers.batching import Batch, make_batch
from helpers.runtime import best_device, faster_on_cpu
from helpers.scale.precision import PRECISIONS, Precision
from helpers.training import Trainer, TrainingConfig, cosine_rate
from helpers.transformer import Transformer


@dataclass(frozen=True)
class Steps:
    """How a training step is run: its precision, and whether ours is compiled."""

    precision: str = "fp32"
    compiled: bool = False

    def trainer(self, model: Transformer) -> Trainer:
        """The course's own trainer. It is given its batches, so it needs no corpus."""
        pairs, config = [([4], [4])], TrainingConfig(epochs=1, peak_rate=RATE)
        precision = Precision(self.precision, best_device())
        options = {"precision": precision, "compiled": self.compiled}
        return Trainer(model.train(), pairs, pairs, config, **options)

    def plain(self, model: Transformer) -> Callable[[Batch], None]:
        """Its step, at a fixed point of its schedule."""
        return partial(self.trainer(model).train_step, progress=0.5)

    def ours(self, model: Transformer) -> Callable[[Batch], None]:
        """The same, inside the block in which a trainer takes its steps."""
        step = self.plain(model)

        def faster(batch: Batch) -> None:
            with faster_on_cpu(model):
                step(batch)

        return faster

    def theirs(
        self, model: torch.nn.Module, kind: type[PlainTrainer] = PlainTrainer
    ) -> Callable[[Batch], float]:
        """A step of a plain loop, at the same rate."""
        dtype, autocast = PRECISIONS[self.precision], None
        if dtype != torch.float32:
            device = best_device().type
            autocast = partial(torch.autocast, device, dtype=dtype)
        rate = cosine_rate(0.5, peak=RATE, warmup=TrainingConfig(epochs=1).warmup)
        return kind(model, rate=rate, autocast=autocast).train_step


RATE = 1e-3
RIVALS = {
    "nn.Transformer": (pytorch_model, PlainTrainer),
    "d2l's modules": (d2l_model, D2lTrainer),
}

# The course's step, and the same without `faster_on_cpu`.
OURS, PLAIN = "ours", "ours, not sped up"


def work_of(side: str, steps: Steps, sizes: Sizes) -> Work:
    """One training step of a side on the batch that has LENGTHS.

    The side is OURS, PLAIN or one of RIVALS. PLAIN and the rivals want a process of
    their own, since `faster_on_cpu` changes how a process treats memory for good.
    """
    batch = make_batch(sentence_pairs(sizes.sentences, sizes.vocabulary))
    model = new_model(sizes, dropout=0.1)
    if side in RIVALS:
        make, kind = RIVALS[side]
        step = steps.theirs(make(model, dropout=0.1), kind)
    else:
        step = steps.ours(model) if side == OURS else steps.plain(model)
    return partial(step, batch.to(best_device()))
