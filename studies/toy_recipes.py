"""What do label smoothing and dropout change for lesson 10's translator?

The toy recipe, without its label smoothing, and with dropout, with up to five seeds.
Scored on new sentences, on new combinations of known words, and on sentences about food
that differ in one word (`helpers.soup`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from helpers.corpus import toy_corpus
from helpers.soup import FOODS, TextPair, food_sentences, with_food
from helpers.training import Trainer
from helpers.translator.model import Translator
from helpers.translator.recipes import RECIPES, Recipe, build, load_text, with_seed

RECIPE = RECIPES["toy"]
CHANGED = {
    "as it is": RECIPE,
    "no smoothing": replace(
        RECIPE, training=replace(RECIPE.training, label_smoothing=0.0)
    ),
    "dropout 0.1": replace(RECIPE, model={**RECIPE.model, "dropout": 0.1}),
}
SEEDS = {"as it is": range(5), "no smoothing": range(5), "dropout 0.1": range(2)}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each recipe, seed and set of sentences; `tiny`: a few, one seed."""
    for seed in range(1 if tiny else 5):
        for name, recipe in CHANGED.items():
            if seed in SEEDS[name]:
                translator, loss = trained(with_seed(recipe, seed), few=tiny)
                for row in scores(translator, few=tiny):
                    yield {"recipe": name, "seed": seed, "loss": loss, **row}


def trained(
    recipe: Recipe, added: Sequence[TextPair] = (), *, few: bool = False
) -> tuple[Translator, float]:
    """A translator trained on the corpus and what is added, and its validation loss."""
    text, some = load_text("toy"), 8 if few else None
    translator = build(recipe, text)
    pairs = translator.encode_pairs([*text.train[:some], *added])
    checked = translator.encode_pairs(text.validation[:some])
    training = replace(recipe.training, epochs=1) if few else recipe.training
    trainer = Trainer(translator.model, pairs, checked, training)
    trainer.fit()
    return translator, round(trainer.reports[-1].validation_loss, 4)


def scores(translator: Translator, *, few: bool = False) -> Iterator[dict]:
    """How many are wrong: of the test sentences, and of those about each food."""
    corpus = toy_corpus()
    chosen = {
        name: [(pair.source, pair.target) for pair in getattr(corpus, name)]
        for name in ("test", "compositional")
    }
    frames = food_sentences(corpus.train)[1::2]  # the others may be trained on
    chosen |= {food: with_food(frames, food) for food in FOODS}
    for name, pairs in chosen.items():
        sources, targets = zip(*pairs[: 4 if few else None], strict=True)
        outputs = translator.translate(sources)
        wrong = sum(a != b for a, b in zip(outputs, targets, strict=True))
        yield {"sentences": name, "wrong": wrong, "n": len(targets)}
