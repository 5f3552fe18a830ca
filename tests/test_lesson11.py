"""What lesson 11's exercises refuse, and its scaled logits."""

from functools import partial

import pytest
import torch

from helpers import EOS
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson11 import exercises
from lessons.lesson11.search import scaled


def searched(next_scores, beam_size, max_length, *, cap=False, rank=None, each=None):
    """A beam search that can be too narrow, or choose its last by another rank."""
    beam = [([], 0.0)]
    for _ in range(max_length):
        new = [one for one in beam if one[0][-1:] == [EOS]]
        for tokens, total in beam:
            if tokens[-1:] != [EOS]:
                best = next_scores(tokens)
                best = best.topk(min(each or beam_size, len(best)))
                pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
                new += [([*tokens, token], total + score) for token, score in pairs]
        most = min(beam_size, len(next_scores([]))) if cap else beam_size
        beam = sorted(new, key=lambda one: -one[1])[:most]
    return max(beam, key=rank or (lambda one: one[1]))[0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"cap": True}, "✗ with beam_size=12 and a vocabulary of 7: "),
        ({"each": 2}, "✗ with beam_size=3"),
        ({"rank": lambda one: one[1] / (5 + len(one[0])) ** 0.6}, "✗ with beam_size=3"),
        (
            {"rank": lambda one: (one[0][-1:] == [EOS], one[1])},
            "✗ it stops at the first",
        ),
        ({}, "✓"),
    ],
)
def test_a_beam_is_as_wide_as_asked_and_ranks_by_the_sum(change, says):
    lines, _ = exercises.beam_search.findings(partial(searched, **change))
    assert lines[-1].startswith(says)


def doubled_keys(layer, x, past, source, memory_mask=None):
    def look_back(y):
        keys, values = layer.self_attention.project(y, y)
        return layer.self_attention.attend(y, *past.extend(2 * keys, values))

    def look_at_source(y):
        keys, values = source.keys, source.values
        return layer.cross_attention.attend(y, keys, values, memory_mask)

    x = layer.residuals[0](x, look_back)
    x = layer.residuals[1](x, look_at_source)
    return layer.residuals[2](x, layer.feed_forward)


def test_a_wrong_cache_is_named_before_the_output():
    lines, _ = exercises.layer_step.findings(doubled_keys)
    assert lines[0].startswith("✗ after the step, `past.keys` is ")


def test_scaled_logits_are_of_a_copy():
    sizes = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1}
    model = Transformer(TransformerConfig(9, 9, share_embeddings=False, **sizes)).eval()
    ids = torch.arange(3, 9)[None]
    with torch.no_grad():
        before = model(ids, ids)
        torch.testing.assert_close(scaled(model, 1.5)(ids, ids), 1.5 * before)
        assert torch.equal(model(ids, ids), before)
