"""Lesson 16's checks: every mistake is caught by name, nothing sound is blamed."""

import math
import warnings

import pytest
import torch
from findings import assert_all_right, assert_wrong
from torch.nn import functional as F

from helpers.checks import lesson16
from helpers.interop import mapping

# --- 16.1 -----------------------------------------------------------------------------


def from_lengths(valid_lens, length):
    return torch.arange(length)[None, None, None] < valid_lens[:, None, None, None]


def from_hidden(hidden):
    return hidden.logical_not().unsqueeze(1)


def test_sound_masks_are_right():
    assert_all_right(lesson16.masks.findings(from_lengths, from_hidden), 2)


LENGTH_FAULTS = {
    "hidden instead": (lambda n, k: ~from_lengths(n, k), "True must mean may attend"),
    "one too many": (lambda n, k: from_lengths(n + 1, k), "one key too many"),
    "one too few": (lambda n, k: from_lengths(n - 1, k), "one key too few"),
    "two axes": (lambda n, k: from_lengths(n, k)[:, 0, 0], "heads and of queries"),
    "three axes": (lambda n, k: from_lengths(n, k)[:, 0], "axis of heads is missing"),
    "queries": (lambda n, k: from_lengths(n, k).mT, "that hides queries"),
    "right-aligned": (lambda n, k: from_lengths(n, k).flip(-1), "on the left"),
    "floats": (lambda n, k: from_lengths(n, k).float(), "torch.float32"),
    "fixed length": (lambda n, k: from_lengths(n, 5), "has the shape (3, 1, 1, 5)"),
    "a list": (lambda n, k: from_lengths(n, k).tolist(), "return a tensor"),
    "all": (lambda n, k: torch.ones(3, 1, 1, k).bool(), "6 of 15 entries are wrong"),
    "stops": (lambda n, k: n < torch.arange(k), "your code stopped with RuntimeError"),
}


@pytest.mark.parametrize("fault", LENGTH_FAULTS)
def test_a_mask_from_lengths_is_blamed_by_name(fault):
    function, text = LENGTH_FAULTS[fault]
    first, second = lesson16.masks.findings(function, from_hidden)
    assert_wrong([first], "from_lengths", text)
    assert second.mark == "✓"


HIDDEN_FAULTS = {
    "not turned": (lambda h: h[:, None], "True must mean may attend"),
    "no heads": (lambda h: ~h, "axis of heads is missing"),
    "untouched": (lambda h: h, "and the axis of heads"),
    "transposed": (lambda h: ~h[:, None].mT, "changed places"),
    "axis after queries": (lambda h: ~h[:, :, None], "among the wrong ones"),
    "integers": (lambda h: (~h[:, None]).int(), "torch.int32"),
    "in place": (lambda h: h.logical_not_()[:, None], "in place"),
}


@pytest.mark.parametrize("fault", HIDDEN_FAULTS)
def test_a_mask_from_hidden_is_blamed_by_name(fault):
    function, text = HIDDEN_FAULTS[fault]
    first, second = lesson16.masks.findings(from_lengths, function)
    assert_wrong([first, second], "from_hidden", text)


def test_masks_not_attempted():
    found = lesson16.masks.findings(lambda n, k: None, lambda h: None)
    assert [finding.mark for finding in found] == ["○", "○"]


# --- 16.2 -----------------------------------------------------------------------------

DUE = dict(enumerate(lesson16.ORDER, start=1))


def test_whose_numbers():
    assert_all_right(lesson16.whose.findings(DUE), 4)
    lower = {number: letter.lower() for number, letter in DUE.items()}
    assert_all_right(lesson16.whose.findings(lower), 4)
    found = lesson16.whose.findings(dict.fromkeys(DUE))
    assert [finding.mark for finding in found] == ["○"] * 4


@pytest.mark.parametrize("number", DUE)
@pytest.mark.parametrize("letter", "ABCD")
def test_another_letter_is_answered_with_the_numbers(number, letter):
    (finding,) = (
        f
        for f in lesson16.whose.findings({number: letter})
        if f.text.startswith(f"{number} is")
    )
    if letter == DUE[number]:
        assert finding.mark == "✓"
    else:
        assert_wrong([finding], f"not {letter}'s", lesson16.SIGNS[letter], "run from")


@pytest.mark.parametrize("answer", ["E", 3, ["A"], torch.ones(2)])
def test_no_letter(answer):
    found = lesson16.whose.findings({1: answer})
    assert_wrong(found[:1], "is due")


def test_the_numbers_tell_the_readings_apart():
    memories = {DUE[n]: memory for n, memory in lesson16.memories().items()}
    biased = {key: memory.var(-1, correction=0) for key, memory in memories.items()}
    unbiased = memories["C"].var(-1)
    assert (biased["D"] - 1).abs().max() < 1e-3
    assert (unbiased - 1).abs().max() < 1e-3
    assert abs(memories["B"].var(correction=0) - 1) < 1e-3
    assert biased["B"].max() - biased["B"].min() > 0.2
    assert biased["A"].min() > 1.2
    state = torch.get_rng_state()
    lesson16.memories()
    assert torch.equal(state, torch.get_rng_state())


# --- 16.3 -----------------------------------------------------------------------------


def at_the_end_of_each_head(weight, heads, d_head):
    by_head = weight.unflatten(0, (heads, -1))
    return F.pad(by_head, (0, 0, 0, d_head - by_head.size(1))).flatten(0, 1)


def after_the_last_head(weight, heads, d_head):
    return F.pad(weight, (0, 0, 0, heads * d_head - len(weight)))


def before_the_first_head(weight, heads, d_head):
    return F.pad(weight, (0, 0, heads * d_head - len(weight), 0))


def sides(theirs, ours, zeros=at_the_end_of_each_head, query=None, key=1.0):
    heads, d_head = ours.n_heads, ours.query_projection.out_features // ours.n_heads
    ratio = math.sqrt(d_head * heads / theirs.w_qs.out_features)
    for mine, part, factor in (
        (ours.query_projection, theirs.w_qs, query(ratio) if query else ratio),
        (ours.key_projection, theirs.w_ks, key),
    ):
        mine.weight.copy_(factor * zeros(part.weight, heads, d_head))
        mine.bias.zero_()
    mapping.copy_linear(theirs.w_vs, ours.value_projection)
    mapping.copy_linear(theirs.fc, ours.output_projection)
    return ours


def by_loops(theirs, ours):
    """Zeros first in each head, and the scale on the keys: as good."""
    heads, d_model = ours.n_heads, ours.query_projection.in_features
    d_head, d_k = d_model // heads, theirs.w_qs.out_features // heads
    for mine, part in (
        (ours.query_projection, theirs.w_qs),
        (ours.key_projection, theirs.w_ks),
    ):
        mine.weight.zero_()
        mine.bias.zero_()
        for head in range(heads):
            rows = part.weight[head * d_k : (head + 1) * d_k]
            mine.weight[(head + 1) * d_head - d_k : (head + 1) * d_head] = rows
    ours.key_projection.weight.mul_((d_head / d_k) ** 0.5)
    mapping.copy_linear(theirs.w_vs, ours.value_projection)
    mapping.copy_linear(theirs.fc, ours.output_projection)
    return ours


@pytest.mark.parametrize("function", [sides, by_loops])
def test_small_keys_are_mapped(function):
    assert_all_right(lesson16.small_keys.findings(function), 2)


def forgetting(part):
    """The sound mapping, but for one parameter that keeps what it started with."""

    def forgetful(theirs, ours):
        before = ours.get_parameter(part).clone()
        sides(theirs, ours)
        ours.get_parameter(part).copy_(before)
        return ours

    return forgetful


def other_shapes(theirs, ours):
    ours.query_projection.weight = theirs.w_qs.weight
    return ours


def without_zeros(theirs, ours):
    rows = [p.weight.clone() for p in (ours.query_projection, ours.key_projection)]
    sides(theirs, ours)
    for mine, kept in zip(
        (ours.query_projection, ours.key_projection), rows, strict=True
    ):
        mine.weight.copy_(torch.where(mine.weight == 0, kept, mine.weight))
    return ours


def swapped(theirs, ours):
    sides(theirs, ours, query=lambda ratio: 1.0)
    query, key = ours.query_projection.weight, ours.key_projection.weight
    both = query.clone(), key.clone()
    ratio = math.sqrt(ours.n_heads * (query.size(0) // ours.n_heads))
    ratio /= math.sqrt(theirs.w_qs.out_features)
    query.copy_(ratio * both[1])
    key.copy_(both[0])
    return ours


def both_scaled(theirs, ours):
    d_k = theirs.w_qs.out_features
    ratio = math.sqrt(ours.query_projection.out_features / d_k)
    return sides(theirs, ours, key=ratio)


def theirs_changed(theirs, ours):
    theirs.w_qs.weight.mul_(2)
    return sides(theirs, ours)


FAULTS = {
    "no scale": (lambda t, o: sides(t, o, query=lambda r: 1.0), "not scaled alike"),
    "both": (both_scaled, "queries and keys both have it"),
    "upside down": (lambda t, o: sides(t, o, query=lambda r: 1 / r), "upside down"),
    "no root": (lambda t, o: sides(t, o, query=lambda r: r * r), "the root is missing"),
    "zeros at the end": (
        lambda t, o: sides(t, o, zeros=after_the_last_head),
        "after the last head",
    ),
    "zeros first": (
        lambda t, o: sides(t, o, zeros=before_the_first_head),
        "before the first head",
    ),
    "two at once": (
        lambda t, o: sides(t, o, zeros=after_the_last_head, query=lambda ratio: 1.0),
        "; and all zeros come after",
    ),
    "swapped": (swapped, "changed places"),
    "no zeros": (without_zeros, "no row of query_projection.weight is zero"),
    "a bias": (
        forgetting("query_projection.bias"),
        "query_projection.bias kept numbers",
    ),
    "values": (
        forgetting("value_projection.weight"),
        "value_projection.weight is not w_vs.weight",
    ),
    "keys": (
        forgetting("key_projection.weight"),
        "key_projection.weight still holds what it started with",
    ),
    "other shapes": (other_shapes, "query_projection.weight has now the shape (6, 16)"),
    "nothing": (lambda t, o: o, "no weight of `ours` has changed"),
    "theirs": (theirs_changed, "`theirs` have changed"),
    "another": (lambda t, o: t, "return `ours`, not another AttentionWithNorm"),
    "shapes": (
        lambda t, o: o.query_projection.weight.copy_(t.w_qs.weight),
        "your code stopped with RuntimeError",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_mapping_is_named(fault):
    function, text = FAULTS[fault]
    assert_wrong(lesson16.small_keys.findings(function), text)


def test_small_keys_not_attempted():
    (finding,) = lesson16.small_keys.findings(lambda theirs, ours: None)
    assert finding.mark == "○"


# --- nothing raises -------------------------------------------------------------------


@pytest.mark.parametrize("answer", [None, 3, "A", ..., {}, torch.ones(2), F.relu])
def test_no_answer_makes_a_check_raise(answer, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lesson16.masks(answer, answer)
        lesson16.small_keys(answer)
        lesson16.whose(answer)
        lesson16.whose({1: answer})
    lines = capsys.readouterr().out.splitlines()
    assert lines and all(line[0] in "✓✗○" for line in lines), lines
