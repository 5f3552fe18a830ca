"""Training in several processes, one for each device (lesson 14).

    torchrun --nproc-per-node 2 -m helpers.translator train --output runs/toy

torchrun starts the processes and tells each its rank; DistributedDataParallel takes the
mean of their gradients. On several machines the command is the same on each, with
--nnodes, --rdzv-backend c10d and --rdzv-endpoint besides. With --max-restarts, set the
environment variable TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1, or processes that are started
again may look for the old ones (PyTorch's issue 135712).
"""

import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@contextmanager
def process_group() -> Iterator[torch.device]:
    """Join the processes that torchrun started; gives this one's device.

    NCCL between GPUs, each process with one of its machine's; gloo between CPUs.
    RuntimeError without torchrun; ValueError for more processes than GPUs, if any.
    """
    if not dist.is_torchelastic_launched():
        raise RuntimeError("start this script by torchrun --nproc-per-node 2 …")
    processes, gpus = int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
    if 0 < gpus < processes:
        raise ValueError(
            f"{processes} processes on a machine with {gpus} GPU(s): start one for "
            "each, or hide the GPUs by CUDA_VISIBLE_DEVICES=-1"
        )
    device = torch.device("cpu")
    if gpus:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if gpus else "gloo")
    try:
        yield device
    finally:
        # DDP modules stand in reference cycles. Left to the end of Python, some are
        # torn down after the group that they speak through, and the process aborts.
        gc.collect()
        dist.destroy_process_group()


class OneProcess:
    """The only process there is: nothing to share, and nobody to agree with."""

    rank, count = 0, 1
    agree_every = 1  # step

    def wrap(self, module: nn.Module) -> nn.Module:
        """A module whose gradients are the mean of all processes'."""
        return module

    def agree(self, seconds: float, stop: bool) -> tuple[float, bool]:
        """The clock that is ahead, and whether anybody was asked to stop."""
        return seconds, stop

    def sums(self, *numbers: float) -> Sequence[float]:
        """Each number summed over the processes."""
        return numbers

    def gather(self, value: object) -> list:
        """The values of all processes, by rank."""
        return [value]


class Processes:
    """All processes of the group, in each of which a Trainer runs.

    All cut the same batches, each trains on its own share of every batch, and all step
    with one gradient, which is exchanged after every part of a batch. `agree`, `sums`
    and `gather` must be called by all at the same moment. Make it inside
    `process_group`, with the device that this gives.
    """

    # Asking costs a round trip, so a stop may come a few steps late.
    agree_every = 10

    def __init__(self, device: torch.device | str = "cpu"):
        self.device = device
        self.rank, self.count = dist.get_rank(), dist.get_world_size()

    def wrap(self, module: nn.Module) -> nn.Module:
        """A module whose gradients are the mean of all processes'."""
        return DistributedDataParallel(module)

    def agree(self, seconds: float, stop: bool) -> tuple[float, bool]:
        """The clock that is ahead, and whether anybody was asked to stop.

        Ctrl-C may come at any moment, and to one process only. Had that one stopped at
        once, the others would wait for it for ever.
        """
        now = torch.tensor([seconds, stop], dtype=torch.float64, device=self.device)
        dist.all_reduce(now, dist.ReduceOp.MAX)
        return now[0].item(), bool(now[1])

    def sums(self, *numbers: float) -> Sequence[float]:
        """Each number summed over the processes."""
        total = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def gather(self, value: object) -> list:
        """The values of all processes, by rank."""
        gathered = [None] * self.count
        dist.all_gather_object(gathered, value)
        return gathered
