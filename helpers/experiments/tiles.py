"""What lesson 19 measures of attention in blocks: equality, memory, tiles."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from helpers.attention import attention
from helpers.experiments.peak import peak_bytes
from helpers.modern.blockwise import Rule, blocks, visible
from helpers.probes import exponent

Way = Callable[..., Tensor]


def make_inputs(length: int, seed: int = 0) -> list[Tensor]:
    """Random query, key and value (1, 1, length, 64), which want gradients."""
    generator = torch.Generator().manual_seed(seed)
    three = torch.randn(3, 1, 1, length, 64, generator=generator)
    return [x.clone().requires_grad_() for x in three]


def peaks(way: Way, lengths: Sequence[int], *, training: bool = False) -> list[int]:
    """Peak bytes of way(query, key, value) at each length.

    In training, those of the gradients, too.
    """

    def work(inputs: list[Tensor]) -> object:
        with torch.set_grad_enabled(training):
            context = way(*inputs)
        return torch.autograd.grad(context.sum(), inputs) if training else context

    return [peak_bytes(partial(work, make_inputs(length))) for length in lengths]


def show_growth(name: str, lengths: Sequence[int], found: Sequence[int]) -> float:
    """Print the bytes of each length in MB; the p of bytes as length to the power p."""
    power = exponent(lengths, found)
    print(f"{name:15}", *(f"≈ {x / 1e6:6.2f}" for x in found), end=" MB, ")
    print(f"exponent ≈ {power:.2f}")
    return power


def all_masks(batch: int, heads: int, queries: int, keys: int) -> list[Tensor | None]:
    """None, a hidden first half, a query that is blind, four shapes of random ones."""
    shapes = (batch, heads, queries, keys), (batch, 1, 1, keys), (queries, 1), (keys,)
    late = torch.arange(keys) >= keys // 2
    blind = (torch.arange(queries) > 0)[:, None].expand(queries, keys)
    return [None, late, blind, *(torch.rand(shape) < 0.5 for shape in shapes)]


def largest_difference(way: Way) -> tuple[int, float]:
    """How many comparisons of way(query, key, value, mask, block) with attention.

    And the largest difference, over three seeds, seven masks and four sizes of a block.
    """
    found = []
    for seed in range(3):
        torch.manual_seed(seed)
        query, key, value = (torch.randn(2, 3, length, 8) for length in (10, 13, 13))
        for mask in all_masks(2, 3, 10, 13):
            due = attention(query, key, value, mask)[0]
            for block in (1, 4, 7, 50):
                context = way(query, key, value, mask, block)
                found.append((context - due).abs().max().item())
    worst = torch.tensor(found).max()  # NaN if there is one
    return len(found), worst.item()


def grid(rule: Rule, length: int, block: int) -> Tensor:
    """Which tiles (query blocks, key blocks) `visible` gives."""
    size = len(blocks(length, block))
    found = torch.zeros(size, size, dtype=torch.bool)
    for i, rows in enumerate(blocks(length, block)):
        for columns, _ in visible(rule, rows, length, block):
            found[i, columns.start // block] = True
    return found
