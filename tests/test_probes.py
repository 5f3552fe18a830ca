"""The probes measure what they say."""

import time

import pytest
import torch

from helpers.masks import causal_mask
from helpers.probes import best_time, influence


def test_influence_of_a_known_map():
    def function(x):  # output 0 is 2 · input 1; output 1 is 3 · input 0 + input 1
        return torch.stack([2 * x[:, 1], 3 * x[:, 0] + x[:, 1]], dim=1)

    expected = torch.tensor([[0.0, 2.0], [3.0, 1.0]])
    # The norm of c · identity of size 4 is 2c.
    torch.testing.assert_close(influence(function, torch.randn(1, 2, 4)), 2 * expected)


def test_influence_is_exactly_zero_where_nothing_passes():
    mask = causal_mask(6)[0]

    def function(x):
        scores = (x @ x.mT).masked_fill(~mask, float("-inf"))
        return scores.softmax(-1) @ x

    found = influence(function, torch.randn(1, 6, 3))
    assert torch.equal(found > 0, mask[0])


@pytest.mark.parametrize("shape", [(2, 5, 4), (5, 4)])
def test_influence_refuses_more_than_one_sentence(shape):
    with pytest.raises(ValueError, match=r"\(1, length, features\), not \(\d"):
        influence(lambda x: x, torch.randn(shape))


def test_the_best_time_is_of_one_thread_and_the_shortest(monkeypatch):
    clock = iter([0, 5, 10, 12, 20, 23])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    threads, seen = torch.get_num_threads(), []
    assert best_time(lambda: seen.append(torch.get_num_threads()), runs=3) == 2
    assert seen == [1, 1, 1] and torch.get_num_threads() == threads
