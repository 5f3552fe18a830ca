"""A sound encoder–decoder whose attention has no modules inside, only einsums.

Each step that a fault changes is a method of its own.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from faults.small_decoders import EACH, HEADS, LONGEST, WIDTH, lower
from helpers import PAD


def sinusoids() -> Tensor:
    """The paper's table, (LONGEST, WIDTH)."""
    rates = 10000 ** (-torch.arange(0, WIDTH, 2) / WIDTH)
    angles = torch.arange(LONGEST)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


class EinsumAttention(nn.Module):
    """Its four tensors are parameters, (features, heads, each) or the reverse."""

    def __init__(self):
        super().__init__()

        def drawn(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(shape) * WIDTH**-0.5)

        self.query, self.key = drawn(WIDTH, HEADS, EACH), drawn(WIDTH, HEADS, EACH)
        self.value, self.output = drawn(WIDTH, HEADS, EACH), drawn(HEADS, EACH, WIDTH)

    def weigh(self, scores: Tensor, seen: Tensor) -> Tensor:
        """The weights of the keys, almost 0 where `seen` is False."""
        return scores.masked_fill(~seen, torch.finfo(scores.dtype).min).softmax(-1)

    def forward(self, x: Tensor, memory: Tensor, seen: Tensor) -> Tensor:
        """Queries from x, keys and values from memory; the shape of x."""
        query = torch.einsum("bid,dhk->bhik", x, self.query) * EACH**-0.5
        key = torch.einsum("bjd,dhk->bhjk", memory, self.key)
        value = torch.einsum("bjd,dhk->bhjk", memory, self.value)
        weights = self.weigh(query @ key.mT, seen)
        return torch.einsum("bhij,bhjk,hkd->bid", weights, value, self.output)


class EinsumLayer(nn.Module):
    """Norm first; with `crosses`, a layer of a decoder."""

    def __init__(self, *, crosses: bool):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.att = EinsumAttention()
        self.cross_att = EinsumAttention() if crosses else None
        self.ff = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)
        )
        if not crosses:
            del self.norms[1]

    def mix(self, x: Tensor, seen: Tensor) -> Tensor:
        """x with what its own positions say."""
        normed = self.norms[0](x)
        return x + self.att(normed, normed, seen)

    def read(self, x: Tensor, memory: Tensor, words: Tensor) -> Tensor:
        """x with what the source says."""
        return x + self.cross_att(self.norms[1](x), memory, words)

    def feed(self, x: Tensor) -> Tensor:
        """x with what the feed-forward part makes of it."""
        return x + self.ff(self.norms[-1](x))

    def forward(self, x: Tensor, seen: Tensor, *memory: Tensor) -> Tensor:
        """(batch, length, features) -> the same; memory is that and its words."""
        x = self.mix(x, seen)
        return self.feed(self.read(x, *memory) if memory else x)


class EinsumSeq2Seq(nn.Module):
    """An encoder–decoder with the paper's positions."""

    def __init__(self, vocab: int):
        super().__init__()
        self.source, self.target = (nn.Embedding(vocab, WIDTH) for _ in range(2))
        self.register_buffer("table", sinusoids())
        self.encoder = nn.ModuleList(EinsumLayer(crosses=False) for _ in range(2))
        self.decoder = nn.ModuleList(EinsumLayer(crosses=True) for _ in range(2))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.projection = nn.Linear(WIDTH, vocab)

    def words(self, tokens: Tensor) -> Tensor:
        """(batch, 1, 1, length), True at words."""
        return (tokens != PAD)[:, None, None]

    def encode(self, tokens: Tensor) -> Tensor:
        """source (batch, length) -> memory (batch, length, features)."""
        x = self.source(tokens) + self.table[: tokens.size(1)]
        for layer in self.encoder:
            x = layer(x, self.words(tokens))
        return self.norms[0](x)

    def begin(self, tokens: Tensor, memory: Tensor) -> Tensor:
        """What goes into the decoder's first layer; the memory is not needed."""
        return self.target(tokens) + self.table[: tokens.size(1)]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (batch, target_length, vocab)."""
        memory, words = self.encode(source), self.words(source)
        seen = lower(target.size(1), target.device) & self.words(target)
        x = self.begin(target, memory)
        for layer in self.decoder:
            x = layer(x, seen, memory, words)
        return self.projection(self.norms[1](x))

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        """Mean cross-entropy of the target's words behind the first."""
        logits, words = self(source, target[:, :-1]), target[:, 1:]
        return F.cross_entropy(logits.flatten(0, 1), words.flatten(), ignore_index=PAD)
