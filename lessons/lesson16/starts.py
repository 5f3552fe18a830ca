"""Short trainings of the readings, and of readings begun otherwise (lesson 16).

One epoch of the toy corpus in batches of 512 tokens, then the share of new sentences
that are translated word for word.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD
from helpers.batching import IdPair
from helpers.corpus import toy_corpus
from helpers.decoding import translate_ids
from helpers.evaluation import exact_match
from helpers.training import Trainer, TrainingConfig
from helpers.transformer import Transformer, TransformerConfig
from helpers.translator.small import toy_sentences
from lessons.lesson16.readings import annotated, d2l_blocks, lengths

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 2, "dropout": 0.0}
TIED = 15  # the one length of a norm over [length, features]
TRAINING = TrainingConfig(epochs=1, tokens_per_batch=512, peak_rate=4e-3)
BUILDERS = {
    "A": annotated.parts_model,
    "B": d2l_blocks.blocks_model,
    "C": annotated.frame_model,
    "D": lengths.lengths_model,
}


def toy_config(**changes: bool) -> TransformerConfig:
    """The sizes of all runs, for the toy corpus."""
    words = toy_sentences()
    vocabularies = len(words.english), len(words.french)
    return TransformerConfig(*vocabularies, share_embeddings=False, **SIZES, **changes)


def reading(key: str) -> nn.Module:
    """A reading, "A" to "D", as `build_reading` starts it."""
    return BUILDERS[key](toy_config())


def printed_embeddings(key: str) -> nn.Module:
    """A, or C, whose stacks end in a norm; embeddings N(0, 1) as A's text has them."""
    model = reading(key)
    for embedding, _ in (model.model.src_embed, model.model.tgt_embed):
        nn.init.normal_(embedding.lut.weight)
    return model


def tied_norm() -> nn.Module:
    """B with the norm over [length, features] that it prints, for one length."""
    return Padded(d2l_blocks.blocks_model(toy_config(), norm_length=TIED), TIED)


def xavier_output(*, norm_first: bool = False) -> nn.Module:
    """The course's model, its output matrix by Xavier's rule, too, as B and C have it.

    The course draws that matrix with a deviation of 0.02; all else stays the same.
    """
    model = Transformer(toy_config(norm_first=norm_first))
    nn.init.xavier_uniform_(model.projection.weight)
    return model


def smaller_matrices(*, norm_first: bool = False) -> nn.Module:
    """The course's model, its layers' matrices times 1/√3.

    PyTorch's own draw of a square matrix has 1/√3 of the size of Xavier's.
    """
    model = Transformer(toy_config(norm_first=norm_first))
    for module in (*model.encoder.modules(), *model.decoder.modules()):
        if isinstance(module, nn.Linear):
            module.weight.data.mul_(3**-0.5)
    return model


class Padded(nn.Module):
    """A model for one length only, fed with padding up to it.

    source (batch, source_length), target (batch, target_length), both at most length.
    """

    def __init__(self, model: nn.Module, length: int):
        super().__init__()
        self.model, self.length, self.config = model, length, model.config
        self.project = model.project

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (batch, target_length, target_vocab)."""
        return self.project(self.decode(target, self.encode(source), source))

    def encode(self, source: Tensor) -> Tensor:
        """The memory (batch, length, d_model)."""
        return self.model.encode(self.fill(source))

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """States (batch, target_length, d_model)."""
        states = self.model.decode(self.fill(target), memory, self.fill(source))
        return states[:, : target.size(1)]

    def fill(self, tokens: Tensor) -> Tensor:
        """ids (batch, any length) -> (batch, length)."""
        return F.pad(tokens, (0, self.length - tokens.size(1)), value=PAD)


# Each run, and how its model is made; the first weights come from the global generator.
RUNS: dict[str, Callable[[], nn.Module]] = {
    "A, the notes": lambda: reading("A"),
    "B, the d2l reading": lambda: reading("B"),
    "C, the frame": lambda: reading("C"),
    "D, the tutorial": lambda: reading("D"),
    "A, embeddings N(0, 1)": lambda: printed_embeddings("A"),
    "C, embeddings N(0, 1)": lambda: printed_embeddings("C"),
    "B, norm over both axes": tied_norm,
    "D, softmax as printed": lambda: lengths.lengths_model(toy_config(), softmax=True),
    "course, norm last": lambda: Transformer(toy_config()),
    "course, norm first": lambda: Transformer(toy_config(norm_first=True)),
    "norm last, Xavier output": xavier_output,
    "norm first, Xavier output": lambda: xavier_output(norm_first=True),
    "norm last, matrices × 0.58": smaller_matrices,
    "norm first, matrices × 0.58": lambda: smaller_matrices(norm_first=True),
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
    return exact_match(translate_ids(model, sources, max_length=TIED), references)
