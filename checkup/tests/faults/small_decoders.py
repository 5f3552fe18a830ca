"""Sound decoders as people write them by hand, in other styles than the course's.

A small Llama (rotary positions, grouped keys, gated feed-forward), the same with a
mixture of experts, and a small GPT with one matrix for queries, keys and values. Each
step that a fault changes is a method of its own.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH, HEADS, LONGEST = 32, 4, 64
EACH = WIDTH // HEADS


def lower(length: int, device: torch.device) -> Tensor:
    """(length, length), True where a query may see a key of the past."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


# --- A small Llama --------------------------------------------------------------------


class RMSNorm(nn.Module):
    """Divides by the root of the mean square."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        """(…, features) -> the same shape."""
        return self.gain * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Rotary(nn.Module):
    """Turns pairs of features by an angle that grows with the position."""

    def __init__(self):
        super().__init__()
        rates = 10000 ** (-torch.arange(0, EACH, 2) / EACH)
        angles = torch.arange(LONGEST)[:, None] * rates
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def angles(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines for the positions of x (batch, heads, length, features)."""
        return self.cos[: x.size(-2)], self.sin[: x.size(-2)]

    def forward(self, x: Tensor) -> Tensor:
        """(batch, heads, length, features) -> the same, turned."""
        cos, sin = self.angles(x)
        one, two = x[..., ::2], x[..., 1::2]
        return torch.stack([one * cos - two * sin, one * sin + two * cos], -1).flatten(
            -2
        )


class GroupedAttention(nn.Module):
    """Four heads of queries, two of keys and values, no biases."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, WIDTH // 2, bias=False)
        self.value = nn.Linear(WIDTH, WIDTH // 2, bias=False)
        self.output = nn.Linear(WIDTH, WIDTH, bias=False)
        self.rotary = Rotary()

    def project(self, x: Tensor) -> list[Tensor]:
        """Queries, keys and values (batch, heads, length, features)."""
        parts = (self.query, self.key, self.value)
        return [p(x).unflatten(-1, (-1, EACH)).transpose(1, 2) for p in parts]

    def weigh(self, scores: Tensor) -> Tensor:
        """The weights of the keys, none in the future."""
        seen = lower(scores.size(-1), scores.device)
        return scores.masked_fill(~seen, -math.inf).softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, features) -> the same shape."""
        query, key, value = self.project(x)
        key, value = (t.repeat_interleave(2, 1) for t in (self.rotary(key), value))
        scores = self.rotary(query) @ key.mT / math.sqrt(EACH)
        return self.output((self.weigh(scores) @ value).transpose(1, 2).flatten(2))


class Gated(nn.Module):
    """A feed-forward part whose one half opens the other."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(…, features) -> the same shape."""
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Every token goes to the two of four experts that its router likes best."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(WIDTH, 4, bias=False)
        self.experts = nn.ModuleList(Gated() for _ in range(4))

    def shares(self, x: Tensor) -> Tensor:
        """(batch, length, experts), how much of a token each expert gets."""
        liked = self.router(x).softmax(-1)
        best, which = liked.topk(2, -1)
        shares = torch.zeros_like(liked)
        return shares.scatter(-1, which, best / best.sum(-1, keepdim=True))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, features) -> the same shape."""
        shares = self.shares(x)
        parts = [e(x) * shares[..., i, None] for i, e in enumerate(self.experts)]
        return torch.stack(parts).sum(0)


class LlamaLayer(nn.Module):
    """Norm first, twice."""

    def __init__(self, feed_forward: nn.Module):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(), RMSNorm()
        self.attn, self.mlp = GroupedAttention(), feed_forward

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, features) -> the same shape."""
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class SmallLlama(nn.Module):
    """A decoder; with `experts`, each layer has a mixture of them."""

    def __init__(self, vocab: int, *, experts: bool = False):
        super().__init__()
        part = Experts if experts else Gated
        self.embedding = nn.Embedding(vocab, WIDTH)
        self.layers = nn.ModuleList(LlamaLayer(part()) for _ in range(2))
        self.norm = RMSNorm()
        self.projection = nn.Linear(WIDTH, vocab, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (batch, length, vocab)."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.projection(self.norm(x))


# --- A small GPT ----------------------------------------------------------------------


class FusedAttention(nn.Module):
    """One matrix for queries, keys and values; the rate of its dropout is called p."""

    def __init__(self):
        super().__init__()
        self.p = 0.1
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """(batch, heads, length, features) each -> the same shape."""
        p = self.p if self.training else 0.0
        options = {"dropout_p": p, "is_causal": True}
        return F.scaled_dot_product_attention(query, key, value, **options)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, features) -> the same shape."""
        split = self.c_attn(x).unflatten(-1, (3, HEADS, EACH)).movedim(-3, 0)
        mixed = self.attend(*(part.transpose(1, 2) for part in split))
        return self.c_proj(mixed.transpose(1, 2).flatten(2))


class GPTBlock(nn.Module):
    """Norm first, as in GPT-2."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = FusedAttention()
        wide = 4 * WIDTH
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, wide), nn.GELU(), nn.Linear(wide, WIDTH), nn.Dropout(0.1)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, features) -> the same shape."""
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class SmallGPT(nn.Module):
    """A decoder with learned positions and one matrix at both ends."""

    def __init__(self, vocab: int):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks = nn.ModuleList(GPTBlock() for _ in range(2))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.projection = nn.Linear(WIDTH, vocab, bias=False)
        self.wte.weight = self.projection.weight

    def places(self, tokens: Tensor) -> Tensor:
        """The position of each token, (length,)."""
        return torch.arange(tokens.size(1), device=tokens.device)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (batch, length, vocab)."""
        x = self.wte(tokens) + self.wpe(self.places(tokens))
        for block in self.blocks:
            x = block(x)
        return self.projection(self.ln_f(x))
