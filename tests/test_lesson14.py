"""Lesson 14's launcher runs what a learner wrote, in processes of its own."""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import distributed as dist
from torch.nn.utils.rnn import pad_sequence

from helpers import PAD, mine
from helpers.batching import Batch
from helpers.training import token_loss
from lessons.lesson14 import exercises
from lessons.lesson14.launching import launch
from lessons.lesson14.parts import accumulate
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


def divides_at_the_end(model, batches):
    tokens, total = sum(batch.n_tokens for batch in batches), 0.0
    for batch in batches:
        mean, own = token_loss(model, batch)
        (mean * own).backward()
        total += mean.item() * own / tokens
    for parameter in model.parameters():
        parameter.grad /= tokens
    return total


def leaves_it_training(model, batches):
    model.train()
    return accumulate(model, batches)


def all_in_one(model, batches):
    sides = zip(*((b.source.T, b.target.T) for b in batches), strict=True)
    rows = ([row for side in s for row in side.unbind(1)] for s in sides)
    return accumulate(model, [Batch(*(pad_sequence(x, True, PAD) for x in rows))])


def with_its_graph(model, batches):
    return accumulate(model, batches) + 0 * next(model.parameters()).sum()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (divides_at_the_end, "where `.grad` already holds something"),
        (leaves_it_training, "leave the model's mode"),
        (all_in_one, "how many sentences memory holds at once is 5"),
        (with_its_graph, "return a float"),
    ],
)
def test_what_is_right_for_most_batches_is_not_praised(answer, said):
    assert exercises.accumulate.findings(answer)[0][-1].startswith(f"✗ {said}")


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
    # An object of the notebook, with the name of a variable: a learner's model, say.
    monkeypatch.setitem(globals(), "row", SimpleNamespace(__module__=ring.__module__))
    found = launch(summed, given=(torch.arange(4.0),))
    assert all(torch.equal(row, 2 * torch.arange(4.0) + 1) for row in found)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="torchrun asks for libuv")
def test_a_process_that_fails_says_why():
    with pytest.raises(RuntimeError, match="can only concatenate str"):
        launch(summed, given=("no tensor",))
