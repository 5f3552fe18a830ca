"""What does a silent fault cost a translator that is trained with it?

A small translator trains for seconds on 2,600 short sentences: soundly, with both sides
padded to one length, without its source, and with one of four faults. The wrong mask
is mended afterwards, with the same weights.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import torch
from torch import Tensor
from torch.nn import functional as F

from helpers import PAD
from helpers.decoding import greedy_decode
from helpers.training import EpochReport
from helpers.transformer import Transformer
from lessons.lesson15.mutants import MUTANTS
from lessons.lesson15.patients import (
    NoSource,
    OneLength,
    Patient,
    share_right,
    train_short,
)

SEEDS = range(5)
SWAPPED = "cross mask of the target"
KINDS = {"none, one length": OneLength, SWAPPED: Patient, "no source": NoSource}
UNMASKED = "no padding mask in cross-attention"
IN_THE_MODEL = "no causal mask", "no scale", UNMASKED


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """Rows for each fault and seed; `tiny`: one fault."""
    if tiny:
        yield from learn((SWAPPED, 0, 1))
        return
    grid = [(x, seed, 4) for seed in SEEDS for x in ("none", *KINDS, *IN_THE_MODEL)]
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(2, mp_context=context, **one_thread) as pool:
        for found in pool.map(learn, grid):
            yield from found


def learn(where: tuple[str, int, int]) -> list[dict]:
    """Train with this fault, and measure; the one that is mended has a second row."""
    fault, seed, epochs = where
    damage = {"damage": MUTANTS[fault].damage} if fault in IN_THE_MODEL else {}
    kind = KINDS.get(fault, Transformer)
    model, report = train_short(kind, seed=seed, epochs=epochs, **damage)
    found = [measured(fault, seed, model, report)]
    if fault == SWAPPED:
        model.__class__ = OneLength
        found.append(measured(f"{fault}, then mended", seed, model, report))
    return found


def measured(fault: str, seed: int, model: Transformer, report: EpochReport) -> dict:
    """Losses of training in nats per token, and shares of held-out sentences right.

    `right_padded` is with 60 PADs behind every source, for two models.
    """
    right_padded = None
    if fault in ("none", UNMASKED):
        right_padded = round(share_right(model, decode=padded(60)), 3)
    return {
        "fault": fault,
        "seed": seed,
        "train": round(report.train_loss, 3),
        "validation": round(report.validation_loss, 3),
        "right": round(share_right(model), 3),
        "right_padded": right_padded,
    }


def padded(count: int) -> Callable[..., Tensor]:
    """Greedy decoding with so many PADs behind every source."""

    def decode(model: torch.nn.Module, source: Tensor, *, max_length: int) -> Tensor:
        longer = F.pad(source, (0, count), value=PAD)
        return greedy_decode(model, longer, max_length=max_length)

    return decode
