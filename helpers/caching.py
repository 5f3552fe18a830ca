"""Decoding with a cache: only the new token runs through the decoder (lesson 11).

The decoder itself knows nothing of this. What stands here calls the same modules with
the same weights, and gives at every step what the plain pass gives at that position.
"""

from dataclasses import dataclass

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


def layer_step(
    layer: DecoderLayer,
    x: Tensor,
    past: AttentionCache,
    source: AttentionCache,
    memory_mask: Tensor | None = None,
) -> Tensor:
    """DecoderLayer.forward for the newest token alone, (batch, 1, d_model).

    past grows by one key and value a call; source holds those of the memory.
    """

    def look_back(y: Tensor) -> Tensor:
        attention = layer.self_attention
        keys, values = past.extend(*attention.project(y, y))  # NEW: joins the old ones
        return attention.attend(y, keys, values)  # NEW: no mask

    def look_at_source(y: Tensor) -> Tensor:
        keys, values = source.keys, source.values  # NEW: projected once, not here
        return layer.cross_attention.attend(y, keys, values, memory_mask)

    x = layer.residuals[0](x, look_back)
    x = layer.residuals[1](x, look_at_source)
    return layer.residuals[2](x, layer.feed_forward)


class CachedDecoding:
    """A batch of sources (batch, source_length) on its way to being translated.

    Each source is read once, at the start. Prefixes must hold no padding: a later token
    would see it. Hooks on the decoder and its layers are not called.
    """

    def __init__(self, model: Transformer, source: Tensor):
        self.model, memory = model, model.encode(source)
        self.memory_mask = padding_mask(source)
        self.places = torch.arange(len(source), device=source.device)  # rows' sources
        self.past, self.source = [], []  # a cache for each layer
        for layer in model.decoder.layers:
            heads = layer.cross_attention.project(memory, memory)
            self.source.append(AttentionCache(*heads))
            self.past.append(AttentionCache())

    def step(self, token: Tensor) -> Tensor:
        """The newest token of each row (batch,) -> logits (batch, target_vocab)."""
        embedded = self.model.target_embedding(token[:, None])  # (batch, 1, d_model)
        x = self.model.positions(embedded, start=len(self.past[0]))
        layers = self.model.decoder.layers
        for layer, *caches in zip(layers, self.past, self.source, strict=True):
            x = layer_step(layer, x, *caches, self.memory_mask)
        return self.model.project(self.model.decoder.norm(x)[:, 0])

    def select(self, rows: Tensor) -> None:
        """Keep the given rows of the batch, in their order; rows may repeat."""
        before, self.places = self.places, self.places[rows]
        caches = [*self.past]
        if not torch.equal(self.places, before):  # rows of one source share its keys
            caches += self.source
            self.memory_mask = self.memory_mask[rows]
        for cache in caches:
            cache.select(rows)


def can_cache(model: object) -> bool:
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
