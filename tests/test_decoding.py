"""Greedy, sampling and beam search on random models, and on one with known paths."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from benchmarks.torch_translator import TorchTranslator
from helpers import BOS, EOS, PAD
from helpers.caching import CachedDecoding
from helpers.decoding import (
    PrefixDecoding,
    beam_search,
    greedy_decode,
    inference,
    likeliest_tokens,
    next_token_scores,
    penalty,
    sample_decode,
    start_decoding,
    write_tokens,
)
from helpers.masks import decoder_mask, padding_mask
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson15.mutants import MUTANTS
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


def sequence_scores(model, source, sequences):
    """Log-probability of each sequence (up to EOS) under the full, uncached model."""
    totals = torch.zeros(len(sequences))
    tokens = torch.tensor([[BOS, *s] for s in sequences])
    logits = model(source.expand(len(sequences), -1), tokens[:, :-1]).detach()
    logits[..., [PAD, BOS]] = -torch.inf
    steps = logits.log_softmax(-1).gather(2, tokens[:, 1:, None])[..., 0]
    real = tokens[:, 1:] != PAD
    totals = steps.where(real, 0.0).sum(1)
    return totals, real.sum(1)


@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 2.0])
def test_a_beam_of_full_width_finds_what_exhaustive_search_finds(length_penalty):
    model = small_model()
    model.projection = nn.Linear(32, 7, bias=False)  # ids 1 … 6 can be said
    model.eval()
    source = sources(rows=1)
    alphabet, longest = (1, 4, 5, 6), 4
    sequences = []
    for length in range(longest + 1):
        for words in itertools.product(alphabet, repeat=length):
            ending = [EOS] if length < longest else []
            padding = [PAD] * (longest - length - len(ending))
            sequences.append([*words, *ending, *padding])
    totals, lengths = sequence_scores(model, source, sequences)
    ranked = totals / penalty(lengths, length_penalty)
    expected = sequences[ranked.argmax()]
    found = beam_search(
        model,
        source,
        beam_size=4**longest + 1,
        length_penalty=length_penalty,
        max_length=longest,
    )
    assert [*found[0].tolist(), *[PAD] * longest][:longest] == expected


@pytest.mark.usefixtures("seed")
def test_beam_search_gives_each_sentence_what_it_gets_alone():
    model, source = small_model(), sources()
    together = beam_search(model, source, beam_size=4, max_length=8)
    for row in range(len(source)):
        alone = beam_search(model, source[row : row + 1], beam_size=4, max_length=8)
        width = alone.size(1)
        assert torch.equal(together[row, :width], alone[0])
        assert (together[row, width:] == PAD).all()


PATHS = {(): {4: 0.6, 5: 0.4}, (4,): {4: 0.35, 5: 0.33, EOS: 0.32}, (5,): {EOS: 1}}


class Crossroads(nn.Module):
    """Greedy takes 4 (0.6) and then can only scatter; 5 (0.4) leads to a sure end."""

    config = TransformerConfig(9, 9, max_length=10)

    def encode(self, source):
        return torch.zeros(*source.shape, 1)

    def decode(self, target, memory, source):
        states = torch.full((*target.shape, 6), -torch.inf)
        for row, prefix in enumerate(target.tolist()):
            for token, probability in PATHS.get(tuple(prefix[1:]), {EOS: 1}).items():
                states[row, -1, token] = math.log(probability)
        return states

    def project(self, states):
        return states


def test_beam_search_finds_the_path_that_greedy_misses():
    model, source = Crossroads(), torch.tensor([[4]])
    assert greedy_decode(model, source, max_length=3).tolist()[0][0] == 4
    found = beam_search(model, source, beam_size=2, length_penalty=0.0, max_length=3)
    assert found.tolist() == [[5, EOS]]


class Whims(Crossroads):
    """What it says next depends on every word of the source and of the prefix."""

    def decode(self, target, memory, source):
        states = torch.full((*target.shape, 7), -torch.inf)
        for row, (words, prefix) in enumerate(zip(source, target, strict=True)):
            place = hash((*words.tolist(), *prefix.tolist()))
            chance = torch.Generator().manual_seed(place % 2**32)
            states[row, -1] = torch.randn(7, generator=chance)
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


@pytest.mark.usefixtures("seed")
def test_sampling_at_no_temperature_becomes_greedy():
    model, source = small_model(), sources()
    greedy = greedy_decode(model, source, max_length=10)
    cold = sample_decode(model, source, max_length=10, temperature=1e-6)
    assert torch.equal(cold, greedy)


@pytest.mark.parametrize(
    "temperature, top_k, top_p",
    [
        (1.0, None, 1.0),
        (0.5, None, 1.0),
        (2.0, 3, 1.0),
        (1.0, None, 0.6),
        (0.7, 5, 0.5),
    ],
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


def test_top_k_above_the_vocabulary_leaves_every_token():
    model, source = small_model(), sources()

    def sampled(top_k):
        generator = torch.Generator().manual_seed(0)
        options = {"max_length": 10, "generator": generator}
        return sample_decode(model, source, top_k=top_k, **options)

    assert torch.equal(sampled(10_000), sampled(None))


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan")])
def test_a_temperature_that_is_none(temperature):
    with pytest.raises(ValueError, match=f"positive and finite: {temperature}"):
        sample_decode(small_model(), sources(), max_length=5, temperature=temperature)


def test_top_k_below_one():
    with pytest.raises(ValueError, match="top_k must be at least 1: 0"):
        sample_decode(small_model(), sources(), max_length=5, top_k=0)


@pytest.mark.parametrize("top_p", [0.0, -0.1, 1.1, float("nan")])
def test_a_top_p_that_is_none(top_p):
    with pytest.raises(ValueError, match=f"be at most 1: {top_p}"):
        sample_decode(small_model(), sources(), max_length=5, top_p=top_p)


def test_the_smallest_set_that_holds_top_p():
    scores = torch.tensor([[0.2, 0.5, 0.3], [0.05, 0.05, 0.9]]).log()
    tokens, shares = likeliest_tokens(scores, top_p=0.7)
    assert tokens[0].tolist() == [1, 2, 0] and tokens[1, 0] == 2
    expected = torch.tensor([[0.625, 0.375, 0.0], [1.0, 0.0, 0.0]])
    assert_close(shares, expected)
    assert likeliest_tokens(scores, top_p=1e-9)[1].tolist() == [[1.0, 0.0, 0.0]] * 2


def test_any_rule_may_choose_the_tokens():
    def say_seven(scores):
        return scores.new_full((len(scores),), 7, dtype=torch.long)

    ids = write_tokens(small_model(), sources(), say_seven, max_length=4)
    assert ids.tolist() == [[7] * 4] * 5


def test_length_penalty_is_the_one_of_the_source():
    lengths = torch.tensor([1, 7, 13])
    assert_close(penalty(lengths, 1.0), torch.tensor([1.0, 2.0, 3.0]))
    assert_close(penalty(lengths, 0.0), torch.ones(3))


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


def reading(key):
    return build_reading(key, 50, 50, **SIZES)


CONFIG = TransformerConfig(50, 50, share_embeddings=False, **SIZES)
MODELS = {
    "course, norm last": small_model,
    "course, norm first": lambda: small_model(norm_first=True),
    "nn.Transformer": lambda: TorchTranslator(50, 50, **SIZES),
    **{f"reading {key}": lambda key=key: reading(key) for key in "ABCD"},
    "reading E": lambda: AttentionOnlyTranslator(CONFIG),
}


@pytest.mark.slow
@pytest.mark.usefixtures("seed")
@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_decoded_in_every_way(name):
    model, source = randomise(MODELS[name]()).eval(), sources()
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


@pytest.mark.parametrize("fault", MUTANTS)
def test_every_broken_model_is_decoded_as_well(fault):
    model, source = MUTANTS[fault].build().model.eval(), sources()
    for decode in (greedy_decode, beam_search):
        ids = decode(model, source, max_length=5)
        assert len(ids) == len(source) and 1 <= ids.size(1) <= 5


class SeesBackwards(Transformer):
    """Each word sees itself and what follows: no cache can serve that."""

    def decode(self, target, memory, source):
        x = self.positions(self.target_embedding(target))
        mask = decoder_mask(target).mT & padding_mask(target)
        return self.decoder(x, memory, mask, padding_mask(source))


def test_a_model_that_decodes_in_its_own_way_is_run_as_it_stands():
    model, source = SeesBackwards(CONFIG), sources()
    randomise(model).eval()
    assert type(start_decoding(model, source)) is PrefixDecoding
    with inference(model):
        full = greedy_without_cache(model, source, 6)
    assert torch.equal(greedy_decode(model, source, max_length=6), full)


@pytest.mark.parametrize(
    "part", ["decoder", "decoder.layers.1", "decoder.layers.0.self_attention"]
)
def test_nor_is_one_with_a_part_of_its_own(part):
    model, source = small_model(), sources()
    module = model.get_submodule(part)
    assert type(start_decoding(model, source)) is CachedDecoding

    def forward(self, *inputs):
        return -type(module).__mro__[1].forward(self, *inputs)

    module.__class__ = type("Own", (type(module),), {"forward": forward})
    assert type(start_decoding(model, source)) is PrefixDecoding
    with inference(model):
        full = greedy_without_cache(model, source, 6)
    found = greedy_decode(model, source, max_length=6)
    assert torch.equal(found, full[:, : found.size(1)])


def test_nor_is_one_whose_method_was_replaced():
    model, source = small_model(), sources()
    decode = model.decode
    model.decode = lambda *inputs: -decode(*inputs)
    assert type(start_decoding(model, source)) is PrefixDecoding


def test_what_cannot_be_decoded_is_named():
    model = nn.Linear(2, 2)
    for decode in (greedy_decode, beam_search):
        with pytest.raises(TypeError, match=r"Linear cannot be .* no encode, decode,"):
            decode(model, sources(), max_length=3)
