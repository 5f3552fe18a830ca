"""Translators with a fault, trained for seconds on short sentences (lesson 15)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from helpers import EOS, PAD
from helpers.batching import Batch, IdPair
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


# --- A fault of document D ------------------------------------------------------------


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
        return visible(source, target)


class SidesSwapped(OneLength):
    """The same with the call that document D prints: the keys are the target's."""

    def cross_mask(self, target: Tensor, source: Tensor) -> Tensor:
        """What document D lets the target see of the source."""
        return visible(target, source)


def visible(seq_k: Tensor, seq_q: Tensor) -> Tensor:
    """True where a key is no padding, for every query: (batch, 1, seq_q, seq_k)."""
    return padding_mask(seq_k).expand(-1, -1, seq_q.size(1), -1)


class NoSource(Transformer):
    """A Transformer that is given the same word in place of every source."""

    def encode(self, source: Tensor) -> Tensor:
        """The memory of one end mark."""
        return super().encode(torch.full_like(source[:, :1], EOS))

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """As Transformer's, with a memory of one place."""
        return super().decode(target, memory, torch.ones_like(source[:, :1]))


# --- Faults of the loop ---------------------------------------------------------------


class SameWords(Batch):
    """A batch whose labels are the words that the decoder has just read."""

    @property
    def labels(self) -> Tensor:
        """The decoder's input."""
        return self.decoder_input


class Unshifted(Trainer):
    """Asks each position for the word that it reads."""

    def train_step(self, batch: Batch, progress: float) -> None:
        """A step with unshifted labels."""
        super().train_step(SameWords(batch.source, batch.target), progress)


class NeverZeroed(Trainer):
    """Adds each gradient to those of all steps before."""

    def train_step(self, batch: Batch, progress: float) -> None:
        """A step without `zero_grad`."""
        self.optimizer.zero_grad = lambda: None
        super().train_step(batch, progress)


class ShuffledApart(Trainer):
    """Gives each target its neighbour's source."""

    def train_step(self, batch: Batch, progress: float) -> None:
        """A step with the sources moved by one."""
        super().train_step(Batch(batch.source.roll(1, 0), batch.target), progress)


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
    trainer: type[Trainer] = Trainer,
    seed: int = 0,
    epochs: int = 4,
    device: torch.device | str = "cpu",
) -> Run:
    """Train a small model of this kind, damaged before."""
    words = short_sentences()
    torch.manual_seed(seed)
    config = TransformerConfig(len(words.english), len(words.french), **SIZES)
    model = kind(config).to(device)
    damage(model)
    training = TrainingConfig(seed=seed, epochs=epochs, **BUDGET)
    *_, report = trainer(model, words.train, words.held_out[:100], training).fit()
    return Run(model, report.train_loss, report.validation_loss)


def share_right(model: Transformer, **way) -> float:
    """The share of held-out sentences that are translated exactly, greedily."""
    words = short_sentences()
    sources = [source for source, _ in words.held_out]
    translations = translate_ids(model, sources, max_length=20, **way)
    return exact_match(translations, [target for _, target in words.held_out])
