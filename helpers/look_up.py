"""A game that one layer of self-attention learns in a second (lesson 02).

Six friends hold a card each: their name, the friend whose secret they want to know,
and a secret of their own. A round of the game is a sentence, a card is a token.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers.attention import attention

FRIENDS = ("Ada", "Ben", "Eve", "Max", "Mia", "Tom")
SECRET = 4  # numbers in a secret
D_MODEL = 2 * len(FRIENDS) + SECRET  # numbers on a card


class Rounds(NamedTuple):
    """Rounds of the game, and what a layer is to find out in them."""

    cards: Tensor  # (rounds, 6, 16): 6 for the name, 6 for the friend, the secret
    wanted: Tensor  # (rounds, 6, 4): the friend's secret
    friend: Tensor  # (rounds, 6): where the friend's card lies, 0 to 5


def deal(rounds: int, generator: torch.Generator) -> Rounds:
    """Deal so many rounds: cards in random order, each looking for another one.

    Name and friend are one-hot; a secret is drawn from a normal distribution.
    """
    shape = rounds, len(FRIENDS)
    name = torch.rand(shape, generator=generator).argsort(dim=1)
    further = torch.randint(1, len(FRIENDS), shape, generator=generator)
    friend = (torch.arange(len(FRIENDS)) + further) % len(FRIENDS)
    secret = torch.randn(*shape, SECRET, generator=generator)
    hot = [F.one_hot(x, len(FRIENDS)) for x in (name, name.gather(1, friend))]
    wanted = secret.take_along_dim(friend[..., None], dim=1)
    return Rounds(torch.cat([*hot, secret], dim=-1), wanted, friend)


def who(cards: Tensor) -> list[str]:
    """The names on the cards of one round, (6, 16)."""
    return [FRIENDS[i] for i in cards[:, : len(FRIENDS)].argmax(dim=1)]


class SelfAttention(nn.Module):
    """Every token looks things up among all tokens: one head, no bias.

    x (batch, length, d_model) to the context (batch, length, d_value) and the weights
    (batch, length, length). Vaswani et al. 2017, section 3.2.
    """

    def __init__(self, d_model: int, d_head: int, d_value: int):
        super().__init__()
        self.query = nn.Linear(d_model, d_head, bias=False)
        self.key = nn.Linear(d_model, d_head, bias=False)
        self.value = nn.Linear(d_model, d_value, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Context and weights of the tokens x."""
        return attention(self.query(x), self.key(x), self.value(x), mask)


def train_look_up(
    layer: nn.Module,
    mask: Tensor | None = None,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    steps: int = 300,
    seed: int = 0,
) -> Tensor:
    """Train a layer on rounds of the game; the loss (steps,) as it went.

    Without an optimizer it is Adam with a learning rate of 0.01.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = optimizer or torch.optim.Adam(layer.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        cards, wanted, _ = deal(64, generator)
        context, _ = layer(cards, mask)
        loss = F.mse_loss(context, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)
