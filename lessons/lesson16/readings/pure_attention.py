"""Reading E: positions and attention, without the blocks around them (lesson 16).

A mask is (batch, query_length, key_length), 0 or False = hidden. Keys and queries have
d_k features a head, values d_v, and no projection has a bias. The text ends with the
attention; AttentionOnlyTranslator asks what it can do alone.
"""

import math

import torch
from torch import Tensor, nn

from helpers import PAD
from helpers.positions import positional_encoding
from helpers.transformer import TransformerConfig
from lessons.lesson16.readings.interface import Translator


class SinusoidTable(nn.Module):
    """E's PositionalEncoding: add sinusoids to x (batch, seq_len, d_model), dropout."""

    def __init__(self, d_model: int, dropout: float = 0.1, max_len: int = 5000):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pe", positional_encoding(max_len, d_model)[None])

    def forward(self, x: Tensor) -> Tensor:
        seq_len, max_len = x.size(1), self.pe.size(1)
        if seq_len > max_len:
            raise ValueError(
                f"the sequence is {seq_len} tokens long, the positional table {max_len}"
            )
        return self.dropout(x + self.pe[:, :seq_len])


class ScaledDotProductAttention(nn.Module):
    """softmax(q kᵀ / √d_k) v, and the weights, with dropout on them.

    q (batch, n_heads, len_q, d_k), k and v (batch, n_heads, len_k, d_k or d_v) ->
    context (batch, n_heads, len_q, d_v), attn (batch, n_heads, len_q, len_k).
    """

    def __init__(self, d_k: int, dropout: float = 0.1):
        super().__init__()
        self.d_k = d_k
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        scores = q @ k.transpose(-2, -1) / self.d_k**0.5
        if attn_mask is not None:
            # masked_fill returns a new tensor; masked_fill_ would change this one.
            lowest = torch.finfo(scores.dtype).min
            scores = scores.masked_fill(attn_mask == 0, lowest)
        attn = self.dropout(scores.softmax(dim=-1))
        return attn @ v, attn


class AttentionWithNorm(nn.Module):
    """E's MultiHeadAttention: LayerNorm(q + Dropout(heads)), d_k and d_v chosen freely.

    q (batch, len_q, d_model), k and v (batch, len_k, d_model), attn_mask
    (batch, len_q, len_k) -> output (batch, len_q, d_model) and attn
    (batch, n_heads, len_q, len_k).
    """

    def __init__(
        self, n_heads: int, d_model: int, d_k: int, d_v: int, dropout: float = 0.1
    ):
        super().__init__()
        self.n_heads = n_heads
        self.w_qs = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.w_ks = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.w_vs = nn.Linear(d_model, n_heads * d_v, bias=False)
        self.fc = nn.Linear(n_heads * d_v, d_model, bias=False)
        self.attention = ScaledDotProductAttention(d_k, dropout)
        self.dropout = nn.Dropout(dropout)
        self.layernorm = nn.LayerNorm(d_model)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        residual = q
        q, k, v = (
            x.unflatten(2, (self.n_heads, -1)).permute(0, 2, 1, 3)
            for x in (self.w_qs(q), self.w_ks(k), self.w_vs(v))
        )
        if attn_mask is not None:
            attn_mask = attn_mask.unsqueeze(1)  # the same for all heads
        context, attn = self.attention(q, k, v, attn_mask)
        output = self.fc(context.permute(0, 2, 1, 3).flatten(2))
        return self.layernorm(residual + self.dropout(output)), attn


def attention_block(config: TransformerConfig) -> AttentionWithNorm:
    """Reading E's attention for sizes of the course: d_k = d_v = d_model / n_heads."""
    d_head = config.d_model // config.n_heads
    return AttentionWithNorm(
        config.n_heads, config.d_model, d_head, d_head, config.dropout
    )


class AttentionOnlyTranslator(Translator):
    """E's attention stacked, with nothing between; masks follow from PAD. Ours."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config, d_model = config, config.d_model
        self.source_embedding = nn.Embedding(config.source_vocab, d_model)
        self.target_embedding = nn.Embedding(config.target_vocab, d_model)
        self.positions = SinusoidTable(d_model, config.dropout, config.max_length)
        self.encoder, self.self_attention, self.cross_attention = (
            nn.ModuleList(attention_block(config) for _ in range(config.n_layers))
            for _ in range(3)
        )
        self.projection = nn.Linear(d_model, config.target_vocab, bias=False)
        # PyTorch's deviation of 1, times √d_model, is far above the sinusoids.
        for embedding in (self.source_embedding, self.target_embedding):
            nn.init.normal_(embedding.weight, std=d_model**-0.5)

    def read(self, source: Tensor) -> Tensor:
        return self.run_encoder(source)[0]

    def write(self, tokens: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        return self.run_decoder(tokens, memory, source)[0]

    def project(self, states: Tensor) -> Tensor:
        """States (…, d_model) -> logits (…, target_vocab)."""
        return self.projection(states)

    def attention_maps(self, source: Tensor, target: Tensor) -> dict[str, list[Tensor]]:
        """What the blocks return beside their output."""
        memory, to_itself = self.run_encoder(source)
        _, maps = self.run_decoder(target, memory, source)
        return {"encoder": to_itself, "decoder": maps[::2], "cross": maps[1::2]}

    def run_encoder(self, source: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The memory of a source, and each block's map."""
        x, mask = self.embed(self.source_embedding, source), visible(source, source)
        maps = []
        for attend in self.encoder:
            x, attn = attend(x, x, x, mask)
            maps.append(attn)
        return x, maps

    def run_decoder(
        self, tokens: Tensor, memory: Tensor, source: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """The tokens' states, and the maps: of the target, of the source, in turns."""
        past, across = visible(tokens, tokens).tril(), visible(source, tokens)
        x, maps = self.embed(self.target_embedding, tokens), []
        for look_back, look_across in zip(
            self.self_attention, self.cross_attention, strict=True
        ):
            x, to_target = look_back(x, x, x, past)
            x, to_source = look_across(x, memory, memory, across)
            maps += [to_target, to_source]
        return x, maps

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        """Embedded ids with their positions, (batch, length, d_model)."""
        return self.positions(embedding(tokens) * math.sqrt(self.config.d_model))


def visible(keys: Tensor, queries: Tensor) -> Tensor:
    """ids -> (batch, query_length, key_length), False where a key is PAD."""
    return (keys != PAD)[:, None].expand(-1, queries.size(1), -1)
