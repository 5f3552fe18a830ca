"""What lesson 19 measures of attention in blocks: equality, memory, tiles."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from helpers.attention import attention
from helpers.probes import kept_numbers
from lessons.lesson19.blockwise import (
    Rule,
    State,
    absorb,
    blocks,
    finish,
    masked_scores,
    nothing_yet,
    visible_blocks,
)
from lessons.lesson19.peak import peak_bytes
from lessons.lesson19.traffic import Memory

Way = Callable[..., Tensor]
GPU = Path(__file__).with_name("on_a_gpu.csv")


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


def kept_a_position(way: Way, lengths: Sequence[int]) -> list[float]:
    """What autograd keeps of way(query, key, value) for its backward pass.

    Numbers for each position, at each length; the inputs count where they are kept.
    """
    return [
        kept_numbers(nn.Identity(), partial(way, *make_inputs(length))) / length
        for length in lengths
    ]


def by_keys(query: Tensor, key: Tensor, value: Tensor, block: int = 64) -> Tensor:
    """Attention over blocks of keys, with `checkpoint` around each step."""

    def step(query: Tensor, key: Tensor, value: Tensor, *state: Tensor) -> State:
        return absorb(state, masked_scores(query, key, None), value)

    state = nothing_yet(query, value)
    for part in blocks(key.size(-2), block):
        some = query, key[..., part, :], value[..., part, :]
        state = checkpoint(step, *some, *state, use_reentrant=False)
    return finish(state)[0]


def show_growth(name: str, lengths: Sequence[int], found: Sequence[int]) -> float:
    """Print the bytes of each length in MB; the p of bytes as length to the power p."""
    power = exponent(lengths, found)
    print(f"{name:18}", *(f"≈ {x / 1e6:6.2f}" for x in found), end=" MB, ")
    print(f"exponent ≈ {power:.2f}")
    return power


def all_masks(batch: int, heads: int, queries: int, keys: int) -> list[Tensor | None]:
    """None, a hidden first half, a blind query, causal, three shapes of random ones."""
    shapes = (batch, heads, queries, keys), (batch, 1, 1, keys), (queries, 1)
    late = torch.arange(keys) >= keys // 2
    blind = (torch.arange(queries) > 0)[:, None].expand(queries, keys)
    causal = torch.ones(queries, keys, dtype=torch.bool).tril()
    return [None, late, blind, causal, *(torch.rand(shape) < 0.5 for shape in shapes)]


def largest_difference(way: Way) -> tuple[int, float]:
    """How many comparisons of way(query, key, value, mask, block) with attention.

    And the largest difference, over three seeds, seven masks and four sizes of a block.
    """
    found = []
    for seed in range(3):
        torch.manual_seed(seed)
        query, key = torch.randn(2, 3, 10, 8), torch.randn(2, 3, 13, 8)
        value = torch.rand(2, 3, 13, 8)
        for mask in all_masks(2, 3, 10, 13):
            due = attention(query, key, value, mask)[0]
            for block in (1, 4, 7, 50):
                context = way(query, key, value, mask, block)
                found.append((context - due).abs().max().item())
    worst = torch.tensor(found).max()  # NaN if there is one
    return len(found), worst.item()


def there_and_back(
    way: Way,
    length: int,
    *rest: object,
    seed: int = 0,
    bits: torch.dtype = torch.bfloat16,
    compute: torch.dtype = torch.float32,
) -> list[Tensor]:
    """The context of way(query, key, value, *rest), and the gradients of the three.

    Inputs and the context's gradient are random numbers, rounded to `bits`, in the
    type `compute`.
    """
    *given, pull = [*make_inputs(length, seed), make_inputs(length, seed + 1000)[0]]
    inputs = [x.detach().to(bits).to(compute).requires_grad_() for x in given]
    context = way(*inputs, *rest)
    pull = pull.detach().to(bits).to(compute)
    return [context.detach(), *torch.autograd.grad(context, inputs, pull)]


def errors_in_16_bits(way: Way, length: int) -> list[float]:
    """Relative errors in bfloat16 of the context, dQ, dK and dV: means of three seeds.

    Against lesson 02's attention of the same numbers in float64.
    """

    def table(*inputs: Tensor) -> Tensor:
        return attention(*inputs)[0]

    found = []
    for seed in range(3):
        exact = there_and_back(table, length, seed=seed, compute=torch.float64)
        rounded = there_and_back(way, length, seed=seed, compute=torch.bfloat16)
        pairs = zip(rounded, exact, strict=True)
        found.append([((x - y).norm() / y.norm()).item() for x, y in pairs])
    return torch.tensor(found).mean(dim=0).tolist()


def one_pass_error(
    one_pass: Way, *, add: float = 0.0, falling: bool = False, **left_out: bool
) -> float:
    """The largest error of one_pass(scores, values, **left_out) over three seeds.

    20 scores of a standard normal, plus `add`, as drawn or falling; NaN if one is.
    """
    found = []
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        drawn, values = torch.randn(2, 20, generator=generator)
        scores = add + (drawn.sort(descending=True).values if falling else drawn)
        due = scores.softmax(dim=0) @ values
        found.append((one_pass(scores, values, **left_out) - due).abs())
    return torch.stack(found).max().item()


def products(way: Way, length: int) -> tuple[float, float]:
    """Matrix products of length² · 64 multiplications each: forward, and backward."""
    unit, inputs = 2 * length**2 * 64, make_inputs(length)
    with FlopCounterMode(display=False) as counter:
        context = way(*inputs)
        forward = counter.get_total_flops() / unit
        context.sum().backward()
        return forward, counter.get_total_flops() / unit - forward


class _Operations(TorchDispatchMode):
    """Counts the operations that PyTorch's dispatcher runs."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def operations(way: Way, length: int) -> int:
    """How many operations PyTorch runs for way(query, key, value) and its gradients."""
    inputs = make_inputs(length)
    with _Operations() as found:
        torch.autograd.grad(way(*inputs).sum(), inputs)
    return found.count


def medians(ways: Mapping[str, Way], length: int, rounds: int = 5) -> dict[str, float]:
    """The median seconds of each way, forward and backward, taken in turns."""
    inputs, found = make_inputs(length), {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = perf_counter()
            torch.autograd.grad(way(*inputs).sum(), inputs)
            found[name].append(perf_counter() - start)
    return {name: median(taken) for name, taken in found.items()}


def on_a_gpu(precision: str, length: int) -> pd.DataFrame:
    """A row for each way: training with 8 heads of 64, as `on_a_gpu` found.

    Median milliseconds and peak mebibytes, on the GPU that benchmarks/gpu.txt names.
    """
    table = pd.read_csv(GPU)
    return table[(table.precision == precision) & (table.length == length)].set_index(
        "way"
    )


def numbers_moved(way: Way, length: int, *block: int) -> int:
    """The numbers that way(memory, query, key, value, *block) moves.

    AssertionError unless it returns the context.
    """
    memory, inputs = Memory(), [x.detach()[0, 0] for x in make_inputs(length)]
    context = way(memory, *inputs, *block)
    torch.testing.assert_close(context, attention(*inputs)[0], atol=1e-5, rtol=0)
    return memory.moved


def whole_mask(rule: Rule, length: int) -> Tensor:
    """The mask of all pairs (length, length) that a rule makes."""
    places = torch.arange(length)
    return rule(places[:, None], places)


def grid(rule: Rule, length: int, block: int) -> Tensor:
    """Which tiles (query blocks, key blocks) `visible_blocks` gives."""
    size, key = len(blocks(length, block)), torch.empty(length, 0)
    found = torch.zeros(size, size, dtype=torch.bool)
    for i, rows in enumerate(blocks(length, block)):
        for columns, _ in visible_blocks(rule, rows, key, block):
            found[i, columns.start // block] = True
    return found


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """The p with which y grows as x to the power p.

    It is the slope of the straight line through the points, both axes logarithmic.
    """
    x, y = torch.tensor(x).log(), torch.tensor(y).log()
    return ((x - x.mean()) @ (y - y.mean()) / (x - x.mean()).square().sum()).item()
