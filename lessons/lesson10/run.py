"""Train a model on all sentences for some epochs (lesson 10)."""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from helpers.batching import IdPair, bucketed_batches
from helpers.training import cosine_rate, train


def run(
    model: nn.Module,
    pairs: Sequence[IdPair],
    epochs: int,
    peak: float,
    watch: Callable[[int], None] | None = None,
) -> list[float]:
    """Train for so many epochs over the pairs; the loss of each step.

    The rate rises to `peak` over the first tenth of all steps, then falls to 0 along
    half a cosine.
    """
    generator = torch.Generator().manual_seed(0)
    batches = []
    for _ in range(epochs):  # each with other batches
        batches += bucketed_batches(pairs, tokens_per_batch=1024, generator=generator)

    def rate(step: int) -> float:
        return cosine_rate(step / len(batches), peak=peak, warmup=0.1)

    return train(model, batches, rate, watch)
