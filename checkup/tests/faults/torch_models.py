"""PyTorch's modules, as a user completes them."""

import math

import torch
from torch import Tensor, nn

from faults.small_decoders import LONGEST
from helpers import PAD


class TorchSeq2Seq(nn.Module):
    """nn.Transformer with embeddings, learned positions and a projection."""

    def __init__(self, vocab: int, *, batch_first: bool = True, **options):
        super().__init__()
        self.batch_first = batch_first
        self.source_embedding = nn.Embedding(vocab, 32)
        self.target_embedding = nn.Embedding(vocab, 32)
        self.positions = nn.Embedding(LONGEST, 32)
        sizes = {"dim_feedforward": 64, "dropout": 0.1, "batch_first": batch_first}
        self.core = nn.Transformer(32, 4, 2, 2, **sizes, **options)
        self.projection = nn.Linear(32, vocab)

    def embed(self, embedding: nn.Module, tokens: Tensor) -> Tensor:
        """ids (batch, length) -> vectors, laid out as the core wants them."""
        places = torch.arange(tokens.size(1), device=tokens.device)
        x = embedding(tokens) + self.positions(places)
        return x if self.batch_first else x.transpose(0, 1)

    def encode(self, source: Tensor) -> Tensor:
        """source (batch, length) -> memory."""
        x = self.embed(self.source_embedding, source)
        return self.core.encoder(x, src_key_padding_mask=source == PAD)

    def future(self, target: Tensor) -> Tensor:
        """(length, length), True above the diagonal."""
        ones = torch.ones(target.size(1), target.size(1), device=target.device)
        return ones.triu(1).bool()

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """target (batch, length) -> states, laid out as the core does."""
        return self.core.decoder(
            self.embed(self.target_embedding, target),
            memory,
            tgt_mask=self.future(target),
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
        )

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (batch, target_length, vocab)."""
        states = self.decode(target, self.encode(source), source)
        return self.projection(states if self.batch_first else states.transpose(0, 1))


class TorchStack(nn.Module):
    """nn.TransformerEncoder as an encoder, or with a causal mask as a language model.

    As PyTorch leaves it, all layers start as copies of the first.
    """

    def __init__(self, vocab: int, *, causal: bool, norm_first: bool):
        super().__init__()
        self.causal = causal
        self.embedding = nn.Embedding(vocab, 32)
        self.positions = nn.Embedding(LONGEST, 32)
        layer = nn.TransformerEncoderLayer(
            32, 4, 64, 0.1, batch_first=True, norm_first=norm_first
        )
        self.stack = nn.TransformerEncoder(
            layer, 2, nn.LayerNorm(32), enable_nested_tensor=not norm_first
        )
        self.projection = nn.Linear(32, vocab)

    def embed(self, tokens: Tensor) -> Tensor:
        """ids (batch, length) -> (batch, length, 32)."""
        places = torch.arange(tokens.size(1), device=tokens.device)
        return self.embedding(tokens) * math.sqrt(32) + self.positions(places)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (batch, length, vocab)."""
        mask = None
        if self.causal:
            ones = torch.ones(tokens.size(1), tokens.size(1), device=tokens.device)
            mask = ones.triu(1).bool()
        padding = tokens == PAD
        states = self.stack(self.embed(tokens), mask, src_key_padding_mask=padding)
        return self.projection(states)
