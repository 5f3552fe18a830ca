"""Short trainings of the readings, and of two with a text's own choice (lesson 16).

One epoch of the toy corpus in batches of 512 tokens, then the share of new sentences
that are translated word for word.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import torch
from torch import nn

from helpers.batching import IdPair
from helpers.corpus import toy_corpus
from helpers.decoding import translate_ids
from helpers.evaluation import exact_match
from helpers.training import Trainer, TrainingConfig
from helpers.transformer import TransformerConfig
from helpers.translator.small import toy_sentences
from lessons.lesson16.readings import annotated, d2l_blocks, lengths, pure_attention

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 2, "dropout": 0.0}
LONGEST = 15  # tokens of a translation
TRAINING = TrainingConfig(epochs=1, tokens_per_batch=512, peak_rate=4e-3)
BUILDERS = {
    "A": annotated.parts_model,
    "B": d2l_blocks.blocks_model,
    "C": annotated.frame_model,
    "D": lengths.lengths_model,
    "E": pure_attention.AttentionOnlyTranslator,
}


def toy_config() -> TransformerConfig:
    """The sizes of all runs, for the toy corpus."""
    words = toy_sentences()
    vocabularies = len(words.english), len(words.french)
    return TransformerConfig(*vocabularies, share_embeddings=False, **SIZES)


def reading(key: str) -> nn.Module:
    """A reading, "A" to "E", as it is built here."""
    return BUILDERS[key](toy_config())


def printed_embeddings() -> nn.Module:
    """A with embeddings N(0, 1), as its text has them."""
    model = reading("A")
    for embedding, _ in (model.model.src_embed, model.model.tgt_embed):
        nn.init.normal_(embedding.lut.weight)
    return model


# Each run, and how its model is made; initial weights come from the global generator.
RUNS: dict[str, Callable[[], nn.Module]] = {
    **{key: partial(reading, key) for key in BUILDERS},
    "A, embeddings N(0, 1)": printed_embeddings,
    "D, two softmaxes": lambda: lengths.lengths_model(toy_config(), softmax=True),
}


@cache
def new_sentences() -> list[IdPair]:
    """The first 500 test sentences as ids."""
    words = toy_sentences()
    return [
        (words.english.encode(pair.source), words.french.encode(pair.target))
        for pair in toy_corpus().test[:500]
    ]


def train(name: str, seed: int, *, pairs: list[IdPair] | None = None) -> nn.Module:
    """The model of one of RUNS after its epoch; `pairs` instead of the toy corpus."""
    words = toy_sentences()
    torch.manual_seed(seed)
    model = RUNS[name]()
    pairs = words.train if pairs is None else pairs
    Trainer(model, pairs, words.validation[:200], replace(TRAINING, seed=seed)).fit()
    return model


def score(model: nn.Module, pairs: list[IdPair] | None = None) -> float:
    """Share of sentences, new ones without `pairs`, translated word for word."""
    pairs = new_sentences() if pairs is None else pairs
    sources, references = [ids for ids, _ in pairs], [ids for _, ids in pairs]
    return exact_match(translate_ids(model, sources, max_length=LONGEST), references)
