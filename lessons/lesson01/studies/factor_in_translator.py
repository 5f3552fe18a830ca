"""Does the toy translator of lesson 10 need the factor √d_model of its embeddings?

The factor does two things: the features of a word start √64 = 8 times larger, and each
step of training moves them 8 times as far. The toy recipe with and without each of the
two; without the factor, also with positions divided or multiplied by 8. Nothing else
differs; the output has a matrix of its own. All runs have the recipe's own learning
rate, and three epochs of its seven.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import nn

from helpers.corpus import toy_corpus
from helpers.evaluation import exact_match
from helpers.training import Trainer
from helpers.transformer import Transformer
from helpers.translator.recipes import RECIPES, build, load_text, with_seed

SEEDS, EPOCHS = range(3), 3
WAYS = {  # the size of a word's features at the start; the factor; the positions
    "words 1, factor": (1, True, 1),
    "words 1": (1, False, 1),
    "words 1/8, factor": (1 / 8, True, 1),
    "words 1/8": (1 / 8, False, 1),
    "words 1/8, positions / 8": (1 / 8, False, 1 / 8),
    "words 1, positions × 8": (1, False, 8),
}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each way and seed; `tiny` trains one of each on a few sentences."""
    for seed in SEEDS[:1] if tiny else SEEDS:
        for way in [*WAYS][:1] if tiny else WAYS:
            yield {"way": way, "seed": seed, **train(way, seed, tiny=tiny)}


def change(model: Transformer, way: str) -> None:
    """Give a new model the words' start, the factor and the positions of a way."""
    start, factor, positions = WAYS[way]
    model.positions.table.mul_(positions)
    for embedding in (model.source_embedding, model.target_embedding):
        root = math.sqrt(embedding.embedding_dim)
        # The course's own start has size 1 after its factor.
        embedding.weight.data *= start * (1 if factor else root)
        if not factor:
            embedding.register_forward_hook(divided)


def divided(embedding: nn.Embedding, _: tuple, output: torch.Tensor) -> torch.Tensor:
    """What an embedding gives without its factor."""
    return output / math.sqrt(embedding.embedding_dim)


def train(way: str, seed: int, *, tiny: bool) -> dict:
    """Train a translator in one way: how well it does, and how its words have grown.

    `right` is the share of new sentences (`test`) that get the expected translation,
    `loss` that of the validation sentences in nats a token; `grown` says how many times
    larger the root mean square of the source embedding has become.
    """
    recipe, text = with_seed(RECIPES["toy"], seed), load_text("toy")
    training = replace(recipe.training, epochs=1 if tiny else EPOCHS)
    few = 4 if tiny else None
    translator = build(recipe, text)
    change(translator.model, way)
    weight = translator.model.source_embedding.weight
    before = weight.square().mean().sqrt().item()
    pairs = translator.encode_pairs(text.train[:few])
    checked = translator.encode_pairs(text.validation[:few])
    trainer = Trainer(translator.model, pairs, checked, training)
    trainer.fit()
    chosen = toy_corpus().test[:few]
    outputs = translator.translate([pair.source for pair in chosen])
    return {
        "right": round(exact_match(outputs, [pair.target for pair in chosen]), 4),
        "loss": round(trainer.reports[-1].validation_loss, 4),
        "grown": round(weight.square().mean().sqrt().item() / before, 2),
    }
