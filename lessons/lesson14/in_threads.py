"""Processes in a ring, played by threads: for an exercise of lesson 14."""

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from threading import Thread
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
    results: list[Any] = [None] * count
    sent: list[list[int]] = [[] for _ in rows]
    errors: list[BaseException | None] = [None] * count

    def process(rank: int) -> None:
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
                text = (
                    f"process {rank} waits for a piece of process {(rank - 1) % count}"
                )
                raise Stuck(f"{text}, which has ended: all must exchange equally often")
            return came

        try:
            results[rank] = function(rows[rank].clone(), rank, count, exchange)
        except (Exception, SystemExit) as error:
            errors[rank] = error
        finally:
            following.put(None)

    threads = [Thread(target=process, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if found := [error for error in errors if error]:
        raise next((e for e in found if not isinstance(e, Stuck)), found[0])
    return results, sent
