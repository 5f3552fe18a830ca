"""Training attention in bf16 on a GPU, in three ways, against length.

    python -m lessons.lesson19.on_a_gpu    # writes on_a_gpu.csv for the lesson

One sentence, 8 heads of 64. Median milliseconds, forward and backward, and the
mebibytes that tensors take beside the inputs.
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

LENGTHS = (2048, 4096, 8192, 16_384)


def table(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Lesson 02's attention."""
    return attention(query, key, value)[0]


def strips(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The same over blocks of 512 queries, computed again on the way back."""
    again = partial(checkpoint, table, use_reentrant=False)
    return torch.cat([again(part, key, value) for part in query.split(512, -2)], dim=-2)


def flash(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """PyTorch's attention by its FlashAttention."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return scaled_dot_product_attention(query, key, value)


WAYS = {"table": table, "strips of 512": strips, "FlashAttention": flash}


def rows(lengths: Sequence[int] = LENGTHS) -> Iterator[dict]:
    """A row for each way and length; mebibytes are NaN on a CPU."""
    for length in lengths:
        torch.manual_seed(0)
        three = torch.randn(3, 1, 8, length, 64).to(best_device(), torch.bfloat16)
        inputs = [x.requires_grad_() for x in three.unbind()]
        for name, way in WAYS.items():
            work = partial(there_and_back, way, inputs)
            yield {"way": name, "length": length, **cost(work)}


def there_and_back(way: Callable[..., Tensor], inputs: list[Tensor]) -> tuple:
    """The gradients of the context's sum."""
    return torch.autograd.grad(way(*inputs).sum(), inputs)


def cost(work: Callable[[], object]) -> dict[str, float]:
    """Milliseconds of a call, and mebibytes above what tensors take before."""
    timer = Timer("work()", globals={"work": work}, num_threads=torch.get_num_threads())
    times = sorted(timer.timeit(1).median for _ in range(5))
    mebibytes = math.nan
    if best_device().type == "cuda":
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        work()
        mebibytes = (torch.cuda.max_memory_allocated() - held) / 2**20
    return {"milliseconds": 1e3 * times[2], "mebibytes": mebibytes}


if __name__ == "__main__":
    if best_device().type != "cuda":
        raise SystemExit("there is no GPU here that PyTorch can use")
    path = Path(__file__).with_suffix(".csv")
    pd.DataFrame(rows()).to_csv(path, index=False, float_format="%.4g")
