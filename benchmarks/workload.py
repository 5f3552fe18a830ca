"""What the benchmarks work on: sizes, sentences, models, data."""

import os
from dataclasses import dataclass
from pathlib import Path

import torch

from helpers.batching import IdPair
from helpers.multi30k import DataError, ParallelText
from helpers.runtime import best_device
from helpers.training import Trainer
from helpers.transformer import Transformer, TransformerConfig
from helpers.translator import (
    CACHE,
    MODEL_FILE,
    RECIPES,
    Translator,
    build,
    fingerprint,
    load_text,
    trained_toy,
    with_seed,
)

# (source, target) tokens with EOS of 64 sentence pairs that stand for Multi30k's 29,000
# in German and English with 4,000 subwords: sorted by target and source length, the
# middles of 64 equal parts. They have 17.6 and 16.6 tokens on average, all have 17.7
# and 16.6.
LENGTHS = (
    *((8, 8), (8, 9), (11, 9), (9, 10), (11, 10), (14, 10), (10, 11), (11, 11)),
    *((13, 11), (16, 11), (11, 12), (12, 12), (13, 12), (14, 12), (19, 12), (12, 13)),
    *((13, 13), (14, 13), (15, 13), (17, 13), (12, 14), (13, 14), (14, 14), (16, 14)),
    *((17, 14), (8, 15), (14, 15), (15, 15), (16, 15), (17, 15), (19, 15), (13, 16)),
    *((15, 16), (17, 16), (18, 16), (20, 16), (14, 17), (16, 17), (18, 17), (20, 17)),
    *((24, 17), (17, 18), (19, 18), (21, 18), (25, 18), (18, 19), (20, 19), (22, 19)),
    *((16, 20), (20, 20), (23, 20), (18, 21), (22, 21), (29, 21), (22, 22), (29, 22)),
    *((24, 23), (21, 24), (30, 24), (30, 25), (32, 26), (26, 28), (29, 30), (28, 35)),
)


@dataclass(frozen=True)
class Sizes:
    """How large the comparisons are, and how often each is repeated."""

    d_model: int = 128
    d_ff: int = 512
    n_layers: int = 3
    n_heads: int = 4
    vocabulary: int = 4_000
    sentences: int = 64
    steps: int = 15  # training steps a side, each timed
    checked_steps: int = 5  # of equal losses
    pairs: int = 29_000  # of the epoch
    shares: int = 6  # of the epoch that are timed, each one in `share` batches
    share: int = 40
    decoded: int = 1_000
    starts: int = 9  # fresh processes a side


FULL = Sizes()
TINY = Sizes(
    d_model=16,
    d_ff=32,
    n_layers=1,
    n_heads=2,
    vocabulary=50,
    sentences=8,
    steps=2,
    checked_steps=3,
    pairs=400,
    shares=2,
    share=4,
    decoded=20,
    starts=1,
)


def sentence_pairs(number: int, vocabulary: int) -> list[IdPair]:
    """Pairs of random ids with LENGTHS over and over: equal shares of every length.

    Fewer than all are spread over the lengths.
    """
    generator = torch.Generator().manual_seed(0)
    pairs = []
    for i in range(number):
        step = len(LENGTHS) / min(number, len(LENGTHS))
        lengths = LENGTHS[int(i * step) % len(LENGTHS)]
        # EOS is added when the batch is made.
        sides = (
            torch.randint(4, vocabulary, (n - 1,), generator=generator).tolist()
            for n in lengths
        )
        pairs.append(tuple(sides))
    return pairs


def new_model(sizes: Sizes, *, dropout: float) -> Transformer:
    """The same weights at every call; norm last and nothing shared, as the rivals."""
    torch.manual_seed(0)
    config = TransformerConfig(
        sizes.vocabulary,
        sizes.vocabulary,
        d_model=sizes.d_model,
        n_heads=sizes.n_heads,
        d_ff=sizes.d_ff,
        n_layers=sizes.n_layers,
        dropout=dropout,
        share_embeddings=False,
    )
    return Transformer(config).to(best_device())


@dataclass(frozen=True)
class Data:
    """What the rows about real sentences work on."""

    name: str  # of the sentences to decode
    translator: Translator
    sources: list[list[int]]
    epoch_name: str
    epoch_model: Transformer
    pairs: list[IdPair]  # of the epoch


def load_data(folder: str | None, model: str | None, minutes: float) -> Data:
    """Multi30k and a translator for it, or the toy corpus and the toy translator.

    model is a folder that `helpers.translator train` wrote, CheckpointError if not.
    Without one a translator is trained for so many minutes, and kept for the next call:
    its sentences are no good, but about as long as they should be, which is what
    decoding costs.
    """
    try:
        if not (folder or os.environ.get("COURSE_DATA")):
            raise DataError("no folder is given")
        text = load_text("multi30k", folder)
    except DataError:
        return toy_data()
    if model:
        path = Path(model)
        translator = Translator.load(path / MODEL_FILE if path.is_dir() else path)
    else:
        translator = trained_for(text, minutes)
    translator.model.to(best_device())
    pairs = translator.encode_pairs(text.train)
    sources = [translator.source_text.encode(source) for source, _ in text.test]
    name, config = "Multi30k", translator.model.config
    return Data(name, translator, sources, name, Transformer(config), pairs)


def toy_data(pairs: int = 29_000, vocabulary: int = 4_000) -> Data:
    """The toy corpus to decode, and an epoch of random ids with Multi30k's LENGTHS."""
    translator, text = trained_toy(), load_text("toy")
    translator.model.to(best_device())
    sources = [translator.source_text.encode(source) for source, _ in text.test]
    recipe = RECIPES["multi30k"].model
    config = TransformerConfig(vocabulary, vocabulary, norm_first=True, **recipe)
    made = sentence_pairs(pairs, vocabulary)
    epoch = ("made pairs", Transformer(config), made)
    return Data("toy corpus", translator, sources, *epoch)


def trained_for(text: ParallelText, minutes: float) -> Translator:
    """Multi30k's recipe with that budget; loaded when the same was trained before."""
    recipe = with_seed(RECIPES["multi30k"], 0, minutes=minutes, epochs=None)
    path = CACHE / f"bench-{fingerprint(recipe)}.safetensors"
    if path.exists():
        return Translator.load(path)
    translator = build(recipe, text)
    translator.model.to(best_device())
    pairs = translator.encode_pairs(text.train)
    checked = translator.encode_pairs(text.validation)
    Trainer(translator.model, pairs, checked, recipe.training).fit()
    translator.save(path)
    return translator
