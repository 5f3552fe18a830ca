"""What lesson 19 measures of attention in blocks: equality, and what is in memory."""

import weakref
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from helpers.attention import attention
from helpers.masks import causal_mask
from helpers.probes import kept_numbers

Way = Callable[..., Tensor]
GPU = Path(__file__).with_name("on_a_gpu.csv")


class Held(TorchDispatchMode):
    """Counts floats: of the `largest` tensor made in its block, and of the `most` held.

    Counted is what PyTorch's operations return, not what they make inside. `most` holds
    where autograd keeps nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.largest = self.most = self.now = 0
        self.users: Counter = Counter()  # of each place in memory: a view takes none

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        output = func(*args, **(kwargs or {}))
        for x in output if isinstance(output, list | tuple) else [output]:
            if isinstance(x, Tensor) and x.is_floating_point():
                store = x.untyped_storage()
                place, size = store.data_ptr(), store.nbytes() // x.itemsize
                self.now += 0 if self.users[place] else size
                self.users[place] += 1
                weakref.finalize(x, self._freed, place, size)
                self.largest, self.most = (
                    max(self.largest, size),
                    max(self.most, self.now),
                )
        return output

    def _freed(self, place: int, size: int) -> None:
        self.users[place] -= 1
        self.now -= 0 if self.users[place] else size


def make_inputs(length: int, seed: int = 0) -> list[Tensor]:
    """Random query, key and value (1, 1, length, 64), which want gradients."""
    generator = torch.Generator().manual_seed(seed)
    three = torch.randn(3, 1, 1, length, 64, generator=generator)
    return [x.clone().requires_grad_() for x in three]


def largest(way: Way, length: int, *, training: bool = False) -> int:
    """Floats of the largest tensor that way(query, key, value) makes.

    In training, also of those that its gradients make.
    """
    inputs = make_inputs(length)
    with torch.set_grad_enabled(training), Held() as held:
        context = way(*inputs)
        if training:
            torch.autograd.grad(context.sum(), inputs)
    return held.largest


def kept(way: Way, length: int) -> int:
    """How many floats autograd keeps of way(query, key, value), its inputs counted."""
    return kept_numbers(nn.Identity(), partial(way, *make_inputs(length)))


def products(way: Way, length: int) -> float:
    """Operations of training way(query, key, value), in products of 2 · length² · 64.

    Only matrix products count, as PyTorch's FlopCounterMode sees them.
    """
    inputs = make_inputs(length)
    with FlopCounterMode(display=False) as counter:
        torch.autograd.grad(way(*inputs).sum(), inputs)
    return counter.get_total_flops() / (2 * length**2 * 64)


def all_masks(batch: int, heads: int, queries: int, keys: int) -> list[Tensor | None]:
    """None, a hidden first half, a blind query, causal, three shapes of random ones."""
    shapes = (batch, heads, queries, keys), (batch, 1, 1, keys), (queries, 1)
    late = torch.arange(keys) >= keys // 2
    blind = (torch.arange(queries) > 0)[:, None].expand(queries, keys)
    causal = torch.ones(queries, keys, dtype=torch.bool).tril()
    return [None, late, blind, causal, *(torch.rand(shape) < 0.5 for shape in shapes)]


def largest_difference(way: Way) -> tuple[int, float]:
    """How many comparisons of way(query, key, value, mask, block=…) with attention.

    And the largest difference, over three seeds, seven masks and four sizes of a block;
    then of a long text with a causal mask.
    """
    found = []
    for seed in range(3):
        torch.manual_seed(seed)
        query, key = torch.randn(2, 3, 10, 8), torch.randn(2, 3, 13, 8)
        value = torch.rand(2, 3, 13, 8)
        cases = [(m, b) for m in all_masks(2, 3, 10, 13) for b in (1, 4, 7, 50)]
        given = [(query, key, value, *case) for case in cases]
        if not seed:
            given += [(*torch.randn(3, 1, 2, 3000, 8), causal_mask(3000), 64)]
        for *inputs, block in given:
            context = way(*inputs, block=block)
            found.append((context - attention(*inputs)[0]).abs().max())
    return len(found), torch.stack(found).max().item()  # NaN if there is one


def on_a_gpu(length: int) -> pd.DataFrame:
    """A row for each way: training in bf16 with 8 heads of 64, as `on_a_gpu` found.

    Median milliseconds and peak mebibytes, on the GPU that benchmarks/gpu.txt names.
    """
    table = pd.read_csv(GPU)
    return table[table.length == length].set_index("way").drop(columns="length")
