"""Attention forward and backward against length, on a GPU, by every way at hand.

    python -m lessons.lesson19.on_a_gpu    # writes on_a_gpu.csv for the lesson

One sentence, 8 heads of 64. Median milliseconds, the mebibytes that tensors take beside
inputs, and the largest error of the context beside fp64's, up to 4,096 positions.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pandas as pd
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.benchmark import Timer
from torch.utils.checkpoint import checkpoint

from helpers.attention import attention
from helpers.runtime import best_device
from helpers.scale.precision import PRECISIONS
from lessons.lesson19.blockwise import block_attention

LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)
MOST_BYTES = 40 * 2**30  # of the table of weights and its like


def table(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Lesson 02's attention."""
    return attention(query, key, value)[0]


def strips(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The same over blocks of 512 queries, computed again on the way back."""
    again = partial(checkpoint, table, use_reentrant=False)
    return torch.cat([again(part, key, value) for part in query.split(512, -2)], dim=-2)


def kernel(backend: SDPBackend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """PyTorch's attention by one of its kernels."""
    with sdpa_kernel(backend):
        return scaled_dot_product_attention(query, key, value)


def ways(precision: str, length: int) -> dict[str, Callable[..., Tensor]]:
    """The ways that this precision, this length and this device allow."""
    cuda = best_device().type == "cuda"
    # Scores, weights and their gradients: more than four tables at once.
    fits = 4 * 8 * length**2 * PRECISIONS[precision].itemsize <= MOST_BYTES
    found = {
        "table": (table, fits),
        "PyTorch, math": (partial(kernel, SDPBackend.MATH), fits),
        "blocks of 512 queries": (strips, True),
        # A tile costs some thirty launches of a kernel.
        "tiles of 64": (partial(block_attention, block=64), length <= 4096),
        "tiles of 512": (partial(block_attention, block=512), True),
        "PyTorch, efficient": (partial(kernel, SDPBackend.EFFICIENT_ATTENTION), cuda),
        "PyTorch, flash": (
            partial(kernel, SDPBackend.FLASH_ATTENTION),
            not cuda or precision != "fp32",
        ),
    }
    return {name: way for name, (way, possible) in found.items() if possible}


def rows(lengths: Sequence[int] = LENGTHS) -> Iterator[dict]:
    """A row for each precision, length and way; mebibytes are NaN on a CPU."""
    device = best_device()
    for precision in ("fp32", "bf16"):
        for length in lengths:
            torch.manual_seed(0)
            three = torch.randn(3, 1, 8, length, 64).to(device, PRECISIONS[precision])
            inputs, due = [x.requires_grad_() for x in three.unbind()], math.nan
            if length <= 4096:
                due = kernel(SDPBackend.MATH, *three.double())
            for name, way in ways(precision, length).items():
                yield {
                    "way": name,
                    "precision": precision,
                    "length": length,
                    **cost(partial(there_and_back, way, inputs)),
                    "error": (way(*three) - due).abs().max().item(),
                }


def there_and_back(way: Callable[..., Tensor], inputs: list[Tensor]) -> tuple:
    """The gradients of the context's sum."""
    return torch.autograd.grad(way(*inputs).sum(), inputs)


def cost(work: Callable[[], object]) -> dict[str, float]:
    """Milliseconds of a call, and mebibytes above what tensors take before."""
    timer = Timer("work()", globals={"work": work}, num_threads=torch.get_num_threads())
    blocks = sorted(timer.timeit(1).median for _ in range(5))
    mebibytes = math.nan
    if best_device().type == "cuda":
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        work()
        mebibytes = (torch.cuda.max_memory_allocated() - held) / 2**20
    return {"milliseconds": 1e3 * blocks[2], "mebibytes": mebibytes}


if __name__ == "__main__":
    if best_device().type != "cuda":
        raise SystemExit("there is no GPU here that PyTorch can use")
    path = Path(__file__).with_suffix(".csv")
    pd.DataFrame(rows()).to_csv(path, index=False, float_format="%.4g")
