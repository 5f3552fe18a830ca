"""Lesson 14's checks: right answers pass, and every mistake is called by its name."""

import math

import numpy as np
import pytest
import torch
from findings import assert_all_right, assert_answers, assert_wrong

from helpers.checks import lesson14

# --- What is right --------------------------------------------------------------------


def chunks(count, rank, processes):
    """Neighbouring sentences, the rest to the first processes."""
    size, rest = divmod(count, processes)
    start = rank * size + min(rank, rest)
    return list(range(start, start + size + (rank < rest)))


RIGHT = [
    (lesson14.shares, lambda n, r, p: list(range(r, n, p)), 4),
    (lesson14.shares, lambda n, r, p: range(n)[r::p], 4),
    (lesson14.shares, lambda n, r, p: torch.arange(n)[r::p], 4),
    (lesson14.shares, lambda n, r, p: np.array_split(np.arange(n), p)[r], 4),
    (lesson14.shares, chunks, 4),
    (lesson14.weights, lambda t: [n * len(t) / sum(t) for n in t], 2),
    (lesson14.weights, lambda t: torch.tensor(t) * len(t) / sum(t), 2),
    (lesson14.weights, lambda t: [n / (sum(t) / len(t)) for n in t], 2),
    (lesson14.stop_together, lambda s, limit, m: m(s) >= limit, 4),
    (lesson14.stop_together, lambda s, limit, m: m(float(s >= limit)) > 0, 4),
    (lesson14.stop_together, lambda s, limit, m: torch.tensor(m(s)) >= limit, 4),
    (lesson14.stop_together, lambda s, limit, m: np.float64(m(s)) >= limit, 4),
]


@pytest.mark.parametrize("check, answer, count", RIGHT)
def test_a_right_answer_passes(check, answer, count):
    assert_all_right(check.findings(answer), count)


# --- What is wrong --------------------------------------------------------------------


def whole_shares_only(count, rank, processes):
    size = count // processes
    return list(range(rank * size, (rank + 1) * size))


def rounded_up(count, rank, processes):
    size = math.ceil(count / processes)
    return list(range(count))[rank * size : (rank + 1) * size]


def filled_up(count, rank, processes):
    """As PyTorch's DistributedSampler does."""
    size = math.ceil(count / processes)
    return [i % count for i in range(rank, size * processes, processes)]


def rest_to_the_last(count, rank, processes):
    size = count // processes
    end = count if rank == processes - 1 else (rank + 1) * size
    return list(range(rank * size, end))


SHARE_MISTAKES = [
    (lambda n, r, p: list(range(n)), "all processes get"),
    (lambda n, r, p: list(range(0, n, p)), "all processes get"),
    (lambda n, r, p: list(range(r + 1, n + 1, p)), "counted from 0 to 7"),
    (whole_shares_only, "sentence 6 is in no share"),
    (rounded_up, "the shares hold 3, 3, 3, 1 sentences"),
    (rest_to_the_last, "the shares hold 2, 2, 2, 4 sentences"),
    (filled_up, "sentence 0 is in the shares of processes 0 and 1"),
    (lambda n, r, p: list(range(r, n, p))[: n // p], "sentence 6 is in no share"),
    (lambda n, r, p: list(range(r, n)), "is in the shares of processes 0 and 1"),
    (lambda n, r, p: len(range(r, n, p)), "return a list of the sentences' numbers"),
    (
        lambda n, r, p: list(range(r, n, p)) if r < n else [][0],
        "2 sentences, 3 processes: your code stopped with IndexError",
    ),
    (
        lambda n, r, p: list(range(r, n, p)) if r < n else None,
        "2 sentences, 3 processes: process 2 gets None",
    ),
    (
        lambda n, r, p: list(range(r, n, p)) if r == 0 else None,
        "8 sentences, 2 processes: process 1 gets None",
    ),
    (lambda n, r, p: [i % p == r for i in range(n)], "not [True, False, True"),
    (lambda n, r, p: [*range(r, n, p)] * 2, "process 0 gets sentence 0 twice"),
    (lambda n, r, p: [], "all shares are empty"),
]


@pytest.mark.parametrize("answer, name", SHARE_MISTAKES)
def test_every_wrong_sharing_is_named(answer, name):
    assert_wrong(lesson14.shares.findings(answer), name)


WEIGHT_MISTAKES = [
    (lambda t: [1.0] * len(t), "the mean of the means, the usual mistake"),
    (lambda t: [n / sum(t) for n in t], "DDP then divides by the number of processes"),
    (lambda t: [n / sum(t) / len(t) for n in t], "which DDP does once more"),
    (lambda t: [sum(t) / len(t) / n for n in t], "the wrong way round"),
    (lambda t: t, "these are the numbers of tokens themselves"),
    (lambda t: [n * len(t) for n in t], "not divided by all tokens"),
    (lambda t: [n / max(t) for n in t], "the mean of the weights that must be 1"),
    (lambda t: [n / (sum(t) - n) for n in t], "left out of the sum"),
    (
        lambda t: [2 * n / sum(t) for n in t],
        "stands there as 2, which it is not always",
    ),
    (lambda t: [math.sqrt(n) for n in t], "their mean is"),
    (lambda t: [2.0, 0.0], "stand to each other as the numbers of tokens"),
    (lambda t: [1.0], "the list has the length 1, but 2 processes need a weight each"),
    (lambda t: 1.6, "return a list of weights"),
]


@pytest.mark.parametrize("answer, name", WEIGHT_MISTAKES)
def test_every_wrong_weighing_is_named(answer, name):
    assert_wrong(lesson14.weights.findings(answer), name)


def only_who_is_late(seconds, limit, all_max):
    if seconds >= limit:
        return bool(all_max(1.0))
    return False


def careless(seconds, limit, all_max):
    if seconds >= limit:
        raise RuntimeError("time is over")
    return all_max(seconds) >= limit


def only_true(seconds, limit, all_max):
    if all_max(seconds) >= limit:
        return True


def only_its_own(seconds, limit, all_max):
    all_max(seconds)
    if seconds >= limit:
        return True


def silent_unless_late(seconds, limit, all_max):
    if seconds >= limit:
        return all_max(seconds) >= limit


def waits_until_then(seconds, limit, all_max):
    while all_max(seconds) < limit:
        pass
    return True


STOP_MISTAKES = [
    (only_true, "20 s and a limit of 60 s: return True or False, not None"),
    (only_its_own, "61 s and a limit of 60 s: return True or False, not None"),
    (silent_unless_late, "process 1 waits in all_max for process 0"),
    (waits_until_then, "all_max called 100 times: once is enough"),
    (lambda s, limit, m: m(s) >= 60, "all stop: they agree, but on the wrong"),
    (lambda s, limit, m: s >= limit, "process 1 stops and process 0 goes on"),
    (
        lambda s, limit, m: m(s) > 0 and s >= limit,
        "not by the process's own clock",
    ),
    (lambda s, limit, m: s >= limit or m(s) >= limit, "process 0 waits in all_max"),
    (only_who_is_late, "process 1 waits in all_max for process 0"),
    (lambda s, limit, m: -m(-s) >= limit, "all go on: they agree, but on the wrong"),
    (lambda s, limit, m: m(s) < limit, "all go on: they agree, but on the wrong"),
    (lambda s, limit, m: True, "all stop: they agree, but on the wrong"),
    (lambda s, limit, m: m(s), "return True or False, not 61.0"),
    (lambda s, limit, m: m(), "your code stopped with TypeError"),
    (careless, "your code stopped with RuntimeError: time is over"),
]


@pytest.mark.parametrize("answer, name", STOP_MISTAKES)
def test_every_way_of_not_stopping_together_is_named(answer, name):
    assert_wrong(lesson14.stop_together.findings(answer), name)


# --- Whatever is handed in ------------------------------------------------------------

CHECKS = (lesson14.shares, lesson14.weights, lesson14.stop_together)


@pytest.mark.parametrize("check", CHECKS)
def test_an_empty_stub_is_not_a_mistake(check):
    for answer in (None, lambda *_: None, lambda *_: ...):
        assert [finding.mark for finding in check.findings(answer)] == ["○"]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "answer",
    [3, lambda: 3, *(lambda *_, x=x: x for x in (object(), "text", {}, 3, [None]))],
)
def test_a_check_never_raises(check, answer, capsys):
    assert check(answer) is None
    assert_answers(capsys)
