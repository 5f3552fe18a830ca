"""The settings of a training run, checked (lesson 09)."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingConfig:
    """How to train: exactly one of epochs and minutes is the budget.

    tokens_per_batch counts target tokens; a batch goes through the model in
    `accumulate` parts, whose gradients are summed. warmup is a share of the budget;
    pool is that of `bucketed_batches`. From the share average_from of the budget on,
    every average_every steps, the weights enter a running mean.
    ValueError for a value that makes no sense, by its name.
    """

    epochs: int | None = None
    minutes: float | None = None
    tokens_per_batch: int = 1024
    accumulate: int = 1
    pool: int = 100
    peak_rate: float = 3e-3
    warmup: float = 0.1
    label_smoothing: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    average_from: float = 1.0
    average_every: int = 50
    seed: int = 0

    def __post_init__(self):
        if (self.epochs is None) == (self.minutes is None):
            raise ValueError(
                "give either epochs or minutes: "
                f"epochs={self.epochs}, minutes={self.minutes}"
            )
        counts = ("epochs", "tokens_per_batch", "accumulate", "pool", "average_every")
        for name in counts:
            value = getattr(self, name)
            if value is not None and (value % 1 or value < 1):
                raise ValueError(f"{name} must be a whole number from 1 on: {value}")
        for name in ("minutes", "peak_rate", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite: {value}")
        for name in ("warmup", "label_smoothing", "weight_decay"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ValueError(f"{name} must lie in [0, 1): {value}")
        if not 0 <= self.average_from <= 1:
            raise ValueError(f"average_from must lie in [0, 1]: {self.average_from}")
