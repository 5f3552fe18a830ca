"""A sound decoder that also writes step by step, with a cache, and bears PADs in front.

Its positions are learned and counted from the first word, or rotary, or ALiBi's in a
window of seven tokens. Each step that a fault changes is a method of its own.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from faults.small_decoders import EACH, HEADS, LONGEST, WIDTH
from helpers import PAD


class Cache:
    """The keys and values of each layer, and which of the tokens are words."""

    def __init__(self):
        self.layers, self.words = {}, None

    def note(self, words: Tensor) -> Tensor:
        """Which of all tokens so far are words, (batch, all)."""
        kept = [] if self.words is None else [self.words]
        self.words = torch.cat([*kept, words], 1)
        return self.words

    def extend(self, layer: int, key: Tensor, value: Tensor) -> list[Tensor]:
        """All keys and values so far, (batch, heads, all, features)."""
        if layer in self.layers:
            pairs = zip(self.layers[layer], (key, value), strict=True)
            key, value = (torch.cat(pair, 2) for pair in pairs)
        self.layers[layer] = [key, value]
        return self.layers[layer]

    def reorder(self, rows: Tensor) -> None:
        """Each row goes on from another one's past."""
        self.words = self.words[rows]
        self.layers = {n: [t[rows] for t in kept] for n, kept in self.layers.items()}


class CachedAttention(nn.Module):
    """Four heads of queries, two of keys and values."""

    def __init__(self, layer: int, kind: str):
        super().__init__()
        self.layer, self.kind = layer, kind
        self.window = 7 if kind == "ALiBi" else LONGEST
        self.query, self.output = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.key, self.value = (nn.Linear(WIDTH, WIDTH // 2) for _ in range(2))
        rates = 10000 ** (-torch.arange(0, EACH, 2) / EACH)
        self.register_buffer("rates", rates.repeat_interleave(2), persistent=False)
        slopes = 2.0 ** (-8 / HEADS * torch.arange(1, HEADS + 1))
        self.register_buffer("slopes", slopes[:, None, None], persistent=False)

    def halves(self, x: Tensor) -> Tensor:
        """Each pair (a, b) of features as (-b, a)."""
        return torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)

    def turn(self, x: Tensor, places: Tensor) -> Tensor:
        """(batch, heads, length, features), turned by places (batch, length)."""
        if self.kind != "rotary":
            return x
        angles = places[:, None, :, None] * self.rates
        return x * angles.cos() + self.halves(x) * angles.sin()

    def turned(self, query: Tensor, key: Tensor, places: Tensor) -> list[Tensor]:
        """Queries and keys, turned."""
        return [self.turn(query, places), self.turn(key, places)]

    def repeat(self, x: Tensor) -> Tensor:
        """Two heads as four."""
        return x.repeat_interleave(2, 1)

    def bias(self, now: Tensor, places: Tensor) -> Tensor:
        """What distances take from the scores, (batch, heads, length, all)."""
        distances = now[:, None, :, None] - places[:, None, None]
        return -self.slopes * distances if self.kind == "ALiBi" else 0.0

    def seen(self, length: int, words: Tensor) -> Tensor:
        """(batch, 1, length, all), True where a query may see a key."""
        order = torch.arange(words.size(1), device=words.device)
        back = order[-length:, None] - order
        return (back >= 0) & (back < self.window) & words[:, None, None]

    def weigh(self, scores: Tensor, seen: Tensor) -> Tensor:
        """The weights of the keys."""
        return scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-1)

    def forward(
        self, x: Tensor, places: Tensor, words: Tensor, cache: Cache | None = None
    ) -> Tensor:
        """(batch, length, features) -> the same; places and words (batch, all)."""
        parts, now = (self.query, self.key, self.value), places[:, -x.size(1) :]
        query, key, value = (
            p(x).unflatten(-1, (-1, EACH)).transpose(1, 2) for p in parts
        )
        query, key = self.turned(query, key, now)
        if cache is not None:
            key, value = cache.extend(self.layer, key, value)
        key, value = self.repeat(key), self.repeat(value)
        scores = query @ key.mT * EACH**-0.5 + self.bias(now, places)
        weights = self.weigh(scores, self.seen(x.size(1), words))
        return self.output((weights @ value).transpose(1, 2).flatten(2))


class CachedBlock(nn.Module):
    """Norm first."""

    def __init__(self, layer: int, kind: str):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn, wide = CachedAttention(layer, kind), 2 * WIDTH
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, wide), nn.GELU(), nn.Linear(wide, WIDTH)
        )

    def forward(self, x: Tensor, *past: Tensor | Cache | None) -> Tensor:
        """(batch, length, features) -> the same shape."""
        x = x + self.attn(self.norm1(x), *past)
        return x + self.mlp(self.norm2(x))


class CachedGPT(nn.Module):
    """A decoder whose positions are "learned", "rotary" or "ALiBi"."""

    left_padding = True

    def __init__(self, vocab: int, places: str = "learned"):
        super().__init__()
        self.kind = kind = places
        self.wte = nn.Embedding(vocab, WIDTH)
        self.wpe = nn.Embedding(LONGEST, WIDTH) if kind == "learned" else None
        self.blocks = nn.ModuleList(CachedBlock(layer, kind) for layer in range(2))
        self.norm, self.projection = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, vocab)

    def start(self) -> Cache:
        """An empty cache."""
        return Cache()

    def places(self, words: Tensor, length: int) -> Tensor:
        """(batch, all), counted from the first word if they are learned."""
        if self.kind == "learned":
            return (words.cumsum(1) - 1).clamp(min=0)
        return torch.ones_like(words).cumsum(1) - 1

    def begin(self, tokens: Tensor, now: Tensor) -> Tensor:
        """What goes into the first block."""
        x = self.wte(tokens)
        return x if self.wpe is None else x + self.wpe(now)

    def forward(self, tokens: Tensor, cache: Cache | None = None) -> Tensor:
        """Logits (batch, length, vocab)."""
        words = tokens != PAD
        if cache is not None:
            words = cache.note(words)
        places = self.places(words, tokens.size(1))
        x = self.begin(tokens, places[:, -tokens.size(1) :])
        for block in self.blocks:
            x = block(x, places, words, cache)
        return self.projection(self.norm(x))

    def steps(self, tokens: Tensor) -> Tensor:
        """The same logits, after three tokens at once one by one."""
        parts, cache = [tokens[:, :3], *tokens[:, 3:].split(1, 1)], self.start()
        return torch.cat([self(part, cache) for part in parts if part.numel()], 1)

    def beams(self, tokens: Tensor, parents: Tensor) -> Tensor:
        """One by one; before a step, row i goes on from the past of parents[i]."""
        cache, parts = self.start(), []
        for token, rows in zip(tokens.split(1, 1), parents.unbind(1), strict=True):
            if parts:
                cache.reorder(rows)
            parts.append(self(token, cache))
        return torch.cat(parts, 1)

    def loss(self, tokens: Tensor) -> Tensor:
        """Mean cross-entropy of each token given those before it."""
        logits = self(tokens)[:, :-1]
        return F.cross_entropy(
            logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=PAD
        )
