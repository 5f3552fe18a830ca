"""Translators with and without an encoder, of 2017's parts and of Llama's (lesson 18).

`WithoutEncoder` is made of the parts of 2017, so that it differs from `WithEncoder` in
what it sees, and when.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD
from helpers.batching import IdPair, make_batch
from helpers.decoding import inference
from helpers.encoder import Encoder
from helpers.layers import LayerSizes
from helpers.masks import causal_mask
from helpers.modern.language_model import LanguageModel
from helpers.modern.retrofit import NoPositions, RotaryAttention
from helpers.positions import TokenEmbedding, positional_encoding
from helpers.training import cosine_rate
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson18.one_sequence import (
    LONGEST,
    batches,
    join,
    joint_vocabulary,
    modern_sizes,
    toy_pairs,
    vocabularies,
)

FIXED = 16  # where answers begin in some kinds: no prompt is longer
D_MODEL, N_HEADS = 64, 4
WARM_UP = 0.1


@dataclass(frozen=True)
class Said:
    """Of the tokens that count: what a model says, what is due, whose they are."""

    logits: Tensor  # (tokens, vocabulary)
    labels: Tensor  # (tokens,)
    rows: Tensor  # (tokens,), the sentence of each


@dataclass(frozen=True)
class Kind:
    """How a model is wired, placed and taught; as it stands, a plain decoder-only one.

    places: "as they come" or "answers from 16", which counts each answer's from there;
    with rotary, as they come.
    rotary: in place of sinusoids; with an encoder, in cross-attention, too.
    small_weights: the first weights of lesson 18's LanguageModel, otherwise those of
    lesson 08's Transformer. rate: the peak.
    """

    encoder: bool = False
    modern: bool = False
    everything: bool = False
    rotary: bool = False
    both_ways: bool = False
    places: str = "as they come"
    small_weights: bool = False
    rate: float = 4e-3
    draw: int = 0


class WithEncoder(Transformer):
    """The toy translator of lesson 10, a vocabulary for each language."""

    def __init__(self, kind: Kind):
        sizes = {"d_model": D_MODEL, "n_heads": N_HEADS, "d_ff": 128, "n_layers": 2}
        sizes |= {"dropout": 0.0, "norm_first": True, "share_embeddings": False}
        counts = map(len, vocabularies())
        super().__init__(TransformerConfig(*counts, max_length=LONGEST, **sizes))
        self.kind = kind
        if kind.rotary:
            self.positions = NoPositions()
            for layer in (*self.encoder.layers, *self.decoder.layers):
                layer.self_attention = rotary_attention()
            for layer in self.decoder.layers:
                layer.cross_attention = rotary_attention()

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
            layer.self_attention = rotary_attention()

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
        x = self.embedding(tokens) + self.table[places]
        return self.projection(self.encoder(x, mask))

    def places(self, tokens: Tensor, prompts: Tensor) -> Tensor:
        """Where each token stands, (batch, length)."""
        places = torch.arange(tokens.size(1)).expand_as(tokens)
        answer, gap = places >= prompts[:, None], (FIXED - prompts)[:, None]
        if self.kind.places == "answers from 16":
            return places + answer * gap
        return places


def rotary_attention() -> RotaryAttention:
    """For either kind of model."""
    return RotaryAttention(D_MODEL, N_HEADS, N_HEADS, LONGEST)


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


def build(kind: Kind, seed: int) -> WithEncoder | WithoutEncoder | Modern:
    """An untrained model; kinds of the same shapes draw the same first weights."""
    if kind.encoder:
        model = WithEncoder(kind)
    else:
        model = Modern(kind) if kind.modern else WithoutEncoder(kind)
    torch.manual_seed(seed + 100 * kind.draw)
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding):
            scale = D_MODEL**0.5 if isinstance(module, TokenEmbedding) else 1.0
            size = 0.02 if kind.small_weights else 1.0  # of what comes out
            nn.init.normal_(module.weight, std=size / scale)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            if not kind.small_weights and name.rpartition(".")[2] != "projection":
                nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model


@dataclass(frozen=True)
class Look:
    """After so many steps and seconds of the processor: the share translated right."""

    steps: int
    seconds: float
    right: float


def train(
    model: nn.Module,
    seed: int,
    test: Sequence[IdPair],
    *,
    steps: int,
    every: int,
    few: int | None = None,
) -> list[Look]:
    """Train by AdamW under a cosine, with a look at `test` every so many steps."""
    kind, options = model.kind, {"betas": (0.9, 0.98), "eps": 1e-9, "fused": True}
    toy_pairs("train", joint=not kind.encoder)  # is made once, and takes seconds
    data = batches(seed + 100 * kind.draw, joint=not kind.encoder, few=few)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.01, **options)
    looks, seconds = [], 0.0
    for step in range(1, steps + 1):
        started = time.process_time()
        rate = cosine_rate(step / (steps + 1), peak=kind.rate, warmup=WARM_UP)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        said = model.train().say(next(data))
        F.cross_entropy(said.logits, said.labels, label_smoothing=0.1).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds += time.process_time() - started
        if step % every == 0:
            looks.append(Look(step, seconds, share_right(model, test)))
    return looks


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
