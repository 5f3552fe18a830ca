"""Decoding with caches equals the plain pass at every step, row by row."""

import pytest
import torch
from torch.testing import assert_close

from helpers import PAD
from helpers.caching import CachedDecoding
from samples import sentences, small_model

pytestmark = pytest.mark.usefixtures("seed")
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
NORM_ORDERS = pytest.mark.parametrize("norm_first", [False, True])


def unpadded(rows=3):
    """Padded sources, and targets without padding: what decoding has written so far."""
    source, target = sentences(rows=rows)
    return source, target.masked_fill(target == PAD, 5)


@NORM_ORDERS
def test_every_step_gives_what_the_plain_pass_gives_there(norm_first):
    model, (source, target) = small_model(norm_first), unpadded()
    full, decoding = model(source, target), CachedDecoding(model, source)
    for step, token in enumerate(target.unbind(1)):
        logits = decoding.step(token)
        assert_close(logits, full[:, step], **CLOSE)
        prefix = model(source, target[:, : step + 1])
        assert_close(logits, prefix[:, -1], **CLOSE)
        assert len(decoding.past[0]) == step + 1


@pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1, 0, 0, 2], [2]])
@pytest.mark.parametrize("when", [0, 4])
def test_select_takes_along_all_that_a_row_consists_of(rows, when):
    """Its own keys, the source's, the source's padding; before and between steps."""
    model, (source, target) = small_model(), unpadded()
    decoding, rows = CachedDecoding(model, source), torch.tensor(rows)
    for token in target[:, :when].unbind(1):
        decoding.step(token)
    decoding.select(rows)
    full = model(source[rows], target[rows])
    for step in range(when, target.size(1)):
        assert_close(decoding.step(target[rows, step]), full[:, step], **CLOSE)


def test_rows_of_one_source_share_its_keys_until_sources_change_places():
    model, (source, target) = small_model(), unpadded()
    decoding = CachedDecoding(model, source)
    places = torch.tensor([0, 1, 2])
    for step, rows in enumerate(([0, 0, 1, 1], [1, 0, 3, 2], [2, 2, 0, 1], [0, 3])):
        decoding.select(torch.tensor(rows))
        places = places[rows]
        given = target[places]
        expected = model(source[places], given)[:, step]
        assert_close(decoding.step(given[:, step]), expected, **CLOSE)


def test_padding_in_a_prefix_is_seen_so_prefixes_must_hold_none():
    model, (source, target) = small_model(), unpadded()
    target[1, 2] = PAD
    full, decoding = model(source, target), CachedDecoding(model, source)
    steps = [decoding.step(token) for token in target.unbind(1)]
    assert_close(steps[-1][[0, 2]], full[[0, 2], -1], **CLOSE)
    assert (steps[-1][1] - full[1, -1]).abs().max() > 1e-3


def test_stepping_past_the_positional_table():
    model, (source, target) = small_model(max_length=7), unpadded()
    decoding = CachedDecoding(model, source)
    for token in target.repeat(1, 2)[:, :7].unbind(1):
        decoding.step(token)
    with pytest.raises(ValueError, match="8 tokens long, the positional table 7"):
        decoding.step(target[:, 0])
