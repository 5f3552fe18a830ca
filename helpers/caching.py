"""Decoding with caches: only the new token runs through the decoder (lessons 07, 11).

The decoder itself knows nothing of this. What stands here calls the same modules with
the same weights, and gives at every step what the plain pass gives at that position.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from helpers.attention import MultiHeadAttention
from helpers.decoder import Decoder, DecoderLayer
from helpers.masks import padding_mask
from helpers.transformer import Transformer


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


class DecoderCache:
    """A Decoder that goes through its sentences step by step.

    memory (batch, source_length, d_model) is projected once, at the start; memory_mask
    (batch, 1, 1, source_length) is that of `padding_mask`. `len` is how many positions
    have been through the decoder.
    """

    def __init__(
        self, decoder: Decoder, memory: Tensor, memory_mask: Tensor | None = None
    ):
        self.decoder, self.memory_mask = decoder, memory_mask
        self.sources = torch.arange(len(memory), device=memory.device)  # of the rows
        self.layers = [LayerCache() for _ in decoder.layers]
        for layer, cache in zip(decoder.layers, self.layers, strict=True):
            cache.cross_attention.extend(*layer.cross_attention.project(memory, memory))

    def __len__(self) -> int:
        return len(self.layers[0].self_attention)

    def step(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """States of the positions that follow, as Decoder.forward would give them.

        x (batch, new, d_model) -> (batch, new, d_model). One new position may see all
        that are kept and needs no mask; for several, mask is over (…, new, all).
        """
        for layer, cache in zip(self.decoder.layers, self.layers, strict=True):
            x = layer_step(layer, x, cache, mask, self.memory_mask)
        return self.decoder.norm(x)

    def select(self, rows: Tensor) -> None:
        """Keep the given rows of the batch, in their order; rows may repeat."""
        before, self.sources = self.sources, self.sources[rows]
        # A beam search exchanges rows of one source, which have its keys in common.
        other_sources = not torch.equal(self.sources, before)
        for cache in self.layers:
            cache.self_attention.select(rows)
            if other_sources:
                cache.cross_attention.select(rows)
        if other_sources and self.memory_mask is not None:
            self.memory_mask = self.memory_mask[rows]


def layer_step(
    layer: DecoderLayer,
    x: Tensor,
    cache: LayerCache,
    mask: Tensor | None = None,
    memory_mask: Tensor | None = None,
) -> Tensor:
    """DecoderLayer.forward for new positions alone; the cache grows by them.

    Shapes as in `DecoderCache.step`.
    """

    def look_back(y: Tensor) -> Tensor:
        keys, values = layer.self_attention.project(y, y)  # of the new positions
        keys, values = cache.self_attention.extend(keys, values)  # of all
        return layer.self_attention.attend(y, keys, values, mask)

    def look_at_source(y: Tensor) -> Tensor:
        keys, values = cache.cross_attention.keys, cache.cross_attention.values
        return layer.cross_attention.attend(y, keys, values, memory_mask)

    x = layer.residuals[0](x, look_back)
    x = layer.residuals[1](x, look_at_source)
    return layer.residuals[2](x, layer.feed_forward)


class CachedDecoding:
    """A batch of sources on its way to being translated, from caches.

    It is what `helpers.decoding` works with: the source (batch, source_length) is read
    and its padding found once, at the start. Hooks on the decoder and its layers are
    not called.
    """

    def __init__(self, model: Transformer, source: Tensor):
        self.model = model
        self.cache = DecoderCache(
            model.decoder, model.encode(source), padding_mask(source)
        )

    def step(self, token: Tensor) -> Tensor:
        """The newest token of each row (batch,) -> logits (batch, target_vocab)."""
        embedded = self.model.target_embedding(token[:, None])  # (batch, 1, d_model)
        x = self.model.positions(embedded, start=len(self.cache))
        return self.model.project(self.cache.step(x)[:, 0])

    def select(self, rows: Tensor) -> None:
        """Keep the given rows of the batch, in their order; rows may repeat."""
        self.cache.select(rows)

    @staticmethod
    def fits(model: object) -> bool:
        """Whether the model decodes by the course's own code, which is repeated here.

        One that decodes in another way, or a part of which does, must run as it stands.
        """
        if not isinstance(model, Transformer):
            return False
        methods = [(model.decode, Transformer.decode)] + [
            (module.forward, kind.forward)
            for module in model.decoder.modules()
            for kind in (Decoder, DecoderLayer, MultiHeadAttention)
            if isinstance(module, kind)
        ]
        return all(getattr(own, "__func__", None) is ours for own, ours in methods)
