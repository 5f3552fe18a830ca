"""Five cheap checks of a whole Transformer, and faults to try them on (lesson 08)."""

import math
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD
from helpers.batching import Batch
from helpers.masks import decoder_mask, padding_mask
from helpers.runtime import best_device
from helpers.transformer import Transformer, TransformerConfig


def parameters(config: TransformerConfig) -> dict[str, int]:
    """How many parameters each component has, from the sizes alone."""
    d, d_ff, layers = config.d_model, config.d_ff, config.n_layers
    attention = layers * 4 * (d * d + d)
    feed_forward = layers * (d * d_ff + d_ff + d_ff * d + d)
    rows, norms = config.target_vocab, 5 * layers
    if not config.share_embeddings:
        rows = config.source_vocab + 2 * config.target_vocab
    if config.norm_first:  # one more at the end of each stack
        norms += 2
    return {
        "token vectors": rows * d,
        "encoder self-attention": attention,
        "decoder self-attention": attention,
        "cross-attention": attention,
        "encoder feed-forward": feed_forward,
        "decoder feed-forward": feed_forward,
        "norms": norms * 2 * d,
    }


@torch.no_grad()
def moved(model: nn.Module, batch: Batch) -> tuple[float, float]:
    """How far a sentence's logits move, alone without padding, then cut after three.

    It is the sentence with the shortest source. Both are 0, up to rounding, where
    padding and later tokens have no influence.
    """
    row = (batch.source != PAD).sum(dim=1).argmin()
    source, target = batch.source[row], batch.decoder_input[row]
    together = model(batch.source, batch.decoder_input)[row]
    source, target = source[source != PAD][None], target[target != PAD][None]
    alone, short = model(source, target)[0], model(source, target[:, :3])[0]
    padding = (alone - together[: len(alone)]).abs().max()
    return padding.item(), (short - alone[:3]).abs().max().item()


def mean_loss(model: nn.Module, batch: Batch) -> Tensor:
    """The mean of −ln p of the true next tokens, padding left out."""
    logits = model(batch.source, batch.decoder_input).flatten(0, 1)
    return F.cross_entropy(logits, batch.labels.flatten(), ignore_index=PAD)


def random_batch(vocab_size: int, seed: int = 0) -> Batch:
    """64 pairs of 16 and 33 random ids: 2,048 labels that nobody could guess."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, vocab_size, (64, 49), generator=generator)
    return Batch(ids[:, :16], ids[:, 16:])


@torch.no_grad()
def own_logit(model: nn.Module, batch: Batch) -> float:
    """The mean logit of the token that the decoder has just read."""
    read = batch.decoder_input
    return model(batch.source, read).gather(2, read[..., None]).mean().item()


def expected_first_loss(config: TransformerConfig, own: float) -> float:
    """ln(V · e^(σ²/2) + e^own), a sound model's loss on random labels at the start.

    `own`: the mean logit of the token read; at most √d_model of it is counted.
    """
    d_model, vocab = config.d_model, config.target_vocab
    variance = 1 if config.share_embeddings else d_model * 0.02**2
    own = min(own, math.sqrt(d_model))
    return math.log(vocab * math.exp(variance / 2) + math.exp(own))


def without_gradient(model: nn.Module, batch: Batch) -> list[str]:
    """The parameters that get no gradient, biases of keys left out."""
    model.zero_grad()
    mean_loss(model, batch).backward()
    return [
        name
        for name, parameter in model.named_parameters()
        if not name.endswith("key_projection.bias")
        if parameter.grad is None or not parameter.grad.any()
    ]


def learn_by_heart(model: nn.Module, batch: Batch, steps: int = 100) -> list[float]:
    """Train on one batch with Adam; the loss before each step, and after the last."""
    model, batch = model.to(best_device()), batch.to(best_device())
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    losses = []
    for _ in range(steps):
        loss = mean_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    losses.append(mean_loss(model, batch).item())
    model.cpu()
    return losses


class SeesTheFuture(Transformer):
    """No causal mask in the decoder."""

    def decode(self, target, memory, source):
        x = self.positions(self.target_embedding(target))
        return self.decoder(x, memory, padding_mask(target), padding_mask(source))


class SeesPadding(Transformer):
    """No mask on the memory."""

    def decode(self, target, memory, source):
        x = self.positions(self.target_embedding(target))
        return self.decoder(x, memory, decoder_mask(target))


class IgnoresTheSource(Transformer):
    """The decoder gets zeros for a memory."""

    def decode(self, target, memory, source):
        return super().decode(target, 0 * memory, source)


class DetachedEncoder(Transformer):
    """No gradient flows back into the encoder."""

    def encode(self, source):
        return super().encode(source).detach()


class SoftmaxTwice(Transformer):
    """Gives probabilities, where the loss takes them for logits."""

    def project(self, states):
        return super().project(states).softmax(dim=-1)


class Untied(Transformer):
    """Three matrices, where the configuration says one."""

    def __init__(self, config):
        super().__init__(replace(config, share_embeddings=False))


class NoPositions(Transformer):
    """Embeddings without their positions."""

    def __init__(self, config):
        super().__init__(config)
        self.positions = nn.Identity()


class NoFactor(Transformer):
    """Embeddings without the factor √d_model."""

    def __init__(self, config):
        super().__init__(config)
        for table in {self.source_embedding, self.target_embedding}:
            table.forward = partial(nn.Embedding.forward, table)


FAULTS = (
    SeesTheFuture,
    SeesPadding,
    IgnoresTheSource,
    DetachedEncoder,
    SoftmaxTwice,
    Untied,
    NoPositions,
    NoFactor,
)


def five_checks(
    kind: type[Transformer], config: TransformerConfig, batch: Batch, floor: float
) -> dict[str, bool]:
    """Which checks a new model passes, without dropout.

    `floor`: the lowest loss on the batch of a model that ignores its source.
    """
    model = kind(replace(config, dropout=0.0))
    count = sum(parameter.numel() for parameter in model.parameters())
    random = random_batch(config.target_vocab)
    first = mean_loss(model, random).item()
    due = expected_first_loss(config, own_logit(model, random))
    return {
        "count": count == sum(parameters(config).values()),
        "masks": max(moved(model, batch)) < 1e-4,
        "first loss": abs(first - due) < 0.25,
        "gradients": not without_gradient(model, batch),
        "by heart": learn_by_heart(model, batch)[-1] < floor / 2,
    }
