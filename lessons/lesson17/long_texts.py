"""Small causal models, trained on short texts, read longer ones (lesson 17).

The task: say the latest letter that was marked, this one included.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers.caching import AttentionCache
from helpers.masks import causal_mask
from helpers.modern.attention import GroupedQueryAttention
from helpers.modern.block import ModernBlock
from helpers.modern.norm import RMSNorm
from helpers.modern.rotary import rotary_angles
from helpers.positions import positional_encoding

LETTERS, NOTHING = 8, -100  # NOTHING: no answer is due there
KINDS = ("sinusoids", "rotary", "ALiBi", "none")


def texts(n: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Ids and answers, each (n, length); ids from LETTERS on are marked letters."""
    generator = torch.Generator().manual_seed(seed)
    letters = torch.randint(LETTERS, (n, length), generator=generator)
    marked = torch.rand(n, length, generator=generator) < 0.2
    places = torch.where(marked, torch.arange(length), -1).cummax(dim=1).values
    answers = letters.gather(1, places.clamp(min=0)).masked_fill(places < 0, NOTHING)
    return letters + LETTERS * marked, answers


def alibi(n_heads: int, length: int) -> Tensor:
    """-slope · distance for each head, (n_heads, length, length); Press et al. 2022."""
    slopes = 2.0 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    place = torch.arange(length)
    return -slopes[:, None, None] * (place[:, None] - place).abs()


class AlibiAttention(GroupedQueryAttention):
    """Self-attention whose scores fall with the distance, head by head."""

    def forward(
        self,
        x: Tensor,
        angles: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        cache: AttentionCache | None = None,
    ) -> Tensor:
        """GroupedQueryAttention's under a mask; it takes no angles and no cache."""
        query = self.split_heads(self.query_projection(x))
        key = self.split_heads(self.key_projection(x))
        value = self.split_heads(self.value_projection(x))
        bias = alibi(query.size(1), x.size(1)).masked_fill(~mask, -torch.inf)
        context = F.scaled_dot_product_attention(query, key, value, bias)
        return self.output_projection(context.transpose(1, 2).flatten(2))


class TextReader(nn.Module):
    """Two blocks on embedded letters, with one kind of positions."""

    d_model, n_heads = 32, 4

    def __init__(self, kind: str):
        super().__init__()
        self.kind = kind
        self.embedding = nn.Embedding(2 * LETTERS, self.d_model)
        sizes = self.d_model, self.n_heads, self.n_heads, 64
        self.blocks = nn.ModuleList(ModernBlock(*sizes) for _ in range(2))
        if kind == "ALiBi":
            for block in self.blocks:
                block.attention = AlibiAttention(*sizes[:3])
        self.norm = RMSNorm(self.d_model)
        self.projection = nn.Linear(self.d_model, LETTERS, bias=False)

    def forward(
        self,
        letters: Tensor,
        *,
        start: int = 0,
        hidden: Sequence[int] = (),
        base: float = 10_000.0,
    ) -> Tensor:
        """letters (batch, length) -> logits (batch, length, LETTERS).

        The first letter stands at `start`; a letter is hidden from those that come
        so many places later as `hidden` says. `base` is that of rotary positions.
        """
        length = letters.size(1)
        place, angles = torch.arange(length), None
        distance = place[:, None] - place
        mask = causal_mask(length) & ~torch.isin(distance, torch.tensor([*hidden]))
        x = self.embedding(letters)
        if self.kind == "sinusoids":
            x = x + positional_encoding(start + length, self.d_model)[start:]
        if self.kind == "rotary":
            d_head = self.d_model // self.n_heads
            angles = rotary_angles(start + length, d_head, base=base)[start:]
        for block in self.blocks:
            x = block(x, angles, mask)
        return self.projection(self.norm(x))


def train_reader(kind: str, seed: int, *, length: int, steps: int) -> TextReader:
    """A reader that has seen texts of one length alone."""
    torch.manual_seed(seed)
    reader = TextReader(kind)
    optimizer = torch.optim.AdamW(reader.parameters())
    for step in range(steps):
        letters, answers = texts(32, length, seed=10_000 * (seed + 1) + step)
        optimizer.param_groups[0]["lr"] = 3e-3 * min(1, (step + 1) / 50)
        optimizer.zero_grad()
        logits = reader(letters).mT
        F.cross_entropy(logits, answers, ignore_index=NOTHING).backward()
        optimizer.step()
    return reader


@torch.no_grad()
def right(reader: TextReader, length: int, **options) -> Tensor:
    """The share of right answers at each position of 200 new texts, (length,)."""
    letters, answers = texts(200, length, seed=1)
    hits = reader(letters, **options).argmax(dim=-1) == answers
    due = answers != NOTHING
    return (hits & due).sum(dim=0) / due.sum(dim=0)
