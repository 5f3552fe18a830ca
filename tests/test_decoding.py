"""Greedy, sampling and beam search on random models."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from benchmarks.torch_translator import TorchTranslator
from helpers import BOS, EOS, PAD
from helpers.caching import CachedDecoding
from helpers.decoding import (
    Decodable,
    PrefixDecoding,
    beam_search,
    greedy_decode,
    inference,
    likeliest_tokens,
    next_token_scores,
    sample_decode,
    start_decoding,
    write_tokens,
)
from helpers.transformer import TransformerConfig
from lessons.lesson16.readings import build_reading
from lessons.lesson16.readings.pure_attention import AttentionOnlyTranslator
from samples import SIZES, randomise, small_model


def sources(rows=5, length=6):
    source = torch.randint(4, 50, (rows, length))
    for row in range(rows):
        source[row, length - row % 3 :] = PAD
    return source


def greedy_without_cache(model, source, max_length):
    tokens = torch.full((len(source), 1), BOS)
    for _ in range(max_length):
        logits = model(source, tokens)[:, -1]
        logits[:, [PAD, BOS]] = -torch.inf
        tokens = torch.cat([tokens, logits.argmax(-1, keepdim=True)], dim=1)
    return tokens[:, 1:]


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("norm_first", [False, True])
def test_cached_greedy_equals_the_full_pass_at_every_step(norm_first):
    model, source = small_model(norm_first), sources()
    cached = greedy_decode(model, source, max_length=12)
    with torch.no_grad():
        full = greedy_without_cache(model, source, 12)
    ended = (full == EOS).cumsum(1) - (full == EOS).int() > 0
    expected = full.masked_fill(ended, PAD)[:, : cached.size(1)]
    assert torch.equal(cached, expected)


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("decode", [greedy_decode, sample_decode, beam_search])
def test_output_has_no_bos_and_only_padding_after_the_end(decode):
    def now_and_then(_, __, logits):
        logits[..., EOS] += 9 * (torch.rand(logits.shape[:-1]) < 0.2)

    model, source = small_model(), sources(rows=12)
    model.projection.register_forward_hook(now_and_then)
    ids = decode(model, source, max_length=9)
    assert 1 <= ids.size(1) <= 9 and not (ids == BOS).any()
    after = (ids == EOS).cumsum(1) - (ids == EOS).int() > 0
    assert (ids[after] == PAD).all() and not (ids[~after] == PAD).any()
    assert after.any() and len({*after.sum(1).tolist()}) > 1


@pytest.mark.usefixtures("seed")
def test_beam_search_gives_each_sentence_what_it_gets_alone():
    model, source = small_model(), sources()
    together = beam_search(model, source, beam_size=4, max_length=8)
    for row in range(len(source)):
        alone = beam_search(model, source[row : row + 1], beam_size=4, max_length=8)
        width = alone.size(1)
        assert torch.equal(together[row, :width], alone[0])
        assert (together[row, width:] == PAD).all()


class Whims(nn.Module):
    """Each next of seven words depends on every word of source and prefix."""

    config = TransformerConfig(9, 9, max_length=10)

    def encode(self, source):
        return torch.zeros(*source.shape, 1)

    def decode(self, target, memory, source):
        states = torch.zeros(*target.shape, 7)
        for row, (words, prefix) in enumerate(zip(source, target, strict=True)):
            place = hash((*words.tolist(), *prefix.tolist()))
            chance = torch.Generator().manual_seed(place % 2**32)
            states[row, -1] = torch.randn(7, generator=chance)
        return states

    def project(self, states):
        return states


def beam_by_hand(model, source, *, beam_size, length_penalty, max_length):
    """The search for one sentence, hypothesis by hypothesis."""

    def rank(hypothesis):
        total, ids = hypothesis
        return total / ((5 + len(ids)) / 6) ** length_penalty

    beam = [(0.0, [])]
    for _ in range(max_length):
        grown = [(total, ids) for total, ids in beam if ids[-1:] == [EOS]]
        for total, ids in beam:
            if ids[-1:] != [EOS]:
                scores = model.decode(torch.tensor([[BOS, *ids]]), None, source)[0, -1]
                scores[[PAD, BOS]] = -torch.inf
                after = enumerate(scores.log_softmax(-1).tolist())
                grown += [(total + score, [*ids, i]) for i, score in after]
        beam = sorted(grown, key=rank, reverse=True)[:beam_size]
    return max(beam, key=rank)[1]


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 2.0])
def test_beam_search_finds_what_it_finds_by_hand(length_penalty):
    model, source = Whims(), sources(rows=9)
    options = {"beam_size": 3, "length_penalty": length_penalty, "max_length": 8}
    found = beam_search(model, source, **options)
    for ids, one in zip(found.tolist(), source.split(1), strict=True):
        expected = beam_by_hand(model, one, **options)
        assert ids == expected + [PAD] * (len(ids) - len(expected))


@pytest.mark.parametrize(
    "temperature, top_k, top_p",
    [(0.5, None, 1.0), (2.0, 3, 1.0), (0.7, 5, 0.5)],
)
def test_samples_follow_the_distribution_they_are_drawn_from(temperature, top_k, top_p):
    model, source = small_model(), sources(rows=1).expand(4000, -1)
    with inference(model):
        decoding = start_decoding(model, source[:1])
        scores = next_token_scores(decoding, torch.tensor([BOS]))[0]
    weights = (scores / temperature).exp()
    if top_k is not None:
        weights[weights < weights.sort(descending=True).values[top_k - 1]] = 0.0
    if top_p < 1:
        order, held, whole = weights.argsort(descending=True), 0.0, weights.sum()
        for token in order.tolist():
            share = (weights[token] / whole).item()
            weights[token] *= held < top_p
            held += share
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    drawn = sample_decode(model, source, max_length=1, **options).flatten()
    shares = torch.bincount(drawn, minlength=50) / len(drawn)
    expected = weights / weights.sum()
    assert (shares - expected).abs().max() < 0.03  # 3.8 standard errors at one half
    assert not shares[expected == 0].any()


def test_the_same_generator_gives_the_same_samples_and_another_one_others():
    model, source = small_model(), sources()

    def sampled(seed):
        generator = torch.Generator().manual_seed(seed)
        return sample_decode(model, source, max_length=10, generator=generator)

    assert torch.equal(sampled(0), sampled(0))
    assert not torch.equal(sampled(0), sampled(1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature must be positive and finite: 0.0"),
        ({"top_k": 0}, "top_k must be at least 1: 0"),
        ({"top_p": 0.0}, "top_p must .* be at most 1: 0.0"),
        ({"top_p": 1.1}, "top_p must .* be at most 1: 1.1"),
    ],
)
def test_an_option_of_sampling_that_makes_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        sample_decode(small_model(), sources(), max_length=5, **options)


def test_the_smallest_set_that_holds_top_p():
    scores = torch.tensor([[0.2, 0.5, 0.3], [0.05, 0.05, 0.9]]).log()
    tokens, shares = likeliest_tokens(scores, top_p=0.7)
    assert tokens[0].tolist() == [1, 2, 0] and tokens[1, 0] == 2
    expected = torch.tensor([[0.625, 0.375, 0.0], [1.0, 0.0, 0.0]])
    assert_close(shares, expected)
    assert likeliest_tokens(scores, top_k=10)[0].size(1) == 3
    assert likeliest_tokens(scores, top_p=1e-9)[1].tolist() == [[1.0, 0.0, 0.0]] * 2


def test_any_rule_may_choose_the_tokens():
    def say_seven(scores):
        return scores.new_full((len(scores),), 7, dtype=torch.long)

    ids = write_tokens(small_model(), sources(), say_seven, max_length=4)
    assert ids.tolist() == [[7] * 4] * 5


@pytest.mark.parametrize("training", [True, False])
def test_decoding_uses_eval_mode_and_gives_the_mode_back(training):
    model, source = small_model(dropout=0.9).train(training), sources()
    first, second = (greedy_decode(model, source, max_length=8) for _ in range(2))
    assert torch.equal(first, second) and model.training is training
    with pytest.raises(ZeroDivisionError), inference(model):
        1 / 0  # noqa: B018
    assert model.training is training


@pytest.mark.parametrize("max_length", [0, 41])
def test_max_length_outside_the_positional_table(max_length):
    model = small_model()
    for decode in (greedy_decode, sample_decode, beam_search):
        with pytest.raises(ValueError, match=f"between 1 and 40: {max_length}"):
            decode(model, sources(), max_length=max_length)


def test_beam_size_below_one():
    with pytest.raises(ValueError, match="beam_size must be at least 1: 0"):
        beam_search(small_model(), sources(), beam_size=0, max_length=5)


# --- What decoding asks of a model ----------------------------------------------------


MODELS = {
    "course, norm last": small_model,
    "course, norm first": partial(small_model, norm_first=True),
    "nn.Transformer": partial(TorchTranslator, 50, 50, **SIZES),
    **{
        f"reading {key}": partial(build_reading, key, 50, 50, **SIZES) for key in "ABCD"
    },
    "reading E": lambda: AttentionOnlyTranslator(small_model().config),
}


@pytest.mark.slow
@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_decoded_in_every_way(name):
    model, source = randomise(MODELS[name]()).eval(), sources()
    assert isinstance(model, Decodable)
    greedy = greedy_decode(model, source, max_length=6)
    beam = beam_search(model, source, beam_size=1, length_penalty=0.0, max_length=6)
    sampled = sample_decode(model, source, top_k=1, max_length=6)
    assert torch.equal(beam, greedy) and torch.equal(sampled, greedy)
    with inference(model):
        full = greedy_without_cache(model, source, greedy.size(1))
    written = greedy != PAD
    assert torch.equal(full[written], greedy[written])
    for row in range(len(source)):
        own = source[row : row + 1]
        own = own[:, : (own != PAD).sum()]
        alone = beam_search(model, own, beam_size=3, max_length=6)[0]
        together = beam_search(model, source, beam_size=3, max_length=6)[row]
        assert torch.equal(together[: len(alone)], alone)


@pytest.mark.parametrize("part", ["", "decoder", "decoder.layers.0.self_attention"])
def test_a_model_that_decodes_in_its_own_way_is_run_as_it_stands(part):
    model, source = small_model(), sources()
    assert type(start_decoding(model, source)) is CachedDecoding
    module = model.get_submodule(part)
    kind, name = type(module), "forward" if part else "decode"

    def negated(self, *inputs):
        return -getattr(kind, name)(self, *inputs)

    module.__class__ = type("Own", (kind,), {name: negated})
    assert type(start_decoding(model, source)) is PrefixDecoding
    with inference(model):
        full = greedy_without_cache(model, source, 6)
    found = greedy_decode(model, source, max_length=6)
    assert torch.equal(found, full[:, : found.size(1)])


def test_what_cannot_be_decoded_is_named():
    model = nn.Linear(2, 2)
    for decode in (greedy_decode, beam_search):
        with pytest.raises(TypeError, match=r"Linear cannot be .* no encode, decode,"):
            decode(model, sources(), max_length=3)
