"""Which of lesson 09's four checks finds which fault of a training?

A small translator trains on 3,000 toy sentences for five epochs, 255 steps, without a
fault and with one of seven: in the model, in the loss, in the rate or in the data.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD
from helpers.batching import Batch, bucketed_batches, make_batch
from helpers.decoding import inference
from helpers.masks import padding_mask
from helpers.training import cosine_rate, evaluate_loss, token_loss
from helpers.transformer import Transformer
from helpers.translator.small import small_transformer, toy_sentences

STEPS, EVERY, SEEDS = 255, 51, range(5)


class NoPaddingMask(Transformer):
    """A Transformer that reads the padding of the source like words."""

    def encode(self, source: Tensor) -> Tensor:
        """The source without a mask -> memory."""
        x = self.positions(self.source_embedding(source))
        return self.encoder(x, torch.ones_like(source).bool()[:, None, None])


class SeesTheFuture(Transformer):
    """A Transformer whose decoder's mask hides padding only, not later tokens."""

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """The target without a causal mask -> states."""
        x = self.positions(self.target_embedding(target))
        return self.decoder(x, memory, padding_mask(target), padding_mask(source))


class NoMemory(Transformer):
    """A Transformer whose decoder gets nothing of the source."""

    def encode(self, source: Tensor) -> Tensor:
        """The memory as zeros."""
        return 0 * super().encode(source)


def padded_loss(model: Transformer, batch: Batch) -> Tensor:
    """The mean over all places, padding included."""
    logits = model(batch.source, batch.decoder_input)
    return F.cross_entropy(logits.mT, batch.labels)


def unshifted_loss(model: Transformer, batch: Batch) -> Tensor:
    """Asks for the token that the decoder has just read."""
    logits = model(batch.source, batch.decoder_input)
    return F.cross_entropy(logits.mT, batch.decoder_input, ignore_index=PAD)


def sound_loss(model: Transformer, batch: Batch) -> Tensor:
    """The mean over the real tokens."""
    return token_loss(model, batch)[0]


MODELS = {
    "no padding mask": NoPaddingMask,
    "sees the future": SeesTheFuture,
    "memory is zeros": NoMemory,
}
LOSSES = {"labels not shifted": unshifted_loss, "padding in the loss": padded_loss}
FAULTS = ("none", *MODELS, *LOSSES, "rate too high", "too few sentences")


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each fault and seed; `tiny`: one."""
    if tiny:
        yield learn(("none", 0, 4))
        return
    grid = [(fault, seed, STEPS) for seed in SEEDS for fault in FAULTS]
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(1, mp_context=context, **one_thread) as pool:
        yield from pool.map(learn, grid)


def learn(where: tuple[str, int, int]) -> dict:
    """What the four checks measure in a training with this fault."""
    fault, seed, steps = where
    words = toy_sentences()
    pairs = words.train[: 100 if fault == "too few sentences" else 3000]
    peak = 0.04 if fault == "rate too high" else 0.004
    loss = LOSSES.get(fault, sound_loss)
    unseen = words.validation[:500]
    company = company_difference(make_model(fault, seed), unseen[:64])
    one = make_batch(pairs[:16])
    by_heart = train(make_model(fault, seed), steps * [one], loss, lambda _: peak, 100)

    model, validation = make_model(fault, seed), []
    batches, generator = [], torch.Generator().manual_seed(seed)
    while len(batches) < steps:
        options = {"tokens_per_batch": 512, "generator": generator}
        batches += bucketed_batches(pairs, **options)
    train(
        model,
        batches,
        loss,
        lambda step: cosine_rate(step / steps, peak=peak, warmup=0.1),
        steps,
        lambda: validation.append(evaluate_loss(model, unseen)),
    )
    sources, targets = zip(*unseen, strict=True)
    exchanged = list(zip(sources[1:] + sources[:1], targets, strict=True))
    return {
        "fault": fault,
        "seed": seed,
        "company": float(f"{company:.1e}"),
        "one_batch": round(by_heart, 4),
        "lowest": round(min(validation, default=0.0), 4),
        "last": round(evaluate_loss(model, unseen), 4),
        "exchanged": round(evaluate_loss(model, exchanged), 4),
    }


def make_model(fault: str, seed: int) -> Transformer:
    """The fresh small translator, with the fault if it has its place there."""
    sound = small_transformer(seed)
    model = MODELS.get(fault, Transformer)(sound.config)
    model.load_state_dict(sound.state_dict())
    return model


def train(
    model: Transformer,
    batches: list[Batch],
    loss_of: Callable[[Transformer, Batch], Tensor],
    rate: Callable[[int], float],
    steps: int,
    look: Callable[[], None] = lambda: None,
) -> float:
    """Take the steps, and look after every 51st; gives the last loss."""
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    for step, batch in enumerate(batches[:steps], start=1):
        optimizer.param_groups[0]["lr"] = rate(step)
        model.train()
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % EVERY == 0:
            look()
    return loss.item()


def company_difference(model: Transformer, pairs: list) -> float:
    """The largest difference of logits between a sentence alone and in a batch."""
    many, largest = make_batch(pairs), 0.0
    with inference(model):
        together = model(many.source, many.decoder_input)
        for row, pair in zip(together, pairs, strict=True):
            alone = make_batch([pair])
            logits = model(alone.source, alone.decoder_input)[0]
            largest = max(largest, (logits - row[: len(logits)]).abs().max().item())
    return largest
