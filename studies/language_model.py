"""Does a model without an encoder translate as well as the one of 2017, and how soon?

All have about 227,000 parameters and read the same sentences in the same order.
"Nothing changed" is the encoder-decoder with other first weights and another order. The
table holds, on the way through 500 steps, the share of 1,000 test sentences that are
translated without a mistake, and the processor's seconds of training so far.
"""

from collections.abc import Iterator

from helpers.experiments.one_sequence import toy_pairs
from helpers.experiments.with_or_without_encoder import Kind, build, train

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
    steps, every, few = (4, 2, 400) if tiny else (STEPS, EVERY, None)
    for seed in SEEDS[:1] if tiny else SEEDS:
        for name, kind in KINDS.items():
            yield from looks(name, kind, seed, steps=steps, every=every, few=few)


def looks(
    name: str, kind: Kind, seed: int, *, steps: int, every: int, few: int | None
) -> Iterator[dict]:
    """The rows of one training run; `few` cuts the data down."""
    model = build(kind, seed)
    test = toy_pairs("test", joint=not kind.encoder)[:few]
    for look in train(model, seed, test, steps=steps, every=every, few=few):
        yield {
            "kind": name,
            "seed": seed,
            "parameters": sum(p.numel() for p in model.parameters()),
            "steps": look.steps,
            "seconds": round(look.seconds, 1),
            "right": round(look.right, 4),
        }
