"""How well does lesson 10's translator do, and how much of that is the seed?

The toy recipe with three seeds, scored on new sentences (`test`) and on new
combinations of known words (`compositional`).
"""

import time
from collections.abc import Iterator
from dataclasses import replace

from helpers.corpus import toy_corpus
from helpers.evaluation import exact_match
from helpers.training import Trainer, TrainingConfig
from helpers.translator.model import Translator
from helpers.translator.recipes import RECIPES, build, load_text, with_seed

SEEDS = (0, 1, 2)


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each seed and split; `tiny` trains on a handful of sentences."""
    for seed in SEEDS[:1] if tiny else SEEDS:
        recipe = with_seed(RECIPES["toy"], seed)
        translator = build(recipe, load_text("toy"))
        for row in train_and_score(translator, recipe.training, tiny=tiny):
            yield {"seed": seed, **row}


def train_and_score(
    translator: Translator, training: TrainingConfig, *, tiny: bool = False
) -> Iterator[dict]:
    """Train a translator on the toy corpus; a row for each of the two splits.

    exact_match is a share from 0 to 1, validation_loss in nats a token, and cpu_seconds
    what the training took of a processor, which other work beside it hardly changes.
    """
    text, corpus, few = load_text("toy"), toy_corpus(), 4 if tiny else None
    pairs = translator.encode_pairs(text.train[:few])
    checked = translator.encode_pairs(text.validation[:few])
    if tiny:
        training = replace(training, epochs=1)
    trainer = Trainer(translator.model, pairs, checked, training)
    started = time.process_time()
    trainer.fit()
    cpu_seconds = time.process_time() - started
    for split in ("test", "compositional"):
        chosen = getattr(corpus, split)[:few]
        outputs = translator.translate([pair.source for pair in chosen])
        yield {
            "split": split,
            "exact_match": exact_match(outputs, [pair.target for pair in chosen]),
            "validation_loss": round(trainer.reports[-1].validation_loss, 4),
            "cpu_seconds": round(cpu_seconds, 1),
        }
