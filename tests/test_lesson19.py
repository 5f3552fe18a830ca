"""Attention in blocks is attention: values, gradients, any mask, and what it costs."""

import pytest
import torch
from torch.nn import functional as F

from helpers.attention import attention
from helpers.masks import causal_mask
from lessons.lesson19 import exercises
from lessons.lesson19.blockwise import (
    attention_over_keys,
    block_attention,
    blocks,
    visible_blocks,
)
from lessons.lesson19.measure import exponent
from lessons.lesson19.peak import peak_bytes
from lessons.lesson19.traffic import Memory

WAYS = {"keys": attention_over_keys, "both": block_attention}
# batch, heads, query_length, key_length, d_head, d_value
SIZES = [
    (2, 3, 7, 11, 4, 5),
    (1, 1, 16, 16, 8, 8),
    (2, 1, 1, 9, 3, 2),
    (1, 2, 9, 1, 4, 4),
]


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


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("block", [1, 3, 4, 100])
def test_blocks_give_what_attention_gives(way, sizes, block):
    given = inputs(sizes)
    for mask in masks(sizes):
        due = attention(*given, mask)[0]
        found = way(*given, mask, block=block)
        torch.testing.assert_close(found, due, atol=1e-6, rtol=0)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("block", [1, 3, 100])
def test_gradients_are_those_of_attention(way, block):
    sizes = SIZES[0]
    given = [x.requires_grad_() for x in inputs(sizes, dtype=torch.float64)]
    for mask in masks(sizes):
        due = attention(*given, mask)[0]
        found = way(*given, mask, block=block)
        pull = torch.randn_like(due)
        wanted = torch.autograd.grad(due, given, pull)
        got = torch.autograd.grad(found, given, pull)
        torch.testing.assert_close(got, wanted, atol=1e-10, rtol=0)


def test_the_gradients_of_tiles_add_up_to_those_of_attention():
    """The exercise's answer, over a mask that hides some pairs."""
    (part,) = exercises.tile_gradients.parts
    tile_gradients = exercises.tile_gradients.reference(part)
    query, key, value = (x.requires_grad_() for x in inputs(SIZES[0]))
    mask, pull = torch.rand(7, 11) < 0.7, torch.randn(2, 3, 7, 5)
    mask[:, 0] = True
    context, _ = attention(query, key, value, mask)
    wanted = torch.autograd.grad(context, (query, key, value), pull)
    scores = (query @ key.mT / key.size(-1) ** 0.5).masked_fill(~mask, -torch.inf)
    rows = scores.logsumexp(-1, keepdim=True), (pull * context).sum(-1, keepdim=True)
    found = [torch.zeros_like(x) for x in wanted]
    for part in blocks(11, 4):
        k, v, seen = key[..., part, :], value[..., part, :], mask[:, part]
        shares = tile_gradients(query, k, v, seen, *rows, pull)
        found[0] += shares[0]
        found[1][..., part, :], found[2][..., part, :] = shares[1:]
    torch.testing.assert_close(found, [*wanted], atol=1e-5, rtol=0)


@pytest.mark.parametrize("block", [2, 5])
def test_gradcheck(block):
    sizes = (1, 2, 5, 6, 3, 2)
    given = [x.requires_grad_() for x in inputs(sizes, dtype=torch.float64)]
    for mask in (None, torch.rand(5, 6) < 0.4, torch.arange(6) > 3):
        assert torch.autograd.gradcheck(
            lambda *x, mask=mask: block_attention(*x, mask, block=block), given
        )


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_large_scores_do_no_harm(way):
    query, key, value = inputs(SIZES[0])
    due = attention(1000 * query, key, value)[0]
    torch.testing.assert_close(way(1000 * query, key, value, block=3), due)


def test_a_rule_is_the_mask_that_it_makes():
    given = inputs(SIZES[1])
    found = block_attention(*given, lambda query, key: key <= query, block=3)
    due = attention(*given, causal_mask(16))[0]
    torch.testing.assert_close(found, due, atol=1e-6, rtol=0)


def test_a_rule_gets_positions_on_the_device_of_the_keys():
    given, seen = inputs(SIZES[1]), set()

    def rule(query, key):
        seen.update({query.device, key.device})
        return key <= query

    with torch.device("meta"):  # where tensors go for which nothing is said
        block_attention(*given, rule, block=3)
    assert seen == {given[0].device}


def test_leading_axes_are_any():
    for leading in ((), (4,), (2, 1, 3)):
        query, key = torch.randn(*leading, 5, 4), torch.randn(*leading, 6, 4)
        value, mask = torch.randn(*leading, 6, 2), torch.rand(5, 6) < 0.5
        due = attention(query, key, value, mask)[0]
        found = block_attention(query, key, value, mask, block=2)
        torch.testing.assert_close(found, due, atol=1e-6, rtol=0)


def test_hidden_blocks_are_skipped():
    key = torch.randn(12, 2)
    causal = [
        [*visible_blocks(lambda q, k: k <= q, rows, key, 4)] for rows in blocks(12, 4)
    ]
    assert [len(row) for row in causal] == [1, 2, 3]
    mask = torch.zeros(2, 12, 12, dtype=torch.bool)
    mask[1, 5, 9] = True  # in one of two maps
    found = [[c for c, _ in visible_blocks(mask, r, key, 4)] for r in blocks(12, 4)]
    assert found == [[], [slice(8, 12)], []]


def test_blocks_cover_the_length_once():
    for length in (0, 1, 7, 8, 9):
        places = [i for part in blocks(length, 4) for i in range(part.start, part.stop)]
        assert places == [*range(length)]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(
    ("mask", "block", "message"),
    [
        (None, 0, "block=0: a block needs at least one position"),
        (torch.ones(7, 11), 4, "must be boolean, True = may attend, not torch.float32"),
        (torch.ones(7, 10).bool(), 4, r"\(7, 10\) does not broadcast to \(2, 3, 7, 11"),
    ],
)
def test_bad_input(way, mask, block, message):
    with pytest.raises(ValueError, match=message):
        way(*inputs(SIZES[0]), mask, block=block)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bits_cost_no_more_than_with_the_table(dtype):
    """Context and gradients against float64, with 32 blocks to add up."""
    *given, pull = (torch.randn(1, 2, 512, 32).to(dtype) for _ in range(4))

    def context_and_gradients(way, kind):
        each = [x.to(kind).requires_grad_() for x in given]
        context = way(*each)
        return [context, *torch.autograd.grad(context, each, pull.to(kind))]

    def table(*each):
        return attention(*each)[0]

    due = context_and_gradients(table, torch.float64)

    def errors(way):
        found = context_and_gradients(way, dtype)
        assert all(x.dtype == dtype for x in found)
        pairs = zip(found, due, strict=True)
        return torch.stack([(x.double() - y).norm() / y.norm() for x, y in pairs])

    ours, tables = errors(lambda *x: block_attention(*x, block=16)), errors(table)
    assert (ours < 1.2 * tables).all(), (ours, tables)
    over_keys = attention_over_keys(*given, block=16)
    assert over_keys.dtype == dtype
    assert (over_keys.double() - due[0]).norm() < 1.2 * tables[0] * due[0].norm()


def test_a_second_derivative_is_refused():
    given = [x.requires_grad_() for x in inputs(SIZES[1])]
    context = block_attention(*given)
    loss = context.square().sum()
    (first,) = torch.autograd.grad(loss, given[:1], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


# -- the gauges ------------------------------------------------------------------------


def test_peak_counts_what_is_held_at_once():
    assert peak_bytes(lambda: torch.zeros(1000)) == 4000
    assert peak_bytes(lambda: torch.zeros(1000) + torch.zeros(1000)) == 12_000

    def one_after_the_other():
        for _ in range(5):
            torch.zeros(1000)

    assert peak_bytes(one_after_the_other) == 4000
    x = torch.zeros(1000)
    assert peak_bytes(lambda: x.view(10, 100).T) == 0  # no memory of its own
    assert peak_bytes(lambda: x.add_(x)) == 0


def test_peak_sees_inside_an_operation():
    query = torch.randn(1, 1, 256, 32)
    outputs = query.nbytes + 4 * 256  # the context, and a number for each row
    found = peak_bytes(lambda: F.scaled_dot_product_attention(query, query, query))
    assert found > outputs


def test_peak_says_nothing_on_the_error_stream(capfd):
    peak_bytes(lambda: torch.zeros(3))
    assert capfd.readouterr() == ("", "")


def test_memory_counts_what_passes():
    memory, x = Memory(), torch.ones(3, 4)
    assert memory.write(memory.read(x) + memory.read(x[0])).equal(x + 1)
    assert (memory.reads, memory.writes, memory.moved) == (16, 12, 28)


def test_the_exponent_of_a_power():
    sizes = [3, 5, 70]
    assert exponent(sizes, [7 * x**2.5 for x in sizes]) == pytest.approx(2.5)
