"""Training in several processes, one for each device (lesson 14).

    torchrun --nproc-per-node 2 -m helpers.translator train --output runs/toy

torchrun starts the processes and tells each its rank; DistributedDataParallel takes the
mean of their gradients. On several machines the command is the same on each, with
--nnodes, --rdzv-backend c10d and --rdzv-endpoint besides. With --max-restarts, set the
environment variable TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1, or processes that are started
again may look for the old ones (PyTorch's issue 135712).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from helpers import PAD
from helpers.acceleration import AcceleratedTrainer
from helpers.batching import Batch
from helpers.training import evaluate_loss


@contextmanager
def process_group() -> Iterator[torch.device]:
    """Join the processes that torchrun started; gives this one's device.

    NCCL between GPUs, each process with one of its machine's; gloo between CPUs.
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
        dist.destroy_process_group()


def share(batch: Batch, rank: int, processes: int) -> Batch:
    """Every `processes`-th sentence of the batch, from number `rank` on.

    Columns that are padding in all of them are left away. A batch of fewer sentences
    than processes leaves the last ones with none: shapes (0, …).
    """
    source, target = (x[rank::processes] for x in (batch.source, batch.target))
    return Batch(*(x[:, (x != PAD).any(dim=0)] for x in (source, target)))


class DistributedTrainer(AcceleratedTrainer):
    """An AcceleratedTrainer in every process; together they do the work of one.

    All cut the same batches, each trains on its own share of every batch, and the
    gradient with which all of them step is that of the whole batch: DDP takes the mean
    over the processes, so each loss is weighted by its share of the tokens. Validation
    is shared in the same way. Only rank 0 has to save what `state_dict` gives, but all
    must call it.
    """

    stop_agreed = False

    def __init__(self, model, train, validation, config, **options):
        super().__init__(model, train, validation, config, **options)
        self.rank, self.processes = dist.get_rank(), dist.get_world_size()
        self.saves = self.rank == 0
        self.step_loss = DistributedDataParallel(self.step_loss)
        # With one seed for all, dropout would hide the same places in every share.
        torch.manual_seed(config.seed + self.rank)

    def loss(self, batch: Batch) -> tuple[Tensor, float]:
        """This process's part of the batch's loss, weighted by its share of tokens."""
        total = int((batch.labels != PAD).sum())
        own = share(batch, self.rank, self.processes)
        idle = len(own.source) == 0  # DDP waits for all: take part, and count nothing
        loss, tokens = super().loss(share(batch, 0, self.processes) if idle else own)
        weight = 0.0 if idle else tokens * self.processes / total
        return loss * weight, total / self.processes

    @property
    def stop_requested(self) -> bool:
        """Whether to stop now, which all have agreed on; asking one is enough."""
        return self.stop_agreed

    @stop_requested.setter
    def stop_requested(self, asked: bool) -> None:
        # Ctrl-C may come at any moment, and to one process only. Had that one stopped
        # at once, the others would wait for it for ever.
        self.stop_asked = asked
        self.stop_agreed = self.stop_agreed and asked

    def look_at_clock(self, started: float) -> None:
        """All go by the clock that is ahead, and stop when one was asked to."""
        super().look_at_clock(started)
        now = self.tensor([self.seconds, self.stop_asked])
        dist.all_reduce(now, dist.ReduceOp.MAX)
        self.seconds, self.stop_agreed = now[0].item(), bool(now[1])

    def validation_loss(self) -> float:
        """Mean cross-entropy in nats per token, each process reading its share."""
        own = self.validation[self.rank :: self.processes]
        tokens = sum(len(target) + 1 for _, target in own)
        loss = evaluate_loss(self.model, own) if own else 0.0
        return self.mean(loss * tokens, tokens)

    def end_epoch(self, started: float):
        """Report on the epoch; its losses are those of all processes."""
        self.loss_sum, self.loss_tokens = self.sums(self.loss_sum, self.loss_tokens)
        return super().end_epoch(started)

    def state_dict(self) -> dict:
        """Everything that the next step depends on, of all processes."""
        state = super().state_dict()
        state["loss_sum"], state["loss_tokens"] = self.sums(
            self.loss_sum, self.loss_tokens
        )
        for name in ("random", "random_cuda"):
            if name in state:
                gathered = [None] * self.processes
                dist.all_gather_object(gathered, state[name])
                state[name] = gathered
        return state

    def load_state_dict(self, state: dict) -> None:
        """Go on where `state` was taken, by as many processes."""
        own = {
            name: state[name][self.rank]
            for name in ("random", "random_cuda")
            if name in state
        }
        super().load_state_dict(state | own)
        if self.rank:  # the sums of all are with rank 0
            self.loss_sum, self.loss_tokens = 0.0, 0

    def mean(self, total: float, count: float) -> float:
        total, count = self.sums(total, count)
        return total / count

    def sums(self, *numbers: float) -> list[float]:
        """Each number summed over the processes."""
        tensor = self.tensor(numbers)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def tensor(self, numbers) -> Tensor:
        return torch.tensor(numbers, dtype=torch.float64, device=self.device)
