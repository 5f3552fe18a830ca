"""Does a model without an encoder translate as well as the one of 2017, and how soon?

All have about 227,000 parameters and read the same sentences in the same order.
"Nothing changed" is the encoder-decoder with other first weights and another order. The
table holds, on the way through 500 steps, the share of 1,000 test sentences that are
translated without a mistake, and the processor's seconds of training so far.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import torch

from lessons.lesson18.one_sequence import toy_pairs
from lessons.lesson18.with_or_without_encoder import Kind, build, train

SEEDS, STEPS, EVERY = range(5), 500, 50
KINDS = {
    "encoder-decoder": Kind(encoder=True),
    "nothing changed": Kind(encoder=True, draw=1),
    "decoder-only": Kind(),
    "decoder-only, Llama's blocks": Kind(modern=True, small_weights=True),
    "decoder-only, loss on everything": Kind(everything=True),
}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """Rows for each kind, seed and look; `tiny`: one seed, 4 steps."""
    if tiny:
        for name in KINDS:
            yield from looks((name, 0), steps=4, every=2, few=400)
        return
    grid = product(KINDS, SEEDS)
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(2, mp_context=context, **one_thread) as pool:
        for found in pool.map(looks, grid):
            yield from found


def looks(
    which: tuple[str, int],
    *,
    steps: int = STEPS,
    every: int = EVERY,
    few: int | None = None,
) -> list[dict]:
    """The rows of one training run of a kind and seed; `few` cuts the data down."""
    name, seed = which
    kind = KINDS[name]
    model = build(kind, seed)
    test = toy_pairs("test", joint=not kind.encoder)[:few]
    return [
        {
            "kind": name,
            "seed": seed,
            "parameters": sum(p.numel() for p in model.parameters()),
            "steps": look.steps,
            "seconds": round(look.seconds, 1),
            "right": round(look.right, 4),
        }
        for look in train(model, seed, test, steps=steps, every=every, few=few)
    ]
