"""Translators with a fault, trained for seconds on short sentences (lesson 15)."""

from collections.abc import Callable, Sequence
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
from helpers.training import EpochReport, Trainer
from helpers.transformer import Transformer
from helpers.translator.small import Sentences, toy_config, toy_sentences

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


class NoSource(Transformer):
    """A Transformer that is given the same word in place of every source."""

    def encode(self, source: Tensor) -> Tensor:
        """The memory of one end mark."""
        return super().encode(torch.full_like(source[:, :1], EOS))

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """As Transformer's, with a memory of one place."""
        return super().decode(target, memory, torch.ones_like(source[:, :1]))


# --- Short sentences, and a short training --------------------------------------------


@cache
def short_sentences() -> Sentences:
    """Pairs whose source has at most five words, the full stop counted.

    2,600 to train on, and 335 held out, of which 100 are looked at after each epoch.
    """
    corpus, words = toy_corpus(), toy_sentences()

    def short(pairs: Sequence[SentencePair]) -> list[IdPair]:
        chosen = [pair for pair in pairs if pair.source.count(" ") < 4]
        encode = (words.english.encode, words.french.encode)
        return [(encode[0](pair.source), encode[1](pair.target)) for pair in chosen]

    held_out = short([*corpus.validation, *corpus.test])
    return Sentences(words.english, words.french, short(corpus.train)[:2600], held_out)


def train_short(
    kind: type[Transformer] = Transformer,
    *,
    damage: Callable[[Transformer], None] = lambda model: None,
    seed: int = 0,
    epochs: int = 4,
) -> tuple[Transformer, EpochReport]:
    """Train a small model of this kind, damaged before; its last epoch's report."""
    words = short_sentences()
    torch.manual_seed(seed)
    model = kind(toy_config(n_layers=1))
    damage(model)
    training = TrainingConfig(seed=seed, epochs=epochs, **BUDGET)
    *_, report = Trainer(model, words.train, words.validation[:100], training).fit()
    return model.eval(), report


def share_right(model: Transformer, **way) -> float:
    """The share of held-out sentences that are translated exactly, greedily."""
    sources, targets = zip(*short_sentences().validation, strict=True)
    return exact_match(translate_ids(model, sources, max_length=20, **way), targets)


def translations(model: Transformer) -> list[tuple[str, str, str]]:
    """(source, what is said, what is due) for each held-out pair, as texts."""
    words = short_sentences()
    sources, targets = zip(*words.validation, strict=True)
    said = translate_ids(model, sources, max_length=20)
    spelt = [map(words.english.decode, sources)]
    spelt += [map(words.french.decode, ids) for ids in (said, targets)]
    return [*zip(*spelt, strict=True)]
