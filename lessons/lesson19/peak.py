"""The most bytes that a piece of work holds at once (lesson 19)."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch.profiler import ProfilerActivity, profile


def peak_bytes(work: Callable[[], object]) -> int:
    """The most bytes that PyTorch's CPU allocator has given out at once to `work()`.

    Counted is what `work` allocates, its result included, from call to return, also
    inside PyTorch's own operations. Not counted are what was there before,
    Python's own objects, and what a math library takes for itself.
    """
    with (
        _quiet(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as log,
    ):
        result = work()
        del result
    held = most = 0
    for event in log.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()  # negative where memory is given back
            most = max(most, held)
    return most


@contextmanager
def _quiet() -> Iterator[None]:
    """The profiler writes a line about itself to the error stream: drop it."""
    before = os.dup(2)
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
