"""The five readings: equal to the course's parts, or different by what is said."""

import inspect
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from helpers import PAD
from helpers.layers import LayerNorm
from helpers.positions import positional_encoding
from lessons.lesson16 import exercises, mapping
from lessons.lesson16.readings import (
    annotated,
    build_reading,
    d2l_blocks,
    lengths,
    printed,
    pure_attention,
    scores,
)
from samples import SIZES, randomise, sentences
from test_notebooks import markdown
from tools.notebooks import NOTEBOOKS, read

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def model(key):
    """A reading in evaluation mode whose every parameter is random."""
    return randomise(build_reading(key, 50, 50, **SIZES)).eval()


@pytest.mark.parametrize("key", "ABCD")
def test_the_whole_model_equals_the_course_with_its_weights(key, seed):
    reading, (source, target) = model(key), sentences()
    ours = mapping.COURSE_FROM[key](reading)
    expected, real = ours(source, target), target != PAD
    if key == "C":  # log-probabilities
        expected = expected.log_softmax(dim=-1)
    assert_close(reading(source, target)[real], expected[real], **CLOSE)
    memories, real = (reading.encode(source), ours.encode(source)), source != PAD
    assert_close(memories[0][real], memories[1][real], **CLOSE)


def test_keys_and_values_of_e_may_differ_in_size():
    theirs = pure_attention.AttentionWithNorm(3, 8, 5, 7).eval()
    query, key = torch.randn(2, 4, 8), torch.randn(2, 6, 8)
    output, weights = theirs(query, key, key)
    w_q, w_k = (w.weight.view(3, 5, 8) for w in (theirs.w_qs, theirs.w_ks))
    w_v, w_o = theirs.w_vs.weight.view(3, 7, 8), theirs.fc.weight.view(8, 3, 7)
    products = torch.einsum("bqd,hed,hef,bkf->bhqk", query, w_q, w_k, key) / 5**0.5
    assert_close(weights, products.softmax(-1), **CLOSE)
    joined = torch.einsum("bhqk,hvd,bkd,ohv->bqo", weights, w_v, key, w_o)
    assert_close(output, theirs.layernorm(query + joined), **CLOSE)


def test_small_parts_do_what_their_texts_say():
    block = d2l_blocks.EncoderBlock(24, 24, 24, 24, [100, 24], 24, 48, 8, 0.5).eval()
    assert block(torch.ones(2, 100, 24), torch.tensor([3, 2])).shape == (2, 100, 24)
    assert d2l_blocks.PositionWiseFFN(4, 4, 8)(torch.ones(2, 3, 4)).shape == (2, 3, 8)
    assert d2l_blocks.AddNorm([3, 4], 0.5)(*torch.ones(2, 2, 3, 4)).shape == (2, 3, 4)
    x = torch.tensor([1.0, 2, 3, 4])
    due = torch.tensor([-1.3416, -0.4472, 0.4472, 1.3416])
    assert_close(LayerNorm(4)(x), due, atol=1e-4, rtol=0)
    assert_close(lengths.residual(torch.exp, x), x + x.exp())
    assert_close(annotated.StdLayerNorm(4)(x), (x - 2.5) / (x.std() + 1e-6))
    x = 1e-3 * torch.randn(512, dtype=torch.float64)  # D's formula is not its class
    formula = (x - x.mean()) / (x.var(correction=0) + 1e-6).sqrt()
    assert_close(F.layer_norm(x, (512,), eps=1e-6), formula)
    ratio = formula / annotated.StdLayerNorm(512).double()(x)
    assert_close(ratio, torch.full_like(x, 0.71), atol=0.02, rtol=0)
    assert annotated.subsequent_mask(3)[0].tolist() == torch.ones(3, 3).tril().tolist()
    mask = lengths.hidden_sequence_mask(torch.ones(1, 3))[0]
    assert torch.equal(~mask, annotated.subsequent_mask(3)[0])
    rows = lengths.LengthPositions(8, 5)(torch.tensor([[2], [3]]))
    table = positional_encoding(5, 8)
    assert_close(rows[0], torch.cat([table[:2], torch.zeros(1, 8)]))
    positions = pure_attention.SinusoidTable(8, 0.0)
    assert_close(positions(torch.zeros(1, 5, 8))[0], table)
    assert "pe" in positions.state_dict()
    assert "encoder.pos_encoding.P" in model("B").state_dict()


def test_the_scores_that_d_lists():
    q, k = torch.randn(1, 2, 4), torch.randn(1, 3, 4)
    between, places = torch.randn(4, 4), torch.randn(6, 4)
    dot = torch.einsum("bqd,bkd->bqk", q, k)
    assert_close(scores.dot_score(q, k), dot)
    assert_close(scores.scaled_dot_score(q, k), dot / 2)
    assert_close(scores.general_score(q, k, between), q @ (between @ k.mT))
    assert_close(scores.location_score(q, k, places), q @ places[:3].T)
    additive = scores.AdditiveScore(4, 5)
    hidden = torch.tanh(additive.query(q[0, 1]) + additive.key(k[0, 2]))
    assert_close(additive(q, k)[0, 1, 2], additive.score(hidden)[0])


def test_loud_slips_are_loud():
    x, mask = torch.randn(2, 3, 16), torch.ones(2, 3, 3)
    theirs = printed.PrintedE(2, 16, 8, 8)
    theirs.n_head = 2
    for wrong in (None, mask[:, None].expand(-1, 2, -1, -1)):
        with pytest.raises((AttributeError, RuntimeError)):
            theirs(x[:, :1], x, x, wrong)
    with pytest.raises(RuntimeError):  # A, C
        torch.zeros(2, dtype=torch.float16).masked_fill(torch.ones(2).bool(), -1e9)
    with pytest.raises(RuntimeError, match="Boolean value"):  # D's `if attn_mask:`
        printed.PrintedD(16, 2)(x, x, x, mask.bool())
    with pytest.raises(ZeroDivisionError):  # D's scale
        printed.PrintedD(16, 8)(x, x, x)
    with pytest.raises(RuntimeError):  # D's second convolution
        nn.Conv1d(16, 32, 1)(F.relu(nn.Conv1d(16, 32, 1)(x.mT)))
    with pytest.raises(IndexError):  # D's embedding has a row more than its output
        F.cross_entropy(torch.zeros(1, 4), torch.tensor([4]))
    assert not hasattr(nn.Sequential, "add")
    attention = d2l_blocks.d2l.MultiHeadAttention(16, 16, 16, 16, 2, 0.0)
    attention(x, x, x, None)
    assert not hasattr(attention, "attention_weights")
    three_to_five = annotated.MultiHeadedAttention(2, 16)
    assert three_to_five(x, *torch.randn(2, 2, 5, 16)).shape == (2, 3, 16)


def test_what_is_quoted_and_named_is_there():
    text = markdown(read(NOTEBOOKS / "16_five_readings.ipynb").cells)
    assert inspect.getsource(printed.PrintedD) in text
    modules = annotated, d2l_blocks, lengths, pure_attention, scores
    page = (NOTEBOOKS / "five_readings.md").read_text("utf-8")
    names = re.findall(r"`(\w+)`", " ".join(re.findall(r"→ (`.*?) \|", page)))
    assert len(names) > 30
    assert all(any(hasattr(module, name) for module in modules) for name in names)
    with pytest.raises(ValueError, match="the readings are A, B, C, D, E: not 'F'"):
        build_reading("F", 50, 50)


SAID = {
    "if attn_mask:": "Boolean value of Tensor",
    "key.view(": "joined right, and cut by `view` alone",
    "(key.size(-1) // num_heads)": "the scale is still the printed one",
    "attn_mask.repeat(": "another sentence's mask",
    "-torch.inf": "NaN: a softmax over scores that are all −∞",
    "context.view(": "cut right, and joined by `view` alone",
}
WITHOUT = {  # a right line made wrong, and what is said of it
    "self.dropout(attention.softmax(dim=2))": (
        "attention.softmax(dim=2)",
        "the weights become 0",
    ),
    "residual +": ("", "the output is `layer_norm(query)`"),
    "masked_fill_(attn_mask": ("masked_fill_(~attn_mask", "one head and a mask"),
}


@pytest.mark.parametrize("left", ["", *SAID, *WITHOUT])
def test_the_repair_line_by_line_is_right_and_each_line_left_is_named(left, capsys):
    text = markdown(read(NOTEBOOKS / "16_five_readings.ipynb").cells)
    pairs = re.findall(r"^`(.+)` \| `(.+)`$", text, re.M)
    assert len(pairs) == 6
    source, due = inspect.getsource(printed.PrintedD), SAID.get(left, "✓")
    for broken, repaired in pairs:
        for name in ("key", "value", "query") if "key.view" in broken else ("key",):
            here = [re.sub("^key", name, line) for line in (broken, repaired)]
            assert here[0] in source
            source = source.replace(*here) if left not in broken or not left else source
    if left in WITHOUT:
        assert left in source
        wrong, due = WITHOUT[left]
        source = source.replace(left, wrong)
    namespace = {"torch": torch, "nn": nn}
    exec(source, namespace)
    exercises.repaired_attention(namespace["PrintedD"])
    said = capsys.readouterr().out
    assert due in said and ("✗" in said) == bool(left)
