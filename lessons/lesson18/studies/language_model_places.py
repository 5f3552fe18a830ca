"""What makes a decoder-only translator of 2017's parts slow to learn?

The decoder-only model of the study language_model, trained for 300 steps, with one
thing changed, or two. "Another draw" has other first weights and another order of the
sentences; all other rows of a seed share these. "Answers from 16" counts the places of
each answer from 16 on, whatever the prompt's length. "Both ways" lets the tokens of a
prompt see each other. "Rotary" turns queries and keys instead of adding sinusoids.
"Small" first weights are those of the lesson's LanguageModel, so that a token's vector
starts with numbers of size 0.02; small sinusoids have that size, too, not 0.71.

Some kinds have 500 steps, as in the study language_model: with an encoder, too, and
rotary positions in all its attentions, or at twice the rate.
"""

import math
import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import torch

from lessons.lesson18.one_sequence import toy_pairs
from lessons.lesson18.with_or_without_encoder import Kind, build, train

SEEDS, STEPS, MORE = range(3), 300, 500
SMALL = 0.02 * math.sqrt(2)
BEST = "rotary, small first weights"
KINDS = {
    "as it is": Kind(),
    "another draw": Kind(draw=1),
    "both ways": Kind(both_ways=True),
    "answers from 16": Kind(places="answers from 16"),
    "rotary": Kind(rotary=True),
    "small first weights": Kind(small_weights=True),
    "small weights and sinusoids": Kind(small_weights=True),
    BEST: Kind(rotary=True, small_weights=True),
    "Llama's blocks": Kind(modern=True, small_weights=True),
    "Llama's blocks, 2017's first weights": Kind(modern=True),
}
WITH = "encoder-decoder, "
TWICE = {"rate": 2 * Kind.rate}
LONGER = {
    BEST: KINDS[BEST],
    WITH + "small first weights": Kind(encoder=True, small_weights=True),
    WITH + BEST: Kind(encoder=True, rotary=True, small_weights=True),
    "twice the rate": Kind(**TWICE),
    WITH + "twice the rate": Kind(encoder=True, **TWICE),
}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """Rows for each kind, seed and number of steps; `tiny`: one seed, few steps."""
    runs = [(name, STEPS) for name in KINDS] + [(name, MORE) for name in LONGER]
    if tiny:
        yield from (measured((name, 0, n // 100), few=400) for name, n in runs)
        return
    grid = [(name, seed, steps) for (name, steps), seed in product(runs, SEEDS)]
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(2, mp_context=context, **one_thread) as pool:
        yield from pool.map(measured, grid)


def measured(which: tuple[str, int, int], *, few: int | None = None) -> dict:
    """The row of one training run of a kind, a seed and so many steps."""
    name, seed, steps = which
    kind = (KINDS | LONGER)[name]
    model = build(kind, seed)
    if name == "small weights and sinusoids":
        model.table *= SMALL
    test = toy_pairs("test", joint=not kind.encoder)[:few]
    (look,) = train(model, seed, test, steps=steps, every=steps, few=few)
    return {
        "kind": name,
        "seed": seed,
        "steps": look.steps,
        "seconds": round(look.seconds, 1),
        "right": round(look.right, 4),
    }
