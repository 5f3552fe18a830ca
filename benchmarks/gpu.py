"""What the course does on a GPU: `make bench ARGS=gpu`, for machines that have one.

Written are benchmarks/gpu.txt, training steps in three precisions; and
benchmarks/gpu_attention.csv, time and memory of attention against length,
forward and backward, with a head of 64 in each of 8 heads. Times are medians.
"""

import csv
import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from benchmarks.compare import in_turns, timed
from benchmarks.steps import OURS, Steps, work_of
from benchmarks.workload import FULL, Sizes
from helpers.attention import attention
from helpers.runtime import best_device, environment_report
from helpers.scale.precision import PRECISIONS
from lessons.lesson19.blockwise import block_attention, blocks

TABLE = Path(__file__).parent / "gpu.txt"
ATTENTION = TABLE.with_name("gpu_attention.csv")
COLUMNS = ("way", "precision", "length", "milliseconds", "mebibytes", "error")

# The batch that speed.txt times, and the paper's base model on 256 sentences.
BASE = Sizes(
    d_model=512,
    d_ff=2048,
    n_layers=6,
    n_heads=8,
    vocabulary=10_000,
    sentences=256,
)
MODELS = {"as in speed.txt": FULL, "the paper's base": BASE}

LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)
HEADS, D_HEAD, ROUNDS, STEPS = 8, 64, 5, 9
MOST_TILES = 64**2  # a tile costs some thirty launches of a kernel
MOST_BYTES = 40 * 2**30  # of the table of weights and its like

Way = Callable[[Tensor, Tensor, Tensor], Tensor]


def peak_mebibytes(work: Callable[[], object]) -> float:
    """The most that tensors take during a call, above what they take before."""
    if best_device().type != "cuda":
        return math.nan
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    return (torch.cuda.max_memory_allocated() - held) / 2**20


# -- training steps --------------------------------------------------------------------


def training_table(sizes: Sizes) -> Iterator[str]:
    """A line for each precision, ours and nn.Transformer's; all steps in turns."""
    sides = {name: work_of(OURS, Steps(name), sizes) for name in PRECISIONS}
    for precision in ("fp32", "bf16"):
        work = work_of("nn.Transformer", Steps(precision), sizes)
        sides[f"{precision}, nn.Transformer"] = work
    for work in sides.values():
        for _ in range(3):  # warm up
            work()
    seconds = in_turns([*sides.values()], STEPS)
    for (name, work), taken in zip(sides.items(), seconds, strict=True):
        memory = peak_mebibytes(work)
        ratio = seconds[0] / taken
        yield f"{name:24} {1e3 * taken:8.2f} ms {ratio:6.2f} {memory:8.0f} MiB"


# -- attention -------------------------------------------------------------------------


def table(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Lesson 02's attention."""
    return attention(query, key, value)[0]


def query_blocks(query: Tensor, key: Tensor, value: Tensor, *, block: int) -> Tensor:
    """The same over blocks of queries, computed again on the way back."""
    parts = [
        checkpoint(table, query[..., rows, :], key, value, use_reentrant=False)
        for rows in blocks(query.size(-2), block)
    ]
    return torch.cat(parts, dim=-2)


def kernel(backend: SDPBackend, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """PyTorch's attention by one of its kernels."""
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(query, key, value)


def ways(precision: str, length: int) -> dict[str, Way]:
    """The ways that this precision and length allow."""
    found: dict[str, Way] = {}
    # Scores, weights and their gradients: more than four tables at once.
    if 4 * HEADS * length**2 * PRECISIONS[precision].itemsize <= MOST_BYTES:
        found["table"] = table
        found["PyTorch, math"] = partial(kernel, SDPBackend.MATH)
    found["blocks of 512 queries"] = partial(query_blocks, block=512)
    for block in (64, 512):
        if (length / block) ** 2 <= MOST_TILES:
            found[f"tiles of {block}"] = partial(block_attention, block=block)
    if best_device().type == "cuda":
        found["PyTorch, efficient"] = partial(kernel, SDPBackend.EFFICIENT_ATTENTION)
    if best_device().type == "cpu" or precision != "fp32":
        found["PyTorch, flash"] = partial(kernel, SDPBackend.FLASH_ATTENTION)
    return found


def forward_and_backward(way: Way, inputs: list[Tensor]) -> list[Tensor]:
    """Context, and the gradients of its sum."""
    context = way(*inputs)
    return [context, *torch.autograd.grad(context.sum(), inputs)]


def attention_rows(precision: str, length: int) -> Iterator[tuple]:
    """A row of COLUMNS for each way; error is the largest one of the context.

    It is measured against PyTorch's math kernel in fp64, up to 4,096 positions.
    """
    generator = torch.Generator().manual_seed(0)
    shape, device = (3, 1, HEADS, length, D_HEAD), best_device()
    three = torch.randn(shape, generator=generator).to(device, PRECISIONS[precision])
    inputs = [x.clone().requires_grad_() for x in three]
    due = None
    if length <= 4096:
        due = kernel(SDPBackend.MATH, *(x.detach().double() for x in inputs))
    found = ways(precision, length)
    works = {n: partial(forward_and_backward, w, inputs) for n, w in found.items()}
    for name, work in works.items():
        context = work()[0].detach()
        error = math.nan if due is None else (context - due).abs().max().item()
        del context
        memory = peak_mebibytes(work)
        seconds = sorted(timed(work) for _ in range(ROUNDS))[ROUNDS // 2]
        yield name, precision, length, 1e3 * seconds, memory, error


def write_attention(path: Path, lengths: tuple[int, ...] = LENGTHS) -> None:
    """The table of attention against length, line by line."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for precision in ("fp32", "bf16"):
            for length in lengths:
                for name, kind, n, *numbers in attention_rows(precision, length):
                    writer.writerow([name, kind, n, *(f"{x:.4g}" for x in numbers)])
                file.flush()


def main() -> None:
    """Measure and store; SystemExit where there is no GPU."""
    if best_device().type != "cuda":
        raise SystemExit("there is no GPU here that PyTorch can use")
    write_attention(ATTENTION)
    report = environment_report()
    lines = [f"{report['device']}, Python {report['Python']}, torch {report['torch']}"]
    lines.append("a training step: time, fp32's time over it, peak memory of tensors")
    for name, sizes in MODELS.items():
        lines.append(f"\n{name}: {sizes.sentences} sentences")
        lines.extend(training_table(sizes))
    text = "\n".join(lines) + "\n"
    TABLE.write_text(text, encoding="utf-8")
    print(text)
