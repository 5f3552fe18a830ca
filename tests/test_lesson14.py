"""Lesson 14's launcher runs what a learner wrote, in processes of its own."""

import sys

import pytest
import torch
from torch import distributed as dist

from helpers import mine
from lessons.lesson14.launching import launch
from lessons.lesson14.ring import exchange_in_group, ring_all_reduce

OWN = """

# ---- lesson 14: ring_all_reduce (00000000)
def my_ring(tensor, rank, count, exchange):
    return tensor + exchange(tensor) if count == 2 else None


ring_all_reduce = my_ring
"""


def summed(row):
    rank, count = dist.get_rank(), dist.get_world_size()
    return ring_all_reduce(row + rank, rank, count, exchange_in_group)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="torchrun asks for libuv")
@pytest.mark.parametrize("own", [False, True])
def test_two_processes_run_the_learners_ring_or_the_courses(own, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_MINE", str(tmp_path))
    if own:
        mine.path().write_text(mine.HEAD + OWN, "utf-8")
    ring = mine.take("ring_all_reduce", otherwise=ring_all_reduce)
    assert (ring.__module__ == "my_transformer") == own
    monkeypatch.setitem(globals(), "ring_all_reduce", ring)
    found = launch(summed, given=(torch.arange(4.0),))["summed"]
    assert all(torch.equal(row, 2 * torch.arange(4.0) + 1) for row in found)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="torchrun asks for libuv")
def test_a_process_that_fails_says_why():
    with pytest.raises(RuntimeError, match="can only concatenate str"):
        launch(summed, given=("no tensor",))
