"""A task for several heads: tell the left neighbour from the right one (lesson 04).

A sentence of eight words is bent into a ring: the last word is the left neighbour of
the first. A word is a token of 24 features: which word, which place, and 8 empty ones.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers.attention import MultiHeadAttention
from helpers.training import fit

WORDS = ("the", "cat", "saw", "the", "dog", "and", "the", "bird")
D_MODEL = 24
WORD, PLACE, EMPTY = slice(0, 8), slice(8, 16), slice(16, 24)  # features of a token


def as_ring(words: Tensor) -> Tensor:
    """Words (batch, 8, 8) as tokens (batch, 8, 24), with their places."""
    batch = len(words)
    places, empty = torch.eye(8).expand(batch, 8, 8), torch.zeros(batch, 8, 8)
    return torch.cat([words, places, empty], dim=2)


def sentence(words: Sequence[str] = WORDS) -> Tensor:
    """Eight words as a ring (1, 8, 24); each word is a one-hot vector."""
    vocabulary = list(dict.fromkeys(words))  # each word once
    ids = torch.tensor([vocabulary.index(word) for word in words])
    return as_ring(F.one_hot(ids, 8)[None].float())


def random_rings(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rings (count, 8, 24) of random words, and left minus right (count, 8, 8)."""
    words = torch.randn(count, 8, 8, generator=generator)
    return as_ring(words), words.roll(1, dims=1) - words.roll(-1, dims=1)


def fresh(kind: type[nn.Module], n_heads: int, seed: int) -> nn.Module:
    """A module of this class with the course's initial weights of this seed."""
    torch.manual_seed(seed)
    initial = MultiHeadAttention(D_MODEL, n_heads).state_dict()
    module = kind(D_MODEL, n_heads)
    module.load_state_dict(initial, strict=False)
    return module


def train_on_rings(
    module: nn.Module, *, steps: int = 600, rate: float = 0.01, seed: int = 0
) -> Tensor:
    """Train a module to put left minus right into EMPTY; the loss (steps,)."""
    generator = torch.Generator().manual_seed(seed)

    def make_batch() -> list[Tensor]:
        rings, wanted = random_rings(64, generator)
        return [rings, rings, rings, wanted]

    def loss(output: Tensor, wanted: Tensor) -> Tensor:
        return F.mse_loss(output[..., EMPTY], wanted)

    return torch.tensor(fit(module, make_batch, loss, steps=steps, rate=rate))


def effect(module: nn.Module, ring: Tensor) -> Tensor:
    """(8, 8): how much of the word at place j arrives in the answer at place i.

    From the Jacobian at the ring (1, 8, 24), averaged over the features of a word.
    """
    blocks = torch.autograd.functional.jacobian(
        lambda x: module(x, x, x)[0, :, EMPTY], ring
    )  # (place, feature, 1, place, feature)
    words = blocks[:, :, 0, :, WORD]
    return words.diagonal(dim1=1, dim2=3).mean(dim=-1)
