"""Trainings with a fault: a model learns to write sequences backwards (lesson 09)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD
from helpers.batching import Batch, IdPair, make_batch
from helpers.decoding import translate_ids
from helpers.evaluation import exact_match
from helpers.masks import padding_mask
from helpers.runtime import best_device
from helpers.training import cosine_rate, evaluate_loss, token_loss
from helpers.transformer import Transformer, TransformerConfig

VOCAB, STEPS, EVERY = 20, 280, 20
FAULTS = {"A": "sees the future", "B": "rate too high", "C": "memory is zeros"}


@dataclass(frozen=True)
class Training:
    """What a training showed; losses in nats per target token."""

    steps: list[int]
    train_loss: list[float]  # of the batch of that step, as the training computed it
    validation_loss: list[float]
    exchanged_loss: float  # of validation, each source exchanged for another
    exact: float  # share of new sequences reversed without a fault, token by token


class _SeesTheFuture(Transformer):
    """A Transformer whose decoder mask hides padding only."""

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        x = self.positions(self.target_embedding(target))
        return self.decoder(x, memory, padding_mask(target), padding_mask(source))


class _NoMemory(Transformer):
    """A Transformer whose memory arrives as zeros."""

    def encode(self, source: Tensor) -> Tensor:
        return 0 * super().encode(source)


MODELS = {"sees the future": _SeesTheFuture, "memory is zeros": _NoMemory}


def trainings() -> dict[str, Training]:
    """The trainings of exercise 09.2, and a healthy one, each really run."""
    names = {"healthy": "healthy", **FAULTS}
    return {name: run_with(fault) for name, fault in names.items()}


def run_with(fault: str, seed: int = 0, *, clip: bool = False) -> Training:
    """Train a small model with a fault or "healthy"; chance stays as it was."""
    generator = torch.Generator().manual_seed(seed)
    sizes = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 1, "dropout": 0.0}
    options = {"norm_first": True, "share_embeddings": False}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        kind = MODELS.get(fault, Transformer)
        model = kind(TransformerConfig(VOCAB, VOCAB, **sizes, **options))
    model.to(best_device())
    validation = _reversals(200, generator)
    pairs = _reversals(40 if fault == "too few sentences" else 48 * STEPS, generator)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), fused=True)
    steps, train_loss, validation_loss = [], [], []
    for step in range(1, STEPS + 1):
        start = 48 * (step - 1) % len(pairs)
        batch = make_batch(pairs[start : start + 48]).to(best_device())
        peak = 1e-1 if fault == "rate too high" else 1e-2
        rate = cosine_rate(step / STEPS, peak=peak, warmup=0.1)
        optimizer.param_groups[0]["lr"] = rate
        loss = _loss(model, batch, fault)
        optimizer.zero_grad()
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step == 1 or step % EVERY == 0:
            steps.append(step)
            train_loss.append(loss.item())
            validation_loss.append(evaluate_loss(model, validation))
    sources, targets = zip(*validation, strict=True)
    exchanged = list(zip(sources[1:] + sources[:1], targets, strict=True))
    written = translate_ids(model, sources, max_length=12)
    results = evaluate_loss(model, exchanged), exact_match(written, list(targets))
    return Training(steps, train_loss, validation_loss, *results)


def _reversals(count: int, generator: torch.Generator) -> list[IdPair]:
    """Random sequences of three to eight letters, each with its reverse."""
    pairs = []
    for _ in range(count):
        length = int(torch.randint(3, 9, (), generator=generator))
        row = torch.randint(4, VOCAB, (length,), generator=generator).tolist()
        pairs.append((row, row[::-1]))
    return pairs


def _loss(model: Transformer, batch: Batch, fault: str) -> Tensor:
    """The loss of a step, with the fault in it, if it has its place there."""
    if fault not in ("padding in the loss", "labels not shifted"):
        return token_loss(model, batch)[0]
    logits = model(batch.source, batch.decoder_input).flatten(0, 1)
    if fault == "labels not shifted":
        read = batch.decoder_input.flatten()
        return F.cross_entropy(logits, read, ignore_index=PAD)
    return F.cross_entropy(logits, batch.labels.flatten())
