"""What is each part of lesson 10's translator worth in a short training?

One part is changed at a time, with five seeds, and the line "nothing
changed" says how much the seed alone changes.
"""

from collections.abc import Iterator

from helpers.corpus import toy_corpus
from helpers.evaluation import exact_match
from lessons.lesson10.recipe_parts import CHANGES, short_run

SEEDS = range(5)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each change and seed; `tiny`: one seed, a few sentences."""
    few = 40 if tiny else None
    pairs = toy_corpus().test[:few]
    references = [pair.target for pair in pairs]
    for seed in SEEDS[:1] if tiny else SEEDS:
        for name, change in CHANGES.items():
            translator, steps = short_run(seed=seed, few=few, **change)
            outputs = translator.translate([p.source for p in pairs], max_length=40)
            right = exact_match(outputs, references)
            yield {"change": name, "seed": seed, "steps": steps, "right": right}
