"""Does a model without an encoder translate as well, if both have the same remedies?

Four kinds of about 227,000 parameters learn for 500 steps from the same sentences: with
an encoder or without, and with the positions and initial weights of 2017 or of today
(rotary in all attentions, matrices and vectors of size 0.02). The table holds the share
of 1,000 test sentences that are translated without a mistake.
"""

from collections.abc import Iterator
from itertools import product

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
    steps, few = (2, 400) if tiny else (STEPS, None)
    for parts, kind, seed in product(PARTS, KINDS, SEEDS[:1] if tiny else SEEDS):
        model = build(KINDS[kind], seed, today=PARTS[parts])
        train(model, seed, steps=steps, few=few)
        right = round(share_right(model, few=few), 4)
        yield {"parts": parts, "kind": kind, "seed": seed, "right": right}
