"""Attention that hides too late, and a game that only a cheat can win (lesson 03)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LETTERS, LENGTH = 16, 8  # of the game: letters to choose from, letters to read


def after_the_softmax(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Attention that hides weights, not scores. This is a mistake."""
    weights = (query @ key.mT / math.sqrt(query.size(-1))).softmax(dim=-1)
    weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


def renormalised(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """The same, but each row of weights is divided by its sum."""
    _, weights = after_the_softmax(query, key, value, mask)
    weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ value, weights


class Guesser(nn.Module):
    """Guess the next letter at each place: one attention, then a small network.

    letters (batch, length) -> logits (batch, length, LETTERS), length at most LENGTH.
    """

    def __init__(self, attend: Callable, mask: Tensor):
        super().__init__()
        self.attend, self.mask = attend, mask
        self.embedding = nn.Embedding(LETTERS, 32)
        self.position = nn.Parameter(0.5 * torch.randn(LENGTH, 32))
        self.projections = nn.Linear(32, 3 * 32, bias=False)
        self.guess = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, LETTERS))

    def look(self, letters: Tensor) -> tuple[Tensor, Tensor]:
        """The attention's context and weights."""
        n = letters.size(1)
        x = self.embedding(letters) + self.position[:n]
        return self.attend(*self.projections(x).chunk(3, dim=-1), self.mask[:n, :n])

    def forward(self, letters: Tensor) -> Tensor:
        """What it makes of the contexts."""
        return self.guess(self.look(letters)[0])


def losses_of(model: nn.Module, sequences: Tensor) -> Tensor:
    """The loss at each place of random sequences (batch, up to LENGTH + 1)."""
    logits = model(sequences[:, :-1])
    return F.cross_entropy(logits.mT, sequences[:, 1:], reduction="none")


@torch.no_grad()
def losses_in_writing(model: nn.Module, sequences: Tensor) -> Tensor:
    """The same, but each input ends at the place: no later letter exists yet."""
    cuts = [sequences[:, : place + 2] for place in range(LENGTH)]
    return torch.stack([losses_of(model, cut)[:, -1] for cut in cuts], dim=1)


def train_guesser(
    attend: Callable,
    mask: Tensor,
    *,
    steps: int = 600,
    rate: float = 0.003,
    seed: int = 0,
) -> tuple[Guesser, Tensor]:
    """Train on ever new random letters; the model, and its losses (steps,)."""
    torch.manual_seed(seed)
    model = Guesser(attend, mask)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        sequences = torch.randint(LETTERS, (64, LENGTH + 1))
        loss = losses_of(model, sequences).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, torch.tensor(losses)
