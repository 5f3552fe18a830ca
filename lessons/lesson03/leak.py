"""Attention that hides too late, and a game that only a cheat can win (lesson 03)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers.training import fit

LETTERS, LENGTH = 16, 8  # letters to choose from, letters to read


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

    def __init__(self, attend: Callable, rule: Callable[[int], Tensor]):
        super().__init__()
        self.attend, self.rule = attend, rule
        self.embedding = nn.Embedding(LETTERS, 32)
        self.position = nn.Parameter(0.5 * torch.randn(LENGTH, 32))
        self.projections = nn.Linear(32, 3 * 32, bias=False)
        self.guess = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, LETTERS))

    def forward(self, letters: Tensor) -> Tensor:
        """The logits of each next letter."""
        length = letters.size(1)
        x = self.embedding(letters) + self.position[:length]
        query, key, value = self.projections(x).chunk(3, dim=-1)
        # the mask as (1, length, length): here are no heads
        context, _ = self.attend(query, key, value, self.rule(length)[0])
        return self.guess(self.join(x, context))

    def join(self, x: Tensor, context: Tensor) -> Tensor:
        """What the network reads: the context alone."""
        return context


def losses_of(model: nn.Module, sequences: Tensor) -> Tensor:
    """The loss at each place of random sequences (batch, up to LENGTH + 1)."""
    logits = model(sequences[:, :-1])
    return F.cross_entropy(logits.mT, sequences[:, 1:], reduction="none")


def train(model: nn.Module, rows: Tensor | None, *, steps: int, rate: float) -> Tensor:
    """Train on new random letters in each step, or on the same `rows`; the losses."""

    def make_batch() -> tuple[Tensor, Tensor]:
        letters = torch.randint(LETTERS, (64, LENGTH + 1)) if rows is None else rows
        return letters[:, :-1], letters[:, 1:]

    def loss(logits: Tensor, answers: Tensor) -> Tensor:
        return F.cross_entropy(logits.mT, answers)  # .mT: classes on axis 1

    return torch.tensor(fit(model, make_batch, loss, steps=steps, rate=rate))


@torch.no_grad()
def losses_in_writing(model: nn.Module, sequences: Tensor) -> Tensor:
    """The loss at each place, if the input ends there: no later letter exists yet."""
    cuts = [sequences[:, : place + 2] for place in range(LENGTH)]
    return torch.stack([losses_of(model, cut)[:, -1] for cut in cuts], dim=1)


class RealBlock(Guesser):
    """As in a Transformer: the input is added, and a layer norm follows."""

    def join(self, x: Tensor, context: Tensor) -> Tensor:
        """The normalised sum."""
        return F.layer_norm(x + context, x.shape[-1:])
