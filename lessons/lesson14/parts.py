"""The gradient of a batch that comes in parts (lesson 14)."""

from collections.abc import Sequence

from torch import nn

from helpers.batching import Batch
from helpers.training import token_loss


def accumulate(model: nn.Module, batches: Sequence[Batch]) -> float:
    """Add to `.grad` the gradient of the mean loss over all tokens of the batches.

    Gives this mean, in nats per token. One batch's activations are in memory at a time.
    """
    tokens = sum(batch.n_tokens for batch in batches)
    total = 0.0
    for batch in batches:
        mean, own = token_loss(model, batch)
        loss = mean * own / tokens
        loss.backward()
        total += loss.item()
    return total
