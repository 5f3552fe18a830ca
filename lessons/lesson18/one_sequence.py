"""English and French in one sequence: <bos> english => french <eos> (lesson 18)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from helpers import BOS, EOS, PAD
from helpers.batching import Batch, IdPair, bucketed_batches, pad
from helpers.modern.language_model import LanguageModelConfig
from helpers.text import Vocabulary, split_words
from helpers.translator import load_text

ARROW, LONGEST = "=>", 64


@cache
def joint_vocabulary() -> Vocabulary:
    """The words of both languages, and the arrow between them."""
    pairs = load_text("toy").train
    words = {word for pair in pairs for side in pair for word in split_words(side)}
    return Vocabulary([ARROW, *sorted(words)], space_before=f"?{ARROW}")


@cache
def vocabularies() -> tuple[Vocabulary, Vocabulary]:
    """One for each language."""
    sources, targets = zip(*load_text("toy").train, strict=True)
    return Vocabulary.from_texts(sources), Vocabulary.from_texts(targets)


@cache
def toy_pairs(split: str, *, joint: bool = True) -> list[IdPair]:
    """The pairs of a split as ids, of the joint vocabulary or of one each."""
    english, french = (joint_vocabulary(),) * 2 if joint else vocabularies()
    pairs = getattr(load_text("toy"), split)
    return [(english.encode(source), french.encode(target)) for source, target in pairs]


@dataclass(frozen=True)
class Joined:
    """Pairs as sequences: tokens (batch, length), and how long each prompt is."""

    tokens: Tensor
    prompts: Tensor

    def counted(self, *, everything: bool = False) -> Tensor:
        """Which tokens the loss counts, (batch, length): answers, or all but BOS."""
        places = torch.arange(self.tokens.size(1))
        begin = torch.ones_like(self.prompts) if everything else self.prompts
        return (places >= begin[:, None]) & (self.tokens != PAD)


def join(pairs: Sequence[IdPair]) -> Joined:
    """Pairs of ids as sequences <bos> english => french <eos>, padded behind."""
    prompts = [prompt_of(source) for source, _ in pairs]
    rows = [[*p, *t, EOS] for p, (_, t) in zip(prompts, pairs, strict=True)]
    return Joined(pad(rows), torch.tensor([len(prompt) for prompt in prompts]))


def prompt_of(source: Sequence[int]) -> list[int]:
    """What the model reads before it writes: <bos> english =>."""
    return [BOS, *source, joint_vocabulary().ids[ARROW]]


def modern_sizes() -> LanguageModelConfig:
    """Those of the LanguageModel with as many parameters as the translator has."""
    return LanguageModelConfig(len(joint_vocabulary()), d_ff=115, max_length=LONGEST)


def batches(seed: int, *, joint: bool, few: int | None = None) -> Iterator[list]:
    """Lists of pairs with 1,024 French tokens together, epoch upon epoch."""
    pairs = toy_pairs("train", joint=joint)[:few]
    generator = torch.Generator().manual_seed(seed)
    while True:
        for batch in bucketed_batches(
            pairs, tokens_per_batch=1024, generator=generator
        ):
            yield pairs_of(batch)


def pairs_of(batch: Batch) -> list[IdPair]:
    """The pairs of ids that a batch holds."""
    special = {PAD, BOS, EOS}
    return [
        tuple([i for i in row if i not in special] for row in pair)
        for pair in zip(batch.source.tolist(), batch.target.tolist(), strict=True)
    ]
