"""Attention in blocks is attention: values, gradients, any mask, and what it holds."""

import pytest
import torch
from torch.nn import functional as F

from helpers.attention import attention
from helpers.transformer import Transformer
from lessons.lesson19 import exercises, on_a_gpu, swap
from lessons.lesson19.blockwise import block_attention, in_training
from lessons.lesson19.measure import Held
from other_styles import in_two_passes

# batch, heads, query_length, key_length, d_head, d_value
SIZES = [(2, 3, 7, 11, 4, 5), (2, 1, 1, 9, 3, 2), (1, 2, 9, 1, 4, 4)]


def inputs(sizes, *, dtype=torch.float32):
    batch, heads, queries, keys, d_head, d_value = sizes
    each = (queries, d_head), (keys, d_head), (keys, d_value)
    return [torch.randn(batch, heads, *x, dtype=dtype) for x in each]


def masks(sizes):
    """Masks of every broadcast shape; most hide everything from some query."""
    batch, heads, queries, keys, *_ = sizes
    shapes = (batch, heads, queries, keys), (queries, keys), (batch, 1, 1, keys)
    shapes += (1, heads, queries, 1), (keys,), (1, 1, 1, 1), (1, keys)
    found = [torch.rand(shape) < 0.5 for shape in shapes]
    hidden_first = torch.arange(keys) >= keys // 2
    nothing = torch.zeros(queries, keys, dtype=torch.bool)
    return [None, *found, hidden_first, ~nothing, nothing]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("block", [1, 4, 100])
def test_blocks_give_what_attention_gives(sizes, block):
    given = inputs(sizes)
    for mask in masks(sizes):
        due = attention(*given, mask)[0]
        found = block_attention(*given, mask, block=block)
        torch.testing.assert_close(found, due, atol=1e-6, rtol=0)


@pytest.mark.parametrize("way", [block_attention, in_training])
@pytest.mark.parametrize("block", [3, 100])
def test_gradients_are_those_of_attention(block, way):
    sizes = SIZES[0]
    given = [x.requires_grad_() for x in inputs(sizes, dtype=torch.float64)]
    for mask in masks(sizes):
        due = attention(*given, mask)[0]
        found = way(*given, mask, block=block)
        if mask is not None and not mask.any():  # every tile is skipped
            assert not found.requires_grad and not found.any()
            continue
        pull = torch.randn_like(due)
        wanted = torch.autograd.grad(due, given, pull)
        got = torch.autograd.grad(found, given, pull)
        torch.testing.assert_close(got, wanted, atol=1e-10, rtol=0)


def test_leading_axes_are_any():
    for leading in ((), (4,), (2, 1, 3)):
        query, key = torch.randn(*leading, 5, 4), torch.randn(*leading, 6, 4)
        value, mask = torch.randn(*leading, 6, 2), torch.rand(5, 6) < 0.5
        due = attention(query, key, value, mask)[0]
        found = block_attention(query, key, value, mask, block=2)
        torch.testing.assert_close(found, due, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("mask", "block", "message"),
    [
        (None, 0, "block=0: a block needs at least one position"),
        (torch.ones(7, 11), 4, "must be boolean, True = may attend, not torch.float32"),
        (torch.ones(7, 10).bool(), 4, r"\(7, 10\) does not broadcast to \(2, 3, 7, 11"),
    ],
)
def test_bad_input(mask, block, message):
    with pytest.raises(ValueError, match=message):
        block_attention(*inputs(SIZES[0]), mask, block=block)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bits_cost_little_more_than_with_the_table(dtype):
    """The context against float64, with 32 blocks to add up."""
    given = [torch.randn(1, 2, 512, 32).to(dtype) for _ in range(3)]
    due = attention(*(x.double() for x in given))[0]
    table, found = attention(*given)[0], block_attention(*given, block=16)
    assert found.dtype == dtype
    ours, tables = ((x.double() - due).norm() for x in (found, table))
    assert ours < 1.2 * tables


# -- another attention inside a model --------------------------------------------------


@torch.no_grad()
def test_another_attention_is_called_in_the_block_alone():
    model, tokens = swap.with_stored_weights(Transformer), torch.full((1, 9), 7)
    due = model(tokens, tokens)
    with swap.attending_by(block_attention, model) as calls:
        found = model(tokens, tokens)
    assert len(calls) == 6  # two layers, three attentions
    torch.testing.assert_close(found, due, atol=1e-4, rtol=0)
    model(tokens, tokens)
    assert len(calls) == 6


@torch.no_grad()
def test_the_courses_model_stands_in_where_nothing_can_be_replaced(capsys):
    class Own(Transformer):
        def forward(self, source, target):
            with swap.attending_by(lambda *given: attention(*given)[0], self):
                return super().forward(source, target)

    model, tokens = swap.with_stored_weights(Own), torch.full((1, 9), 7)
    assert not isinstance(model, Own) and "stands in" in capsys.readouterr().out
    with swap.attending_by(block_attention, model) as calls:
        model(tokens, tokens)
    assert calls


# -- the checks ------------------------------------------------------------------------


def test_a_very_low_maximum_is_right_and_a_repaired_gradient_wrong():
    def step(mixed, total, maximum, scores, value, repair):
        highest = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))
        highest = highest if repair else highest.clamp(min=-1e30)
        rescale, parts = (maximum - highest).exp(), (scores - highest).exp()
        if repair:
            rescale, parts = rescale.nan_to_num(), parts.nan_to_num()
        total = rescale * total + parts.sum(dim=-1, keepdim=True)
        return rescale * mixed + parts @ value, total, highest

    assert exercises.absorb.passes(lambda *given: step(*given, repair=False))
    lines, _ = exercises.absorb.findings(lambda *given: step(*given, repair=True))
    assert "holds NaN" in lines[-1]


def strips_of_all_keys(query, key, value, mask=None, *, block=64):
    mask = mask.expand(*query.shape[:-1], key.size(-2)).split(2, dim=-2)
    rows = zip(query.split(2, dim=-2), mask, strict=True)
    return torch.cat([attention(q, key, value, seen)[0] for q, seen in rows], dim=-2)


def all_tiles_kept(query, key, value, mask=None, *, block=64):
    tiles = [query @ part.mT for part in key.split(block, dim=-2)]
    return in_two_passes(query, key, value, mask, block) + 0 * len(tiles)


def another_block(query, key, value, mask=None, *, block=64):
    return in_two_passes(query, key, value, mask, 4 * block)


@pytest.mark.parametrize("wrong", [strips_of_all_keys, all_tiles_kept, another_block])
def test_what_holds_too_much_is_refused(wrong):
    def answer(query, key, value, mask=None, *, block=64):
        mask = torch.ones(1, 1, dtype=torch.bool) if mask is None else mask
        return wrong(query, key, value, mask, block=block)

    lines, _ = exercises.block_attention.findings(answer)
    assert "too much is held at once" in lines[-1]


# -- the gauges ------------------------------------------------------------------------


@torch.no_grad()
def test_held_counts_the_largest_tensor_and_what_is_there_at_once():
    with Held() as held:
        x = torch.zeros(1000)
        y = x.view(10, 100).T  # a view: no memory of its own
        assert (held.largest, held.most) == (1000, 1000)
        z = x + 1
        assert (held.largest, held.most) == (1000, 2000)
        del x, y, z
        for _ in range(5):
            torch.zeros(1500)
    assert (held.largest, held.most) == (1500, 2000)


def test_held_sees_what_gradients_make():
    x = torch.ones(300, 2, requires_grad=True)
    with Held() as held:
        torch.autograd.grad(F.pad(x, (0, 5)).sum(), x)
    assert held.largest == 300 * 7


@pytest.mark.slow
def test_every_way_that_the_gpu_timed_gives_the_same_context():
    given = torch.randn(3, 1, 8, 96, 64)
    due = on_a_gpu.table(*given)
    for way in on_a_gpu.WAYS.values():
        torch.testing.assert_close(way(*given), due, atol=1e-5, rtol=0)
    assert [row["way"] for row in on_a_gpu.rows([96])] == [*on_a_gpu.WAYS]
