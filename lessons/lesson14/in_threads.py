"""Processes in a ring, played by threads: for an exercise of lesson 14."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

MOST_MESSAGES = 1000  # of one thread: more are an endless loop


class Stuck(RuntimeError):
    """A process waits for a piece that will never come."""


class Ring:
    """The letter boxes of all: each holds what the process before has sent."""

    def __init__(self, count: int):
        self.count, self.changed = count, threading.Condition()
        self.boxes: list[list[Tensor]] = [[] for _ in range(count)]
        self.ended: set[int] = set()
        self.sent: list[list[int]] = [[] for _ in range(count)]  # sizes of the pieces

    def exchange(self, rank: int, piece: Tensor) -> Tensor:
        """Put a copy into the next box, and wait for what comes into one's own."""
        if not isinstance(piece, Tensor):
            raise TypeError(f"exchange a tensor, not a {type(piece).__name__}")
        if len(self.sent[rank]) == MOST_MESSAGES:
            raise RuntimeError(f"{MOST_MESSAGES} pieces are sent: is the loop endless?")
        before = (rank - 1) % self.count
        with self.changed:
            self.boxes[(rank + 1) % self.count].append(piece.detach().clone())
            self.sent[rank].append(piece.numel())
            self.changed.notify_all()
            mine = self.boxes[rank]
            self.changed.wait_for(lambda: mine or before in self.ended)
            if not mine:
                number = len(self.sent[rank])
                raise Stuck(
                    f"process {rank} waits for a {number}. piece of process {before}, "
                    "which has ended: all must call `exchange` equally often"
                )
            return mine.pop(0)

    def end(self, rank: int) -> None:
        """Tell the others that this one will send nothing more."""
        with self.changed:
            self.ended.add(rank)
            self.changed.notify_all()


def in_threads(function: Callable, rows: Sequence[Tensor]) -> tuple[list, list]:
    """What function(row, rank, count, exchange) gives in each of as many threads.

    The second list says for each how large the pieces were that it has sent. The first
    error of a thread is raised; Stuck only where there is no other.
    """
    ring = Ring(len(rows))
    results: list[Any] = [None] * len(rows)
    errors: list[BaseException | None] = [None] * len(rows)

    def process(rank: int) -> None:
        try:
            results[rank] = function(
                rows[rank].clone(),
                rank,
                len(rows),
                lambda piece: ring.exchange(rank, piece),
            )
        except (Exception, SystemExit) as error:
            errors[rank] = error
        finally:
            ring.end(rank)

    threads = [
        threading.Thread(target=process, args=(rank,), daemon=True)
        for rank in range(len(rows))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [error for error in errors if error is not None]
    if found:
        raise next((e for e in found if not isinstance(e, Stuck)), found[0])
    return results, ring.sent
