"""Why does lesson 10's translator fail on "some good soup"?

The toy recipe, trained again with 25 added sentences about food: another adjective in
the same place, the same two words after another article, or no adjective at all.
"""

from collections.abc import Iterator

from helpers.corpus import toy_corpus
from helpers.soup import food_sentences, with_food
from helpers.translator.recipes import RECIPES, with_seed
from studies.toy_recipes import scores, trained

ADDED = ("some beautiful soup", "the good soup", "some soup")
SEEDS = range(3)
COUNT = 25


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for what is added, each seed and set of sentences; `tiny`: a few."""
    frames = food_sentences(toy_corpus().train)[::2]  # the others are for `scores`
    for seed in SEEDS[:1] if tiny else SEEDS:
        for added in ADDED:
            new = with_food(frames, added)[:COUNT]
            translator, _ = trained(with_seed(RECIPES["toy"], seed), new, few=tiny)
            for row in scores(translator, few=tiny):
                yield {"added": added, "seed": seed, **row}
