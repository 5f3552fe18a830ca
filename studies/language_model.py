"""Does a model without an encoder translate as well as the one of 2017?

All have about 227,000 parameters and read the same sentences in the same order, 300
batches of them. "Nothing changed" is the encoder-decoder with other first weights and
another order. "Encoder-decoder, as long" gets 490 batches, which take about as long as
300 of the decoder-only model. The table holds the share of 1,000 test sentences that
are translated without a mistake.
"""

from collections.abc import Iterator

from helpers.experiments.one_sequence import Kind, build, share_right, toy_pairs, train

SEEDS, STEPS, AS_LONG = range(5), 300, 490
KINDS = {
    "encoder-decoder": Kind(encoder=True),
    "nothing changed": Kind(encoder=True, draw=1),
    "encoder-decoder, as long": Kind(encoder=True),
    "decoder-only, loss on everything": Kind(everything=True),
    "decoder-only, loss on the answer": Kind(),
    "Llama's blocks, loss on the answer": Kind(modern=True),
}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each kind and seed; `tiny`: one seed, 3 steps."""
    for seed in SEEDS[:1] if tiny else SEEDS:
        for name, kind in KINDS.items():
            steps = AS_LONG if name.endswith("as long") else STEPS
            steps = 3 if tiny else steps
            yield measured(name, kind, seed, steps, few=400 if tiny else None)


def measured(
    name: str, kind: Kind, seed: int, steps: int, few: int | None = None
) -> dict:
    """A row of the table: one training run."""
    model = build(kind, seed)
    seconds = train(model, seed, steps=steps, few=few)
    test = toy_pairs("test", joint=not kind.encoder)[:few]
    return {
        "kind": name,
        "seed": seed,
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": steps,
        "seconds": round(seconds, 1),
        "right": round(share_right(model, test), 4),
    }
