"""All-reduce in a ring: each process sends to one neighbour only (lesson 14)."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch import distributed as dist


def ring_all_reduce(
    tensor: Tensor, rank: int, count: int, exchange: Callable[[Tensor], Tensor]
) -> Tensor:
    """The sum of the tensors (size,) of all `count` processes, in each of them.

    exchange(piece) sends a piece to the next process and gives that of the one before.
    The size is a multiple of count. Each sends 2 (count - 1) / count of it.
    """
    pieces = [*tensor.clone().chunk(count)]
    for step in range(count - 1):  # add up: at the end piece rank + 1 is complete
        came = exchange(pieces[(rank - step) % count])
        pieces[(rank - step - 1) % count] += came
    for step in range(count - 1):  # hand out what is complete
        came = exchange(pieces[(rank - step + 1) % count])
        pieces[(rank - step) % count] = came
    return torch.cat(pieces)


def exchange_in_group(piece: Tensor) -> Tensor:
    """Send to the next process of the group, and give what the one before has sent."""
    rank, count = dist.get_rank(), dist.get_world_size()
    came = torch.empty_like(piece)
    sending = dist.isend(piece, (rank + 1) % count)
    dist.recv(came, (rank - 1) % count)
    sending.wait()
    return came
