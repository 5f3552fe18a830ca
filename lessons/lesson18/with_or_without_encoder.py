"""Translators with and without an encoder, of the parts of 2017 (lesson 18).

`WithoutEncoder` differs from `WithEncoder` in what it sees, and when. Either can have
rotary positions and small initial weights instead of sinusoids and those of lesson 08.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD
from helpers.batching import IdPair, make_batch
from helpers.decoding import inference
from helpers.encoder import Encoder
from helpers.layers import LayerSizes
from helpers.masks import causal_mask
from helpers.modern.retrofit import NoPositions, RotaryAttention
from helpers.positions import TokenEmbedding, positional_encoding
from helpers.training import cosine_rate
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson18.one_sequence import (
    LONGEST,
    batches,
    join,
    joint_vocabulary,
    toy_pairs,
    vocabularies,
)

D_MODEL, N_HEADS = 64, 4
PEAK, WARM_UP = 4e-3, 0.1


Said = tuple[Tensor, Tensor, Tensor]  # logits, labels, each label's sentence


class WithEncoder(Transformer):
    """The toy translator of lesson 10, a vocabulary for each language."""

    joint = False

    def __init__(self, *, rotary: bool):
        sizes = {"d_model": D_MODEL, "n_heads": N_HEADS, "d_ff": 128, "n_layers": 2}
        sizes |= {"dropout": 0.0, "norm_first": True, "share_embeddings": False}
        counts = map(len, vocabularies())
        super().__init__(TransformerConfig(*counts, max_length=LONGEST, **sizes))
        if rotary:
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
        return logits, batch.labels[real], real.nonzero()[:, 0]


class WithoutEncoder(nn.Module):
    """The encoder of 2017 with a causal mask: a decoder without cross-attention."""

    joint = True

    def __init__(self, *, rotary: bool):
        super().__init__()
        vocab_size = len(joint_vocabulary())
        sizes = {"d_model": D_MODEL, "n_heads": N_HEADS, "d_ff": 167, "dropout": 0.0}
        self.embedding = TokenEmbedding(vocab_size, D_MODEL)
        self.encoder = Encoder(4, LayerSizes(**sizes, norm_first=True))
        self.projection = nn.Linear(D_MODEL, vocab_size, bias=False)
        table = positional_encoding(LONGEST, D_MODEL) * (not rotary)
        self.register_buffer("table", table, persistent=False)
        for layer in self.encoder.layers if rotary else ():
            layer.self_attention = rotary_attention()

    def say(self, pairs: Sequence[IdPair]) -> Said:
        """Of the French tokens, with EOS."""
        joined = join(pairs)
        counted, labels = joined.counted()[:, 1:], joined.tokens[:, 1:]
        logits = self(joined.tokens[:, :-1])[counted]
        return logits, labels[counted], counted.nonzero()[:, 0]

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (batch, length) -> logits (batch, length, vocab_size)."""
        length = tokens.size(1)
        x = self.embedding(tokens) + self.table[:length]
        return self.projection(self.encoder(x, causal_mask(length)))


def rotary_attention() -> RotaryAttention:
    """For either model; in cross-attention, each side counts its own places."""
    return RotaryAttention(D_MODEL, N_HEADS, N_HEADS, LONGEST)


def build(kind: type, seed: int, *, today: bool) -> WithEncoder | WithoutEncoder:
    """An untrained model; `today`, with rotary positions and small initial weights."""
    model = kind(rotary=today)
    torch.manual_seed(seed)
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding):
            scale = D_MODEL**0.5 if isinstance(module, TokenEmbedding) else 1.0
            size = 0.02 if today else 1.0  # of what comes out
            nn.init.normal_(module.weight, std=size / scale)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            if not today and name.rpartition(".")[2] != "projection":
                nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return model


def train(
    model: WithEncoder | WithoutEncoder,
    seed: int,
    *,
    steps: int,
    few: int | None = None,
) -> None:
    """Train by AdamW under a cosine, with label smoothing; `few` cuts the data down."""
    options = {"betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.01, "fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    data = batches(seed, joint=model.joint, few=few)
    for step in range(1, steps + 1):
        rate = cosine_rate(step / (steps + 1), peak=PEAK, warmup=WARM_UP)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        logits, labels, _ = model.train().say(next(data))
        F.cross_entropy(logits, labels, label_smoothing=0.1).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def share_right(
    model: WithEncoder | WithoutEncoder, *, split: str = "test", few: int | None = None
) -> float:
    """The share of sentences that greedy decoding writes without a mistake.

    Up to its first mistake it reads the true beginning (lesson 11), so one pass tells.
    """
    pairs = toy_pairs(split, joint=model.joint)[:few]
    right = torch.ones(len(pairs), dtype=torch.bool)
    with inference(model):
        logits, labels, rows = model.say(pairs)
    right[rows[logits.argmax(dim=-1) != labels]] = False
    return right.double().mean().item()
