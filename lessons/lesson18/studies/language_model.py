"""Does a model without an encoder translate as well, if both have the same remedies?

Four kinds of about 227,000 parameters learn for 500 steps from the same sentences: with
an encoder or without, and with the positions and initial weights of 2017 or of today
(rotary in all attentions, matrices and vectors of size 0.02). The table holds the share
of 1,000 test sentences that are translated without a mistake.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import torch

from lessons.lesson18.with_or_without_encoder import (
    WithEncoder,
    WithoutEncoder,
    build,
    share_right,
    train,
)

SEEDS, STEPS = range(3), 500
KINDS = {"encoder-decoder": WithEncoder, "decoder-only": WithoutEncoder}
PARTS = {"of 2017": False, "of today": True}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each kind, parts and seed; `tiny`: one seed, two steps."""
    if tiny:
        yield from (measured((*which, 0), steps=2, few=400) for which in every_kind())
        return
    grid = [(*which, seed) for which, seed in product(every_kind(), SEEDS)]
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(2, mp_context=context, **one_thread) as pool:
        yield from pool.map(measured, grid)


def every_kind() -> Iterator[tuple[str, str]]:
    """The parts, and with or without an encoder."""
    return product(PARTS, KINDS)


def measured(
    which: tuple[str, str, int], *, steps: int = STEPS, few: int | None = None
) -> dict:
    """The row of one training run; `few` cuts the data down."""
    parts, kind, seed = which
    model = build(KINDS[kind], seed, today=PARTS[parts])
    train(model, seed, steps=steps, few=few)
    right = round(share_right(model, few=few), 4)
    return {"parts": parts, "kind": kind, "seed": seed, "right": right}
