"""English and French in one sequence: models without an encoder (lesson 18).

A sentence pair becomes <bos> english => french <eos>. `WithoutEncoder` is made of the
parts of 2017, so that it differs from `WithEncoder` in what it sees, and when.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import BOS, EOS, PAD
from helpers.batching import Batch, IdPair, bucketed_batches, make_batch, pad
from helpers.decoding import inference
from helpers.encoder import Encoder
from helpers.experiments.since_2017 import RotarySelfAttention
from helpers.layers import LayerSizes
from helpers.masks import causal_mask, decoder_mask, padding_mask
from helpers.modern.language_model import LanguageModel, LanguageModelConfig
from helpers.positions import TokenEmbedding, positional_encoding
from helpers.text import Vocabulary, split_words
from helpers.training import cosine_rate
from helpers.transformer import Transformer, TransformerConfig
from helpers.translator import load_text

ARROW, LONGEST = "=>", 64
FIXED = 16  # where answers begin in some kinds: no prompt is longer
D_MODEL, N_HEADS = 64, 4
PEAK, WARM_UP = 4e-3, 0.1


# ------------------------------------------------------------ the sequences


@cache
def joint_vocabulary() -> Vocabulary:
    """The words of both languages, and the arrow between them."""
    text = load_text("toy").train
    words = {word for pair in text for side in pair for word in split_words(side)}
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


# ------------------------------------------------------------ the models


@dataclass(frozen=True)
class Said:
    """Of the tokens that count: what a model says, what is due, whose they are."""

    logits: Tensor  # (tokens, vocabulary)
    labels: Tensor  # (tokens,)
    rows: Tensor  # (tokens,), the sentence of each


@dataclass(frozen=True)
class Kind:
    """How a model is wired, placed and taught; as it stands, a plain decoder-only one.

    places: "as they come" or "answers from 16", which counts each answer's from there,
    or "moved", the prompt's too, so that the answer begins at 16. With an encoder, "on"
    counts the target's places on from the source's.
    """

    encoder: bool = False
    modern: bool = False
    everything: bool = False
    rotary: bool = False
    both_ways: bool = False
    places: str = "as they come"
    draw: int = 0


class WithEncoder(Transformer):
    """The toy translator of lesson 10, a vocabulary for each language."""

    def __init__(self, kind: Kind):
        sizes = {"d_model": D_MODEL, "n_heads": N_HEADS, "d_ff": 128, "n_layers": 2}
        sizes |= {"dropout": 0.0, "norm_first": True, "share_embeddings": False}
        counts = map(len, vocabularies())
        super().__init__(TransformerConfig(*counts, max_length=LONGEST, **sizes))
        self.kind = kind

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """The Transformer's, but for where the target's places begin."""
        places = torch.arange(target.size(1)).expand_as(target)
        if self.kind.places == "on":
            places = places + (source != PAD).sum(dim=1, keepdim=True)
        x = self.target_embedding(target) + self.positions.table[places]
        return self.decoder(x, memory, decoder_mask(target), padding_mask(source))

    def say(self, pairs: Sequence[IdPair]) -> Said:
        """Of the French tokens, with EOS."""
        batch = make_batch(pairs)
        real = batch.labels != PAD
        logits = self(batch.source, batch.decoder_input)[real]
        return Said(logits, batch.labels[real], real.nonzero()[:, 0])


class WithoutEncoder(nn.Module):
    """The encoder of 2017 with a causal mask: a decoder without cross-attention."""

    def __init__(self, kind: Kind):
        super().__init__()
        self.kind, vocab_size = kind, len(joint_vocabulary())
        sizes = {"d_model": D_MODEL, "n_heads": N_HEADS, "d_ff": 167, "dropout": 0.0}
        self.embedding = TokenEmbedding(vocab_size, D_MODEL)
        self.encoder = Encoder(4, LayerSizes(**sizes, norm_first=True))
        self.projection = nn.Linear(D_MODEL, vocab_size, bias=False)
        table = positional_encoding(LONGEST, D_MODEL) * (not kind.rotary)
        self.register_buffer("table", table, persistent=False)
        for layer in self.encoder.layers if kind.rotary else ():
            layer.self_attention = TurnedAttention(D_MODEL, N_HEADS, N_HEADS, LONGEST)
        nn.init.normal_(self.projection.weight, std=0.02)
        for module in self.encoder.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                nn.init.zeros_(module.bias)

    def say(self, pairs: Sequence[IdPair]) -> Said:
        """Of the French tokens, with EOS, or of all but BOS while it learns these."""
        joined = join(pairs)
        counted = joined.counted(everything=self.kind.everything and self.training)
        tokens, labels = joined.tokens[:, :-1], joined.tokens[:, 1:]
        counted = counted[:, 1:]
        logits = self(tokens, joined.prompts)[counted]
        return Said(logits, labels[counted], counted.nonzero()[:, 0])

    def forward(self, tokens: Tensor, prompts: Tensor) -> Tensor:
        """tokens (batch, length), the prompts' lengths (batch,) -> logits."""
        places = self.places(tokens, prompts)
        mask = causal_mask(tokens.size(1))
        if self.kind.both_ways:  # each sees the whole prompt
            columns = torch.arange(tokens.size(1))
            mask = mask | (columns < prompts[:, None])[:, None, None]
        for layer in self.encoder.layers if self.kind.rotary else ():
            layer.self_attention.places = places
        x = self.embedding(tokens) + self.table[places]
        return self.projection(self.encoder(x, mask))

    def places(self, tokens: Tensor, prompts: Tensor) -> Tensor:
        """Where each token stands, (batch, length)."""
        places = torch.arange(tokens.size(1)).expand_as(tokens)
        answer, gap = places >= prompts[:, None], (FIXED - prompts)[:, None]
        if self.kind.places == "answers from 16":
            return places + answer * gap
        if self.kind.places == "moved":
            return places + gap
        return places


class TurnedAttention(RotarySelfAttention):
    """Rotary self-attention whose rows have places of their own."""

    places: Tensor  # (batch, length), set before each call

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """MultiHeadAttention's; query and key are the same sequence."""
        key_heads, value_heads = self.project(key, value)
        query_heads = self.split_heads(self.query_projection(query))
        angles = self.angles[self.places][:, None]  # (batch, 1, length, d_head / 2)
        turned = turn(query_heads, angles), turn(key_heads, angles)
        context = F.scaled_dot_product_attention(*turned, value_heads, mask)
        return self.output_projection(context.transpose(1, 2).flatten(2))


def turn(x: Tensor, angles: Tensor) -> Tensor:
    """`rotate` for angles with axes in front: each pair as a complex number."""
    pairs = torch.complex(*x.chunk(2, dim=-1))
    pairs = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([pairs.real, pairs.imag], dim=-1)


class Modern(nn.Module):
    """The lesson's LanguageModel, of Llama's blocks."""

    def __init__(self, kind: Kind):
        super().__init__()
        self.kind = kind
        self.model = LanguageModel(modern_sizes())

    def say(self, pairs: Sequence[IdPair]) -> Said:
        """As in WithoutEncoder."""
        joined = join(pairs)
        counted = joined.counted(everything=self.kind.everything and self.training)
        counted, labels = counted[:, 1:], joined.tokens[:, 1:]
        logits = self.model(joined.tokens[:, :-1])[counted]
        return Said(logits, labels[counted], counted.nonzero()[:, 0])


def modern_sizes() -> LanguageModelConfig:
    """Those of the LanguageModel with as many parameters as the translator has."""
    return LanguageModelConfig(len(joint_vocabulary()), d_ff=115, max_length=LONGEST)


def build(kind: Kind, seed: int) -> WithEncoder | WithoutEncoder | Modern:
    """An untrained model."""
    torch.manual_seed(seed + 100 * kind.draw)
    if kind.encoder:
        return WithEncoder(kind)
    return Modern(kind) if kind.modern else WithoutEncoder(kind)


# ------------------------------------------------------------ training


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


def train(model: nn.Module, seed: int, *, steps: int, few: int | None = None) -> float:
    """Train by AdamW under a cosine; the processor's seconds that it took."""
    kind, options = model.kind, {"betas": (0.9, 0.98), "eps": 1e-9, "fused": True}
    toy_pairs("train", joint=not kind.encoder)  # is made once, and takes seconds
    data = batches(seed + 100 * kind.draw, joint=not kind.encoder, few=few)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01, **options)
    started = time.process_time()
    model.train()
    for step in range(steps):
        rate = cosine_rate((step + 1) / (steps + 1), peak=PEAK, warmup=WARM_UP)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        said = model.say(next(data))
        F.cross_entropy(said.logits, said.labels, label_smoothing=0.1).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return time.process_time() - started


def share_right(model: nn.Module, pairs: Sequence[IdPair]) -> float:
    """The share of sentences that greedy decoding writes without a mistake.

    Up to its first mistake it reads the true beginning (lesson 11), so one pass tells.
    """
    right = torch.ones(len(pairs), dtype=torch.bool)
    with inference(model):
        said = model.say(pairs)
        missed = said.rows[said.logits.argmax(dim=-1) != said.labels]
    right[missed] = False
    return right.double().mean().item()
