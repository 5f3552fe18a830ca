"""What does a silent fault cost a translator that is trained with it?

A small translator trains for seconds on 2,600 short sentences: soundly, without its
source, and with one of 18 faults in the model or in the loop around it. A nineteenth is
put into the trained sound models.
"""

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import torch
from torch import Tensor
from torch.nn import functional as F

from helpers import PAD
from helpers.decoding import greedy_decode
from helpers.training import evaluate_loss
from lessons.lesson15 import mutants  # noqa: F401  fills MUTANTS
from lessons.lesson15.breaking import MUTANTS
from lessons.lesson15.patients import (
    NeverZeroed,
    NoSource,
    OneLength,
    Run,
    ShuffledApart,
    SidesSwapped,
    Unshifted,
    share_right,
    short_sentences,
    train_short,
)

SEEDS = range(5)
KINDS = {
    "none, one length": OneLength,
    "cross mask of the target": SidesSwapped,
    "no source": NoSource,
}
LOOPS = {
    "labels not shifted": Unshifted,
    "gradients never zeroed": NeverZeroed,
    "pairs shuffled apart": ShuffledApart,
}
UNMASKED = "no padding mask in cross-attention"
IN_THE_MODEL = (
    "heads split by view alone",
    "heads joined without the way back",
    "masks repeated in another order than heads",
    "norm over length and features",
    "result of masked_fill thrown away",
    "the residual taken and never added",
    "softmax before the cross-entropy",
    "no causal mask",
    "causal mask one place too wide",
    "weights applied to the keys",
    UNMASKED,
    "no scale",
    "scale from d_head // heads",
    "norm by the unbiased standard deviation",
)
FAULTS = ("none", *KINDS, *LOOPS, *IN_THE_MODEL)
LATER = "positions restart with the cache"  # acts in decoding alone


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """Rows for each fault and seed; `tiny`: one fault."""
    if tiny:
        yield from learn(("cross mask of the target", 0, 1))
        return
    grid = [(fault, seed, 4) for seed in SEEDS for fault in FAULTS]
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(2, mp_context=context, **one_thread) as pool:
        for found in pool.map(learn, grid):
            yield from found


def learn(where: tuple[str, int, int]) -> list[dict]:
    """Train with this fault, and measure; a fault that is mended has a second row."""
    fault, seed, epochs = where
    options = {"trainer": LOOPS[fault]} if fault in LOOPS else {}
    if fault in IN_THE_MODEL:
        options["damage"] = MUTANTS[fault].damage
    kind = KINDS.get(fault)
    options |= {"kind": kind} if kind else {}
    run = train_short(seed=seed, epochs=epochs, **options)
    found = [measured(fault, seed, run)]
    if fault == "cross mask of the target":
        run.model.__class__ = OneLength
        found.append(measured(f"{fault}, then mended", seed, run))
    if fault == "none":
        MUTANTS[LATER].damage(run.model)
        found.append(measured(LATER, seed, run))
    return found


def measured(fault: str, seed: int, run: Run) -> dict:
    """Losses in nats per token, and shares of held-out sentences that are right.

    `alone` is the validation loss with each sentence in a batch of its own, which needs
    no padding: but a `OneLength` pads a source that is shorter than its target.
    `right_padded` is with 60 PADs behind every source, for two models.
    """
    unseen = short_sentences().held_out[:100]
    tokens = sum(len(target) + 1 for _, target in unseen)
    alone = sum(
        evaluate_loss(run.model, [pair]) * (len(pair[1]) + 1) for pair in unseen
    )
    right_padded = None
    if fault in ("none", UNMASKED):
        right_padded = round(share_right(run.model, decode=padded(60)), 3)
    return {
        "fault": fault,
        "seed": seed,
        "train": round(run.train_loss, 3),
        "validation": round(evaluate_loss(run.model, unseen), 3),
        "alone": round(alone / tokens, 3),
        "right": round(share_right(run.model), 3),
        "right_padded": right_padded,
    }


def padded(count: int) -> Callable[..., Tensor]:
    """Greedy decoding with so many PADs behind every source."""

    def decode(model: torch.nn.Module, source: Tensor, *, max_length: int) -> Tensor:
        longer = F.pad(source, (0, count), value=PAD)
        return greedy_decode(model, longer, max_length=max_length)

    return decode
