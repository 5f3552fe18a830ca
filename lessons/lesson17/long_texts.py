"""Small causal models, trained on short texts, read longer ones (lesson 17).

Two tasks on random letters. "look back": say the letter three places earlier.
"latest mark": say the latest letter that was marked, this one included.
"""

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers.caching import AttentionCache
from helpers.masks import causal_mask
from helpers.modern.attention import GroupedQueryAttention
from helpers.modern.block import ModernBlock
from helpers.modern.norm import RMSNorm
from helpers.modern.rotary import rotary_angles, rotate
from helpers.positions import positional_encoding

LETTERS, BACK, NOTHING = 8, 3, -100  # NOTHING: no answer is due there
TASKS = ("look back", "latest mark")
KINDS = ("sinusoids", "rotary", "ALiBi", "none")


def texts(task: str, n: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Ids and answers, each (n, length); ids from LETTERS on are marked letters."""
    generator = torch.Generator().manual_seed(seed)
    letters = torch.randint(LETTERS, (n, length), generator=generator)
    answers = torch.full_like(letters, NOTHING)
    if task == "look back":
        answers[:, BACK:] = letters[:, :-BACK]
        return letters, answers
    marked = torch.rand(n, length, generator=generator) < 0.2
    places = torch.where(marked, torch.arange(length), -1).cummax(dim=1).values
    known = letters.gather(1, places.clamp(min=0))
    return letters + LETTERS * marked, known.masked_fill(places < 0, NOTHING)


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


class ClampedAttention(GroupedQueryAttention):
    """Rotary self-attention to which no key is farther away than `farthest` places.

    `clocks` are the pairs of features for which this holds; the others turn on.
    """

    farthest: int
    clocks: Sequence[int]

    def forward(
        self,
        x: Tensor,
        angles: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        cache: AttentionCache | None = None,
    ) -> Tensor:
        """GroupedQueryAttention's under a mask; it takes no cache."""
        query = self.split_heads(self.query_projection(x))
        key = self.split_heads(self.key_projection(x))
        value = self.split_heads(self.value_projection(x))
        turned_query, turned_key = rotate(query, angles), rotate(key, angles)
        stopped = torch.zeros(2, self.d_head // 2)
        stopped[:, self.clocks] = 1.0
        stopped = stopped.flatten()  # which features have stopped clocks
        last = (angles[self.farthest] - angles[0]).expand_as(angles)
        near = turned_query @ turned_key.mT
        far = (1 - stopped) * turned_query @ turned_key.mT
        far = far + stopped * rotate(query, last) @ key.mT
        place = torch.arange(x.size(1))
        scores = torch.where(place[:, None] - place > self.farthest, far, near)
        scores = scores.masked_fill(~mask, -math.inf) / math.sqrt(self.d_head)
        context = scores.softmax(dim=-1) @ value
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
        self, letters: Tensor, *, start: int = 0, hidden: Sequence[int] = ()
    ) -> Tensor:
        """letters (batch, length) -> logits (batch, length, LETTERS).

        The first letter stands at `start`; a letter is hidden from those that come
        so many places later as `hidden` says.
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
            angles = rotary_angles(start + length, d_head)[start:]
        for block in self.blocks:
            x = block(x, angles, mask)
        return self.projection(self.norm(x))


def train_reader(
    kind: str, task: str, seed: int, *, length: int, steps: int
) -> TextReader:
    """A reader that has seen texts of one length alone."""
    torch.manual_seed(seed)
    reader = TextReader(kind)
    optimizer = torch.optim.AdamW(reader.parameters(), lr=3e-3)
    for step in range(steps):
        letters, answers = texts(task, 32, length, seed=10_000 * (seed + 1) + step)
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * min(1, (step + 1) / 50)
        optimizer.zero_grad()
        logits = reader(letters)
        F.cross_entropy(
            logits.flatten(0, 1), answers.flatten(), ignore_index=NOTHING
        ).backward()
        optimizer.step()
    return reader


def clamped(reader: TextReader, farthest: int, clocks: Sequence[int]) -> TextReader:
    """A copy of a rotary reader in which these clocks stop at a distance."""
    reader = copy.deepcopy(reader)
    for block in reader.blocks:
        trained, sizes = block.attention, (reader.d_model, *[reader.n_heads] * 2)
        block.attention = ClampedAttention(*sizes)
        block.attention.load_state_dict(trained.state_dict())
        block.attention.farthest, block.attention.clocks = farthest, clocks
    return reader


@torch.no_grad()
def clock_scores(reader: TextReader, length: int) -> Tensor:
    """Scores of a rotary reader's last block by distance, (clocks, length).

    Each clock, a pair of features, adds its own part to the score. Means over the heads
    and the pairs of letters in 50 random texts.
    """
    letters, _ = texts("look back", 50, length, seed=1)
    attention, found = reader.blocks[-1].attention, []
    hook = reader.blocks[-1].attention_norm.register_forward_hook(
        lambda module, given, output: found.append(output)
    )
    reader(letters)
    hook.remove()
    angles = rotary_angles(length, attention.d_head)
    query, key = (
        rotate(attention.split_heads(projection(found[0])), angles)
        for projection in (attention.query_projection, attention.key_projection)
    )
    parts = []
    for clock in range(attention.d_head // 2):
        pair = [clock, clock + attention.d_head // 2]
        scores = (query[..., pair] @ key[..., pair].mT).mean(dim=(0, 1))
        parts.append([scores.diagonal(-d).mean().item() for d in range(length)])
    return torch.tensor(parts) / math.sqrt(attention.d_head)


@torch.no_grad()
def right(reader: TextReader, task: str, length: int, **options) -> Tensor:
    """The share of right answers at each position of 200 new texts, (length,)."""
    letters, answers = texts(task, 200, length, seed=1)
    hits = reader(letters, **options).argmax(dim=-1) == answers
    due = answers != NOTHING
    return (hits & due).sum(dim=0) / due.sum(dim=0).clamp(min=1)
