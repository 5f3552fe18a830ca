"""Stacks of blocks, joined in five ways, and a task to train them on (lesson 05)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers.attention import MultiHeadAttention
from helpers.layers import FeedForward, LayerNorm, LayerSizes, Residual
from helpers.positions import positional_encoding

KINDS, LENGTH = 12, 6  # different tokens, and tokens in a sequence
SIZES = LayerSizes(d_model=64, n_heads=4, d_ff=128, dropout=0.0, norm_first=True)
RULES = {
    "plain": lambda x, sublayer, norm: sublayer(x),
    "norm only": lambda x, sublayer, norm: norm(sublayer(x)),
    "x + only": lambda x, sublayer, norm: x + sublayer(x),
}
WAYS = (*RULES, "norm last", "norm first")


class Join(nn.Module):
    """Join a sublayer to the stack by one of the RULES; called as Residual is."""

    def __init__(self, d_model: int, rule: Callable):
        super().__init__()
        self.norm, self.rule = LayerNorm(d_model), rule

    def forward(self, x: Tensor, sublayer: Callable) -> Tensor:
        """x, sublayer(x) and the result are (batch, length, d_model)."""
        return self.rule(x, sublayer, self.norm)


def make_join(sizes: LayerSizes, way: str) -> nn.Module:
    """A Residual for norm first and norm last, a Join for the rest."""
    if way in RULES:
        return Join(sizes.d_model, RULES[way])
    first = way == "norm first"
    return Residual(sizes.d_model, dropout=sizes.dropout, norm_first=first)


class Block(nn.Module):
    """Self-attention, then feed-forward, each joined in the same way."""

    def __init__(self, sizes: LayerSizes, way: str):
        super().__init__()
        self.attention = MultiHeadAttention(sizes.d_model, sizes.n_heads)
        self.feed_forward = FeedForward(sizes.d_model, sizes.d_ff)
        self.joins = nn.ModuleList(make_join(sizes, way) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) -> the same shape."""
        x = self.joins[0](x, lambda y: self.attention(y, y, y))
        return self.joins[1](x, self.feed_forward)


class Stack(nn.Module):
    """So many blocks; for x + only and norm first, a norm at the top."""

    def __init__(self, n_blocks: int, sizes: LayerSizes, way: str):
        super().__init__()
        self.blocks = nn.ModuleList(Block(sizes, way) for _ in range(n_blocks))
        needs_norm = way in ("x + only", "norm first")
        self.norm = LayerNorm(sizes.d_model) if needs_norm else nn.Identity()

    def states(self, x: Tensor) -> list[Tensor]:
        """The input and every block's output, each (batch, length, d_model)."""
        states = [x]
        for block in self.blocks:
            states.append(block(states[-1]))
        return states

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) -> the same shape."""
        return self.norm(self.states(x)[-1])


@torch.no_grad()
def draw_weights(stack: nn.Module, seed: int, *, xavier: bool = False) -> nn.Module:
    """Draw initial weights as nn.Linear does, matrix by matrix in order of their names.

    `xavier`: by Glorot and Bengio's rule, as the course's Transformer does.
    """
    chance = torch.Generator().manual_seed(seed)
    parameters = dict(sorted(stack.named_parameters()))
    for name, weight in parameters.items():
        matrix = parameters.get(name.replace("bias", "weight"))
        if matrix is None or matrix.dim() < 2:  # gain and bias of a norm stay 1 and 0
            continue
        bound = (6 / sum(matrix.shape) if xavier else 1 / matrix.size(1)) ** 0.5
        bound = 0.0 if xavier and weight.dim() < 2 else bound
        weight.uniform_(-bound, bound, generator=chance)
    return stack


class Reverser(nn.Module):
    """Tokens (batch, 6) to logits (batch, 6, 12): the same tokens, backwards."""

    def __init__(self, stack: nn.Module, seed: int):
        super().__init__()
        torch.manual_seed(seed)
        self.embedding = nn.Embedding(KINDS, SIZES.d_model)
        self.readout = nn.Linear(SIZES.d_model, KINDS)
        self.register_buffer("places", positional_encoding(LENGTH, SIZES.d_model))
        self.stack = stack

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits."""
        return self.readout(self.stack(self.embedding(tokens) + self.places))


def reversal(seed: int) -> tuple[Callable, Callable]:
    """For `fit`: batches of 32 sequences of random tokens, and the loss."""
    chance = torch.Generator().manual_seed(seed)

    def make_batch() -> tuple[Tensor, Tensor]:
        tokens = torch.randint(KINDS, (32, LENGTH), generator=chance)
        return tokens, tokens.flip(1)

    def loss(logits: Tensor, wanted: Tensor) -> Tensor:
        return F.cross_entropy(logits.flatten(0, 1), wanted.flatten())

    return make_batch, loss
