"""What does label smoothing change for lesson 10's translator?

The toy recipe with and without it, scored on new sentences and on new combinations of
known words.
"""

from collections.abc import Iterator
from dataclasses import replace

from helpers.corpus import toy_corpus
from helpers.training import Trainer
from helpers.translator.model import Translator
from helpers.translator.recipes import RECIPES, Recipe, build, load_text, with_seed

RECIPE = RECIPES["toy"]
CHANGED = {
    "as it is": RECIPE,
    "no smoothing": replace(
        RECIPE, training=replace(RECIPE.training, label_smoothing=0.0)
    ),
}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each recipe, seed and set of sentences; `tiny`: a few, one seed."""
    for seed in range(1 if tiny else 5):
        for name, recipe in CHANGED.items():
            translator, loss = trained(with_seed(recipe, seed), few=tiny)
            for row in scores(translator, few=tiny):
                yield {"recipe": name, "seed": seed, "loss": loss, **row}


def trained(recipe: Recipe, *, few: bool = False) -> tuple[Translator, float]:
    """A translator trained on the corpus, and its validation loss."""
    text, some = load_text("toy"), 8 if few else None
    translator = build(recipe, text)
    pairs = translator.encode_pairs(text.train[:some])
    checked = translator.encode_pairs(text.validation[:some])
    training = replace(recipe.training, epochs=1) if few else recipe.training
    trainer = Trainer(translator.model, pairs, checked, training)
    trainer.fit()
    return translator, round(trainer.reports[-1].validation_loss, 4)


def scores(translator: Translator, *, few: bool = False) -> Iterator[dict]:
    """How many sentences are wrong: new ones, and new combinations of words."""
    corpus = toy_corpus()
    for name in ("test", "compositional"):
        pairs = getattr(corpus, name)[: 4 if few else None]
        outputs = translator.translate([pair.source for pair in pairs])
        wrong = sum(
            output != pair.target for output, pair in zip(outputs, pairs, strict=True)
        )
        yield {"sentences": name, "wrong": wrong, "n": len(pairs)}
