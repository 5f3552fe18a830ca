"""Stacks of blocks in five wirings, and a task to train them on (lesson 05)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers.attention import MultiHeadAttention
from helpers.layers import FeedForward, LayerNorm
from helpers.positions import positional_encoding

KINDS, LENGTH = 12, 6  # different tokens, and tokens in a sequence
WIRINGS = {
    "bare": lambda x, sublayer, norm: sublayer(x),
    "norm only": lambda x, sublayer, norm: norm(sublayer(x)),
    "residual only": lambda x, sublayer, norm: x + sublayer(x),
    "norm last": lambda x, sublayer, norm: norm(x + sublayer(x)),
    "norm first": lambda x, sublayer, norm: x + sublayer(norm(x)),
}


class Block(nn.Module):
    """Self-attention, then feed-forward, each joined to the stream by a wiring."""

    def __init__(self, d_model: int, wire: Callable):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, 4)
        self.feed_forward = FeedForward(d_model, 2 * d_model)
        self.norms = nn.ModuleList(LayerNorm(d_model) for _ in range(2))
        self.wire = wire

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) -> the same shape."""
        x = self.wire(x, lambda y: self.attention(y, y, y), self.norms[0])
        return self.wire(x, self.feed_forward, self.norms[1])


class Stack(nn.Module):
    """So many blocks and, with `last_norm`, a norm on top; Xavier's first weights."""

    def __init__(self, n_blocks: int, d_model: int, wire: Callable, *, last_norm: bool):
        super().__init__()
        self.blocks = nn.ModuleList(Block(d_model, wire) for _ in range(n_blocks))
        self.norm = LayerNorm(d_model) if last_norm else nn.Identity()
        for part in self.modules():
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                nn.init.zeros_(part.bias)

    def states(self, x: Tensor) -> list[Tensor]:
        """The input and every block's output, each (batch, length, d_model)."""
        states = [x]
        for block in self.blocks:
            states.append(block(states[-1]))
        return states

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) -> the same shape."""
        return self.norm(self.states(x)[-1])


def position_difference(x: Tensor) -> float:
    """How much of x (batch, length, d_model) is left without the positions' mean.

    0 where all positions hold the same vector, at most 1.
    """
    return ((x - x.mean(dim=1, keepdim=True)).norm() / x.norm()).item()


class Reverser(nn.Module):
    """Tokens (batch, 6) to logits (batch, 6, 12): the same tokens, backwards."""

    def __init__(self, wiring: str, n_blocks: int, d_model: int = 32):
        super().__init__()
        self.embedding = nn.Embedding(KINDS, d_model)
        self.register_buffer("places", positional_encoding(LENGTH, d_model))
        last_norm = wiring in ("residual only", "norm first")
        self.stack = Stack(n_blocks, d_model, WIRINGS[wiring], last_norm=last_norm)
        self.readout = nn.Linear(d_model, KINDS)

    def top(self, tokens: Tensor) -> Tensor:
        """What the stack makes of the tokens (batch, 6, d_model)."""
        return self.stack(self.embedding(tokens) + self.places)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits."""
        return self.readout(self.top(tokens))


def train_reverser(
    model: Reverser,
    rate: float,
    warm_up: int,
    *,
    steps: int = 1000,
    seed: int = 0,
    gentle: bool = True,
    fresh: bool = False,
) -> tuple[list[float], list[float]]:
    """Train until the mean loss of 20 steps is below 0.1, or for so many steps.

    The rate grows in a straight line for `warm_up` steps. Without `gentle` it is 0
    until then: only Adam's averages warm up. With `fresh`, Adam starts anew then: only
    the weights have warmed up. Returns the losses, and how much the positions
    differed at the top in the first ten steps.
    """
    generator = torch.Generator().manual_seed(seed)
    options = {"lr": rate, "betas": (0.9, 0.98), "eps": 1e-9, "fused": True}
    optimizer = torch.optim.Adam(model.parameters(), **options)
    losses, differences = [], []
    for step in range(steps):
        if fresh and step == warm_up:
            optimizer = torch.optim.Adam(model.parameters(), **options)
        share = min(1, (step + 1) / warm_up) if gentle else float(step >= warm_up)
        for group in optimizer.param_groups:
            group["lr"] = rate * share
        tokens = torch.randint(KINDS, (32, LENGTH), generator=generator)
        top = model.top(tokens)
        if step <= 10:
            differences.append(position_difference(top.detach()))
        logits = model.readout(top).flatten(0, 1)
        loss = F.cross_entropy(logits, tokens.flip(1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if learnt(losses):
            break
    return losses, differences


def learnt(losses: list[float]) -> bool:
    """Whether the mean of the last 20 losses is below 0.1."""
    return len(losses) >= 20 and sum(losses[-20:]) / 20 < 0.1
