"""The decoder: masked self-attention, cross-attention, feed-forward (lesson 07)."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from helpers.attention import MultiHeadAttention
from helpers.layers import FeedForward, LayerNorm, Residual


@dataclass
class AttentionCache:
    """Projected keys and values of one attention, kept between decoding steps.

    Each is (batch, heads, key_length, d_head), or None before the first step.
    """

    keys: Tensor | None = None
    values: Tensor | None = None

    def __len__(self) -> int:
        return 0 if self.keys is None else self.keys.size(2)

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Append along key_length; return all keys and all values so far."""
        if self.keys is not None:
            keys = torch.cat([self.keys, keys], dim=2)
            values = torch.cat([self.values, values], dim=2)
        self.keys, self.values = keys, values
        return keys, values

    def select(self, rows: Tensor) -> None:
        """Keep the given rows of the batch, in their order; rows may repeat."""
        if self.keys is not None:
            self.keys, self.values = self.keys[rows], self.values[rows]


@dataclass
class LayerCache:
    """What a DecoderLayer need not compute again.

    Self-attention grows by one key a token; cross-attention is filled once a source.
    """

    self_attention: AttentionCache = field(default_factory=AttentionCache)
    cross_attention: AttentionCache = field(default_factory=AttentionCache)

    def select(self, rows: Tensor) -> None:
        """Keep the given rows of the batch in both attentions."""
        self.self_attention.select(rows)
        self.cross_attention.select(rows)


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, feed-forward, each inside a residual.

    Inputs: x (batch, target_length, d_model), memory (batch, source_length, d_model),
    mask over (…, target_length, target_length), memory_mask over
    (…, target_length, source_length). Output: (batch, target_length, d_model).
    With a cache, x holds only the positions that the cache has not seen.
    Vaswani et al. 2017, section 3.1.
    """

    def __init__(
        self, d_model: int, n_heads: int, d_ff: int, *, dropout: float, norm_first: bool
    ):
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads)
        self.cross_attention = MultiHeadAttention(d_model, n_heads)
        self.feed_forward = FeedForward(d_model, d_ff)
        self.residuals = nn.ModuleList(
            Residual(d_model, dropout=dropout, norm_first=norm_first) for _ in range(3)
        )

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        *,
        cache: LayerCache | None = None,
    ) -> Tensor:
        if cache is None:
            cache = LayerCache()

        def look_back(y: Tensor) -> Tensor:
            keys, values = self.self_attention.project(y, y)
            keys, values = cache.self_attention.extend(keys, values)
            return self.self_attention.attend(y, keys, values, mask)

        def look_at_source(y: Tensor) -> Tensor:
            seen = cache.cross_attention
            if not len(seen):  # the memory stays the same from step to step
                seen.extend(*self.cross_attention.project(memory, memory))
            return self.cross_attention.attend(y, seen.keys, seen.values, memory_mask)

        x = self.residuals[0](x, look_back)
        x = self.residuals[1](x, look_at_source)
        return self.residuals[2](x, self.feed_forward)


class Decoder(nn.Module):
    """A stack of n_layers DecoderLayers; arguments and shapes as theirs.

    `caches` is a list with one LayerCache a layer. Vaswani et al. 2017, section 3.1.
    """

    def __init__(
        self,
        n_layers: int,
        d_model: int,
        n_heads: int,
        d_ff: int,
        *,
        dropout: float,
        norm_first: bool,
    ):
        super().__init__()
        self.layers = nn.ModuleList(
            DecoderLayer(d_model, n_heads, d_ff, dropout=dropout, norm_first=norm_first)
            for _ in range(n_layers)
        )
        self.norm = LayerNorm(d_model) if norm_first else nn.Identity()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        *,
        caches: list[LayerCache] | None = None,
    ) -> Tensor:
        if caches is None:
            caches = [LayerCache() for _ in self.layers]
        for layer, cache in zip(self.layers, caches, strict=True):
            x = layer(x, memory, mask, memory_mask, cache=cache)
        return self.norm(x)
