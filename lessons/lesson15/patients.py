"""Translators with a fault, trained for seconds on short sentences (lesson 15)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from helpers import EOS, PAD
from helpers.batching import IdPair
from helpers.corpus import toy_corpus
from helpers.corpus.alignments import SentencePair
from helpers.decoding import translate_ids
from helpers.evaluation import exact_match
from helpers.masks import decoder_mask, padding_mask
from helpers.settings import TrainingConfig
from helpers.text import Vocabulary
from helpers.training import Trainer
from helpers.transformer import Transformer, TransformerConfig
from helpers.translator.small import toy_sentences

SIZES = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 1, "dropout": 0.0}
SIZES |= {"norm_first": True, "share_embeddings": False}
BUDGET = {"tokens_per_batch": 192, "peak_rate": 7e-3, "label_smoothing": 0.0}


# --- Both sides padded to one length --------------------------------------------------


class OneLength(Transformer):
    """A Transformer that pads both sides of a batch to one length."""

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """As Transformer's; the memory of a longer source is made here."""
        written, length = target.size(1), max(target.size(1), source.size(1))
        target, source = (
            F.pad(side, (0, length - side.size(1)), value=PAD)
            for side in (target, source)
        )
        if memory.size(1) < length:
            memory = self.encode(source)
        x = self.positions(self.target_embedding(target))
        mask = self.cross_mask(target, source)
        return self.decoder(x, memory, decoder_mask(target), mask)[:, :written]

    def cross_mask(self, target: Tensor, source: Tensor) -> Tensor:
        """What the target may see of the source."""
        return padding_mask(source)


class Patient(OneLength):
    """The same with one wrong line: lesson 15 hunts it."""

    def cross_mask(self, target: Tensor, source: Tensor) -> Tensor:
        """What the target may see of the source."""
        return padding_mask(target)


class OnlyHides(OneLength):
    """The half of the wrong mask that hides words, and shows no padding."""

    def cross_mask(self, target: Tensor, source: Tensor) -> Tensor:
        """What the target may see of the source."""
        return padding_mask(source) & padding_mask(target)


class OnlyShows(OneLength):
    """The half of the wrong mask that shows padding, and hides no word."""

    def cross_mask(self, target: Tensor, source: Tensor) -> Tensor:
        """What the target may see of the source."""
        return padding_mask(source) | padding_mask(target)


class NoSource(Transformer):
    """A Transformer that is given the same word in place of every source."""

    def encode(self, source: Tensor) -> Tensor:
        """The memory of one end mark."""
        return super().encode(torch.full_like(source[:, :1], EOS))

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """As Transformer's, with a memory of one place."""
        return super().decode(target, memory, torch.ones_like(source[:, :1]))


# --- Short sentences, and a short training --------------------------------------------


@dataclass(frozen=True)
class ShortSentences:
    """Pairs of ids whose source has at most five words, the full stop counted."""

    english: Vocabulary
    french: Vocabulary
    train: list[IdPair]  # 2,600
    held_out: list[IdPair]  # 335, of which 100 are looked at after each epoch


@cache
def short_sentences() -> ShortSentences:
    """The short sentences of the toy corpus."""
    corpus, words = toy_corpus(), toy_sentences()

    def short(pairs: Sequence[SentencePair]) -> list[IdPair]:
        chosen = [pair for pair in pairs if pair.source.count(" ") < 4]
        encode = (words.english.encode, words.french.encode)
        return [(encode[0](pair.source), encode[1](pair.target)) for pair in chosen]

    held_out = short([*corpus.validation, *corpus.test])
    return ShortSentences(
        words.english, words.french, short(corpus.train)[:2600], held_out
    )


@dataclass(frozen=True)
class Run:
    """A trained model and its losses of the last epoch, in nats."""

    model: Transformer
    train_loss: float
    validation_loss: float


def train_short(
    kind: type[Transformer] = Transformer,
    *,
    damage: Callable[[Transformer], None] = lambda model: None,
    seed: int = 0,
    epochs: int = 4,
) -> Run:
    """Train a small model of this kind, damaged before."""
    words = short_sentences()
    torch.manual_seed(seed)
    config = TransformerConfig(len(words.english), len(words.french), **SIZES)
    model = kind(config)
    damage(model)
    training = TrainingConfig(seed=seed, epochs=epochs, **BUDGET)
    *_, report = Trainer(model, words.train, words.held_out[:100], training).fit()
    return Run(model.eval(), report.train_loss, report.validation_loss)


def share_right(model: Transformer, **way) -> float:
    """The share of held-out sentences that are translated exactly, greedily."""
    words = short_sentences()
    sources = [source for source, _ in words.held_out]
    translations = translate_ids(model, sources, max_length=20, **way)
    return exact_match(translations, [target for _, target in words.held_out])


def translations(model: Transformer) -> list[tuple[str, str, str]]:
    """(source, what is said, what is due) for each held-out pair, as texts."""
    words = short_sentences()
    said = translate_ids(model, [s for s, _ in words.held_out], max_length=20)
    return [
        (
            words.english.decode(source),
            words.french.decode(out),
            words.french.decode(due),
        )
        for (source, due), out in zip(words.held_out, said, strict=True)
    ]
