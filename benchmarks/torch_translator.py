"""nn.Transformer as a translator, to compare with (lesson 15)."""

import math
from copy import deepcopy
from dataclasses import asdict

import torch
from torch import Tensor, nn

from helpers import PAD
from helpers.interop.pytorch import copy_stack
from helpers.positions import PositionalEncoding
from helpers.transformer import Transformer, TransformerConfig


class TorchTranslator(nn.Module):
    """nn.Transformer with what it leaves out: embeddings, positions, projection.

    forward(source, target) takes ids and gives logits, as the course's Transformer, and
    `sizes` are those of its TransformerConfig. The masks are PyTorch's: True = hidden.
    """

    def __init__(self, source_vocab: int, target_vocab: int, **sizes):
        super().__init__()
        sizes = {"share_embeddings": False, "dropout": 0.0} | sizes
        self.config = config = TransformerConfig(source_vocab, target_vocab, **sizes)
        d_model, dropout, layers = config.d_model, config.dropout, config.n_layers
        self.source_embedding = nn.Embedding(source_vocab, d_model)
        self.target_embedding = nn.Embedding(target_vocab, d_model)
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=d_model**-0.5)
        self.positions = PositionalEncoding(
            d_model, dropout=dropout, max_length=config.max_length
        )
        options = {"batch_first": True, "norm_first": config.norm_first}
        sizes = d_model, config.n_heads, config.d_ff, dropout
        # PyTorch's default, nested tensors, warns with norm first and fails under
        # autocast on a CPU with norm last.
        encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(*sizes, **options),
            layers,
            nn.LayerNorm(d_model),
            enable_nested_tensor=False,
        )
        sizes = d_model, config.n_heads, layers, layers, config.d_ff, dropout
        self.core = nn.Transformer(*sizes, custom_encoder=encoder, **options)
        self.projection = nn.Linear(d_model, target_vocab)

    @classmethod
    @torch.no_grad()
    def from_course(cls, model: Transformer) -> "TorchTranslator":
        """The sizes and a copy of the weights of the course's model, on its device."""
        sizes = asdict(model.config) | {"share_embeddings": False}
        theirs = cls(**sizes).to(next(model.parameters()).device)
        copy_stack(model.encoder, theirs.core.encoder)
        copy_stack(model.decoder, theirs.core.decoder)
        theirs.source_embedding.weight.copy_(model.source_embedding.weight)
        theirs.target_embedding.weight.copy_(model.target_embedding.weight)
        theirs.projection = deepcopy(model.projection)
        return theirs.train(model.training)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """ids (batch, length) -> logits (batch, target_length, target_vocab)."""
        return self.project(self.decode(target, self.encode(source), source))

    def encode(self, source: Tensor) -> Tensor:
        """source (batch, source_length) -> memory (batch, source_length, d_model)."""
        x = self.embed(self.source_embedding, source)
        return self.core.encoder(x, src_key_padding_mask=source == PAD)

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """States (batch, target_length, d_model) for `project`."""
        length, device = target.size(1), target.device
        future = torch.ones(length, length, dtype=torch.bool, device=device).triu(1)
        return self.core.decoder(
            self.embed(self.target_embedding, target),
            memory,
            tgt_mask=future,
            tgt_key_padding_mask=target == PAD,
            memory_key_padding_mask=source == PAD,
        )

    def project(self, states: Tensor) -> Tensor:
        """States (…, d_model) -> logits (…, target_vocab)."""
        return self.projection(states)

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        """Embedded ids with their positions, (batch, length, d_model)."""
        return self.positions(embedding(tokens) * math.sqrt(self.config.d_model))
