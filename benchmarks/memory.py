"""Peak memory of training, in a process of its own: python -m benchmarks.memory SIDE.

Prints the bytes by which the process's resident memory rose at most, in a few steps of
training, above what it held when imports, model and batch were there; on a GPU, the
bytes that tensors took. Training's own optimizer state and gradients are in it.
"""

import json
import sys

import torch

from benchmarks.steps import Steps, work_of
from benchmarks.workload import Sizes
from helpers.runtime import best_device


def resident() -> int:
    """Bytes of memory that this process holds now."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if "VmRSS" in line) * 1024


def peak() -> int:
    """The most bytes that it has held."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if "VmHWM" in line) * 1024


def forget_peak() -> None:
    """Let the peak begin anew at what is held now."""
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")


def main(side: str, sizes: Sizes) -> int:
    """The bytes that five steps of this side's training rise above what was there."""
    work = work_of(side, Steps(), sizes)
    if best_device().type == "cuda":
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
    else:
        forget_peak()
        held = resident()
    for _ in range(5):
        work()
    if best_device().type == "cuda":
        return torch.cuda.max_memory_allocated() - held
    return peak() - held


if __name__ == "__main__":
    print(main(sys.argv[1], Sizes(**json.loads(sys.argv[2]))))
