"""What lesson 11's exercises refuse, and its scaled logits."""

import pytest
import torch

from helpers import BOS, EOS
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


def capped(next_scores, beam_size, max_length):
    return searched(next_scores, beam_size, max_length, cap=True)


def with_a_penalty_at_last(next_scores, beam_size, max_length):
    def rank(one):
        return one[1] / ((5 + len(one[0])) / 6) ** 0.6

    return searched(next_scores, beam_size, max_length, rank=rank)


def with_one_that_ended(next_scores, beam_size, max_length):
    def rank(one):
        return one[0][-1:] == [EOS], one[1]

    return searched(next_scores, beam_size, max_length, rank=rank)


def the_best_two(next_scores, beam_size, max_length):
    return searched(next_scores, beam_size, max_length, each=2)


def with_its_start(next_scores, beam_size, max_length):
    return [BOS, *the_best_of_each(next_scores, beam_size, max_length)]


def without_its_end(next_scores, beam_size, max_length):
    ids = the_best_of_each(next_scores, beam_size, max_length)
    return [token for token in ids if token != EOS]


def that_never_ends(next_scores, beam_size, max_length):
    beam = [([], 0.0)]
    for _ in range(max_length):
        new = []
        for tokens, total in beam:
            scores = enumerate(next_scores(tokens).tolist())
            new += [([*tokens, token], total + score) for token, score in scores]
        beam = sorted(new, key=lambda one: -one[1])[:beam_size]
    return beam[0][0]


def the_best_of_each(next_scores, beam_size, max_length):
    return searched(next_scores, beam_size, max_length)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (capped, "✗ with beam_size=12 and a vocabulary of 7: "),
        (with_a_penalty_at_last, "✗ with beam_size=3 and max_length=7: "),
        (with_one_that_ended, "✗ with beam_size=3 and max_length=7: "),
        (the_best_two, "✗ with beam_size=3 and max_length=7: "),
        (the_best_of_each, "✓"),
    ],
)
def test_a_beam_is_as_wide_as_asked_and_ranks_by_the_sum(answer, says):
    lines, _ = exercises.beam_search.findings(answer)
    assert lines[-1].startswith(says)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (with_its_start, "BOS is none of the ids"),
        (without_its_end, "ids without an EOS at the end"),
        (that_never_ends, "a hypothesis goes on after its EOS"),
    ],
)
def test_ids_that_no_search_gives_are_named_before_any_praise(answer, says):
    (line,), _ = exercises.beam_search.findings(answer)
    assert line.startswith("✗ with beam_size=3 and max_length=7: ") and says in line


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
