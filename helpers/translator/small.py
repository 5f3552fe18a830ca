"""The toy corpus as ids, and the Transformer that lessons 08 to 12 train on it."""

from dataclasses import dataclass
from functools import cache

import torch

from helpers.batching import IdPair
from helpers.corpus import toy_corpus
from helpers.corpus.alignments import SentencePair
from helpers.text import Vocabulary
from helpers.transformer import Transformer, TransformerConfig


@dataclass(frozen=True)
class Sentences:
    """The toy corpus as ids, with a vocabulary for each language."""

    english: Vocabulary
    french: Vocabulary
    train: list[IdPair]  # 24,000 pairs
    validation: list[IdPair]  # 1,000


@cache
def toy_sentences() -> Sentences:
    """All training and validation sentences of the toy corpus."""
    corpus = toy_corpus()
    english = Vocabulary.from_texts(pair.source for pair in corpus.train)
    targets = (pair.target for pair in corpus.train)
    french = Vocabulary.from_texts(targets, space_before="?")

    def encode(pairs: list[SentencePair]) -> list[IdPair]:
        return [(english.encode(p.source), french.encode(p.target)) for p in pairs]

    return Sentences(english, french, encode(corpus.train), encode(corpus.validation))


# The one configuration of lessons 08 to 12, which lesson 10 trains.
TOY_SIZES = {
    "d_model": 64,
    "n_heads": 4,
    "d_ff": 128,
    "n_layers": 2,
    "dropout": 0.0,
    "max_length": 128,
}


def toy_config(**changes) -> TransformerConfig:
    """The Transformer of lessons 08 to 12: these sizes, norm first, nothing shared."""
    words = toy_sentences()
    options = {"norm_first": True, "share_embeddings": False} | TOY_SIZES | changes
    return TransformerConfig(len(words.english), len(words.french), **options)


def small_transformer(seed: int = 0, **changes) -> Transformer:
    """A Transformer for these sentences: 64 features, one layer a side, norm first."""
    config = toy_config(**{"n_layers": 1, "max_length": 64} | changes)
    torch.manual_seed(seed)
    return Transformer(config)
