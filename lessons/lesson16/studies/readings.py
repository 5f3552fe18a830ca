"""How well do lesson 16's readings translate after one epoch of English and French?

402 steps on the toy corpus with three seeds: the readings as built, and two of them
with something as their texts have it.
"""

from collections.abc import Iterator

from lessons.lesson16 import starts

SEEDS = range(3)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each run and seed; `tiny` trains each on a few sentences, once."""
    few = starts.new_sentences()[:4] if tiny else None
    for name in starts.RUNS:
        for seed in SEEDS[:1] if tiny else SEEDS:
            model = starts.train(name, seed, pairs=few)
            yield {"run": name, "seed": seed, "right": starts.score(model, few)}
