"""Why does lesson 10's translator fail on "some good soup"?

The toy recipe, trained on all sentences; without those that have "de" right before an
adjective ("de bons gâteaux"); and without as many others that hold such an adjective.
"""

from collections.abc import Iterator
from random import Random

from helpers.corpus import toy_corpus
from helpers.training import Trainer
from helpers.translator.recipes import RECIPES, build, load_text, with_seed
from lessons.lesson10.adjectives import (
    TextPair,
    has_adjective_before,
    has_de_adjective,
    new_sentences,
)

SEEDS = range(3)
LEFT_OUT = ("nothing", "de + adjective", "as many others")


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for what is left out, each seed and food; `tiny`: few sentences."""
    for seed in SEEDS[:1] if tiny else SEEDS:
        for left_out in LEFT_OUT:
            yield from measured(left_out, seed, tiny=tiny)


def measured(left_out: str, seed: int, *, tiny: bool = False) -> Iterator[dict]:
    """How many sentences about each food are wrong, and how many have "de" there."""
    text, recipe = load_text("toy"), with_seed(RECIPES["toy"], seed)
    translator = build(recipe, text)
    trained_on = kept(text.train, left_out, seed)[: 60 if tiny else None]
    checked = translator.encode_pairs(text.validation[: 8 if tiny else None])
    pairs = translator.encode_pairs(trained_on)
    Trainer(translator.model, pairs, checked, recipe.training).fit()
    for food, asked in new_sentences(toy_corpus().train).items():
        sources, due = zip(*asked[: 4 if tiny else None], strict=True)
        outputs = translator.translate(sources)
        wrong = sum(a != b for a, b in zip(outputs, due, strict=True))
        de = sum(map(has_de_adjective, outputs))
        where = {"left_out": left_out, "seed": seed, "food": food}
        yield {**where, "wrong": wrong, "de": de, "n": len(due)}


def kept(train: list[TextPair], left_out: str, seed: int) -> list[TextPair]:
    """The training sentences but for what is left out; `seed` draws the others."""
    marked = [pair for pair in train if has_de_adjective(pair[1])]
    others = [
        pair
        for pair in train
        if has_adjective_before(pair[1]) and not has_de_adjective(pair[1])
    ]
    gone = {
        "nothing": set(),
        "de + adjective": {*marked},
        "as many others": {*Random(seed).sample(others, len(marked))},
    }[left_out]
    return [pair for pair in train if pair not in gone]
