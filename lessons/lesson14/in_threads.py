"""Processes in a ring, played by threads: for an exercise of lesson 14."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from torch import Tensor

MOST_MESSAGES = 1000  # of one thread: more are an endless loop


class Stuck(RuntimeError):
    """A process waits for a piece that will never come, or sends without end."""


def in_threads(function: Callable, rows: Sequence[Tensor]) -> tuple[list, list]:
    """What function(row, rank, count, exchange) gives in each of as many threads.

    The second list says for each how large the pieces were that it has sent. The first
    error of a thread is raised; Stuck only where there is no other.
    """
    count = len(rows)
    boxes: list[SimpleQueue] = [SimpleQueue() for _ in rows]  # None: nothing will come
    sent: list[list[int]] = [[] for _ in rows]

    def process(rank: int) -> Any:
        own, following = boxes[rank], boxes[(rank + 1) % count]

        def exchange(piece: Tensor) -> Tensor:
            if not isinstance(piece, Tensor):
                raise TypeError(f"exchange a tensor, not a {type(piece).__name__}")
            if len(sent[rank]) == MOST_MESSAGES:
                raise Stuck(f"{MOST_MESSAGES} pieces are sent: is the loop endless?")
            sent[rank].append(piece.numel())
            following.put(piece.detach().clone())
            came = own.get()
            if came is None:
                own.put(None)
                text = f"process {rank} waits for a piece of one that has ended"
                raise Stuck(f"{text}: all must exchange equally often")
            return came

        try:
            return function(rows[rank].clone(), rank, count, exchange)
        finally:
            following.put(None)

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(process, rank) for rank in range(count)]
    if errors := [future.exception() for future in futures if future.exception()]:
        raise next((e for e in errors if not isinstance(e, Stuck)), errors[0])
    return [future.result() for future in futures], sent
