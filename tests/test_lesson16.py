"""The five readings: equal to the course's model, or different by what they say."""

import math
from functools import cache

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from helpers import BOS, EOS, PAD
from helpers.batching import make_batch
from helpers.decoding import (
    beam_search,
    greedy_decode,
    start_decoding,
    translate_ids,
)
from helpers.positions import positional_encoding
from helpers.training import Trainer, TrainingConfig, evaluate_loss, token_loss
from helpers.transformer import TransformerConfig
from lessons.lesson16 import mapping
from lessons.lesson16.readings import (
    READINGS,
    annotated,
    build_reading,
    lengths,
    pure_attention,
)
from samples import SIZES, randomise, sentences

D_MODEL, N_HEADS, D_FF = SIZES["d_model"], SIZES["n_heads"], SIZES["d_ff"]
PLACES = {"positions", "masks", "attention", "layers", "encoder", "decoder"}
PLACES |= {"transformer", "decoding", "training", "batching", "interop"}
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def whole(test):
    """Of every reading that is a whole model, from every seed."""
    return pytest.mark.usefixtures("seed")(pytest.mark.parametrize("key", "ABCD")(test))


@cache
def d2l_blocks():
    """Imported by the first test that needs it: d2l takes seconds."""
    from lessons.lesson16.readings import d2l_blocks

    return d2l_blocks


def model(key):
    """A reading in eval mode whose every parameter is random."""
    return randomise(build_reading(key, 50, 50, **SIZES)).eval()


def inputs(length=6, d_model=D_MODEL, rows=3):
    """Random features, and ids whose later rows end in padding."""
    tokens, _ = sentences(rows, source_length=length)
    return torch.randn(rows, length, d_model), tokens


# --- A to D as a whole ---------------------------------------------------------------


@whole
def test_the_whole_model_equals_the_course_with_its_weights(key):
    reading = model(key)
    ours = mapping.COURSE_FROM[key](reading)
    source, target = sentences()
    expected, real = ours(source, target), target != PAD
    logits = reading(source, target)
    if key == "C":  # log-probabilities
        expected = expected.log_softmax(dim=-1)
    assert_close(logits[real], expected[real], **CLOSE)


@whole
def test_the_memory_equals_the_course_with_its_weights(key):
    reading = model(key)
    source, _ = sentences()
    expected = mapping.COURSE_FROM[key](reading).encode(source)
    real = source != PAD
    assert_close(reading.encode(source)[real], expected[real], **CLOSE)


@whole
def test_no_position_depends_on_a_later_one(key):
    reading, (source, target) = model(key), sentences()
    changed = target.clone()
    changed[:, 4:] = 5
    # In both modes: a decoder that asks self.training is causal in one only.
    for mode in (False, True):
        reading.train(mode)
        switch_dropout_off(reading)
        before, after = reading(source, target), reading(source, changed)
        assert_close(before[:, :4], after[:, :4], atol=1e-6, rtol=1e-6)
        assert (before[0, 4:] - after[0, 4:]).abs().max() > 1e-3


def switch_dropout_off(reading):
    for module in reading.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0


@whole
def test_more_padding_changes_nothing(key):
    reading, (source, target) = model(key), sentences()
    padded = (F.pad(source, (0, 3), value=PAD), F.pad(target, (0, 2), value=PAD))
    real = target != PAD
    expected = reading(source, target)[real]
    assert_close(reading(*padded)[:, : target.size(1)][real], expected, **CLOSE)


@whole
def test_a_sentence_does_not_depend_on_its_neighbours(key):
    reading, (source, target) = model(key), sentences()
    together = reading(source, target)
    for row in range(len(source)):
        s, t = source[row : row + 1], target[row : row + 1]
        s, t = s[:, : (s != PAD).sum()], t[:, : (t != PAD).sum()]
        assert_close(together[row : row + 1, : t.size(1)], reading(s, t), **CLOSE)


@whole
def test_step_by_step_equals_all_at_once(key):
    reading, (source, target) = model(key), sentences()
    target = target[:, : (target != PAD).sum(1).min()]
    decoding = start_decoding(reading, source)
    steps = [decoding.step(token) for token in target.unbind(1)]
    assert_close(torch.stack(steps, dim=1), reading(source, target), **CLOSE)


@whole
def test_rows_may_be_chosen_between_steps(key):
    reading, (source, target) = model(key), sentences()
    target = target[:, : (target != PAD).sum(1).min()]
    decoding, rows = start_decoding(reading, source), torch.tensor([2, 0, 0])
    decoding.step(target[:, 0])
    decoding.select(rows)
    expected = reading(source[rows], target[rows])[:, 1]
    assert_close(decoding.step(target[rows, 1]), expected, **CLOSE)


@whole
def test_greedy_decoding_takes_the_likeliest_token(key):
    reading, (source, _) = model(key), sentences()
    decoded = greedy_decode(reading, source, max_length=9)
    prefix = F.pad(decoded[:, :-1], (1, 0), value=BOS)
    logits = reading(source, prefix)
    logits[:, :, [PAD, BOS]] = -math.inf
    written = decoded != PAD
    assert (logits.argmax(-1)[written] == decoded[written]).all()


@whole
def test_a_beam_of_one_is_greedy_and_a_wider_one_is_no_worse(key):
    reading, (source, _) = model(key), sentences()
    greedy = greedy_decode(reading, source, max_length=6)
    one = beam_search(reading, source, beam_size=1, max_length=6)
    assert torch.equal(one, greedy)
    options = {"length_penalty": 0.0, "max_length": 6}
    wide = beam_search(reading, source, beam_size=40, **options)
    found = [total(reading, source, written) for written in (greedy, wide)]
    assert (found[1] >= found[0] - 1e-5).all()


def total(reading, source, written):
    """The log-probability of what was written, as far as its end mark."""
    prefix = F.pad(written[:, :-1], (1, 0), value=BOS)
    scores = reading(source, prefix)
    scores[:, :, [PAD, BOS]] = -math.inf
    chosen = scores.log_softmax(-1).gather(2, written[..., None])[..., 0]
    return chosen.masked_fill(written == PAD, 0.0).sum(1)


@whole
def test_a_source_of_padding_only_is_finite(key):
    source, target = sentences()
    source[1] = PAD
    assert model(key)(source, target).isfinite().all()


@whole
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_finite_and_near(key, dtype):
    reading, (source, target) = model(key), sentences()
    real = target != PAD
    expected = reading(source, target)[real]
    logits = reading.to(dtype)(source, target)[real]
    assert logits.dtype == dtype and logits.isfinite().all()
    # Bounds for the eight, and eleven, significant bits of the type.
    bound = 0.03 if dtype == torch.float16 else 0.25
    assert (logits - expected).abs().max() < bound


@whole
def test_the_state_dict_holds_everything(key):
    reading, other = model(key), model(key)
    source, target = sentences()
    assert not torch.allclose(reading(source, target), other(source, target))
    other.load_state_dict(reading.state_dict())
    assert_close(reading(source, target), other(source, target), atol=0, rtol=0)


def test_tables_are_buffers():
    tables = {
        "B": ("encoder.pos_encoding.P", (0,)),
        "D": ("model.encoder.embedding.pos_embedding.position_encoding", ()),
    }
    for key, (name, index) in tables.items():
        table = model(key).state_dict()[name][index]
        expected = positional_encoding(SIZES["max_length"], D_MODEL)
        assert_close(table[-len(expected) :], expected, **CLOSE)
    assert "pe" in pure_attention.SinusoidTable(D_MODEL).state_dict()


@whole
def test_bad_input_is_named(key):
    reading, (source, target) = model(key), sentences()
    with pytest.raises(ValueError, match="41 tokens long, the positional table 40"):
        reading(torch.full((1, 41), 5), target)
    with pytest.raises(ValueError, match="41 tokens long, the positional table 40"):
        reading(source, torch.full((3, 41), 5))
    with pytest.raises(ValueError, match="source must be a non-empty"):
        reading.encode(source[0])
    with pytest.raises(ValueError, match="target must hold integer ids"):
        reading.decode(target.float(), reading.encode(source), source)


# --- A: the parts --------------------------------------------------------------------


def test_std_layer_norm_of_equal_features_is_its_bias_with_a_finite_gradient():
    norm = annotated.StdLayerNorm(D_MODEL)
    x = torch.ones(2, D_MODEL, requires_grad=True)
    norm(x).square().sum().backward()
    assert (norm(x) == 0).all() and x.grad.isfinite().all()


def test_clones_start_equal_and_are_initialised_apart():
    first, second = annotated.clones(nn.Linear(4, 4), 2)
    assert torch.equal(first.weight, second.weight)
    assert first.weight is not second.weight
    # Cloned query and key projections give symmetric scores.
    fresh = annotated.MultiHeadedAttention(1, 8)
    x = torch.randn(1, 5, 8)
    products = fresh.linears[0](x) @ fresh.linears[1](x).transpose(1, 2)
    assert_close(products, products.transpose(1, 2), **CLOSE)
    built = build_reading("A", 50, 50, **SIZES)
    matrices = [p for p in built.parameters() if p.dim() > 1]
    for i, matrix in enumerate(matrices):
        assert not any(torch.equal(matrix, other) for other in matrices[:i])


def test_no_two_places_of_the_frame_share_their_weights():
    frame = build_reading("C", 50, 50, **SIZES)
    ours = mapping.course_from_annotated(frame)
    counts = [sum(p.numel() for p in m.parameters()) for m in (frame, ours)]
    assert counts[0] == counts[1]


# --- B: d2l's blocks -----------------------------------------------------------------


def test_a_norm_over_length_ties_to_one_length_and_leaks():
    config = TransformerConfig(50, 50, share_embeddings=False, **SIZES)
    blocks = d2l_blocks()
    tied = randomise(blocks.blocks_model(config, norm_length=6)).eval()
    source, target = sentences(source_length=6)
    changed = target.clone()
    changed[0, 5] = 5
    leak = (tied(source, target) - tied(source, changed))[0, :5].abs().max()
    assert leak > 1e-3  # a later token changes what stands before it
    before = tied.encode(source)
    with torch.no_grad():
        tied.encoder.embedding.weight[PAD] += 1
    real = source != PAD
    after = tied.encode(source)
    assert (after[real] - before[real]).abs().max() > 1e-3  # and so does padding
    with pytest.raises(RuntimeError, match="normalized_shape"):
        tied(source[:, :5], target)
    # What it computes: one mean and one variance for the whole sentence.
    x, y = inputs()[0], inputs()[0]
    output = blocks.AddNorm([6, D_MODEL], 0.0)(x, y)
    both = x + y
    mean = both.mean((1, 2), keepdim=True)
    variance = both.var((1, 2), correction=0, keepdim=True)
    expected = (both - mean) / torch.sqrt(variance + 1e-5)
    assert_close(output, expected, **CLOSE)


# --- D: lengths ----------------------------------------------------------------------


def test_softmax_before_the_cross_entropy_has_a_floor_and_a_small_gradient():
    vocab = 50
    config = TransformerConfig(vocab, vocab, share_embeddings=False, **SIZES)
    reading = randomise(lengths.lengths_model(config, softmax=True)).eval()
    source, target = sentences()
    probabilities = reading(source, target)
    assert_close(probabilities.sum(-1), torch.ones(target.shape))
    # Nothing is below the loss of certainty about the right token.
    labels = torch.arange(vocab)
    floor = math.log(math.e + vocab - 1) - 1
    assert F.cross_entropy(torch.eye(vocab), labels).item() == pytest.approx(floor)
    assert F.cross_entropy(probabilities.flatten(0, 1), target.flatten()) > floor
    # Equal logits: the gradient is vocab times smaller. Certain and wrong: it is gone.
    logits = torch.zeros(1, vocab, requires_grad=True)
    label = labels[:1]
    twice = gradient(F.cross_entropy(logits.softmax(-1), label), logits)
    once = gradient(F.cross_entropy(logits, label), logits)
    assert_close(vocab * twice, once)
    wrong = torch.zeros(1, vocab).index_fill_(1, labels[1:2], 30.0).requires_grad_()
    assert gradient(F.cross_entropy(wrong.softmax(-1), label), wrong).norm() < 1e-9
    assert gradient(F.cross_entropy(wrong, label), wrong).norm() > 1


def gradient(loss, of):
    return torch.autograd.grad(loss, of)[0]


# --- E: attention alone --------------------------------------------------------------


@pytest.mark.parametrize("masked", [False, True])
def test_keys_and_values_may_differ_in_size(masked):
    heads, d_k, d_v = 3, 5, 7
    theirs = randomise(pure_attention.AttentionWithNorm(heads, 8, d_k, d_v)).eval()
    (key, tokens), (query, _) = inputs(d_model=8), inputs(4, d_model=8)
    mask = (tokens != PAD)[:, None].expand(-1, 4, -1) if masked else None
    output, weights = theirs(query, key, key, mask)
    w_q, w_k = (w.weight.view(heads, d_k, 8) for w in (theirs.w_qs, theirs.w_ks))
    w_v, w_o = theirs.w_vs.weight.view(heads, d_v, 8), theirs.fc.weight
    products = torch.einsum("bqd,hed,hef,bkf->bhqk", query, w_q, w_k, key) / d_k**0.5
    if masked:
        products = products.masked_fill(~mask[:, None], -math.inf)
    assert_close(weights, products.softmax(-1), **CLOSE)
    joined = torch.einsum(
        "bhqk,hvd,bkd,ohv->bqo", weights, w_v, key, w_o.view(8, heads, d_v)
    )
    assert_close(output, theirs.layernorm(query + joined), **CLOSE)


# --- Rows, masks and types, in every attention ---------------------------------------


def attend(key, mask, dtype=torch.float32):
    """A reading's multi-head attention from 4 random queries to 6 keys; its weights.

    mask (3, 4, 6), True = may attend. Weights: (3, heads, 4, 6).
    """
    x, y = inputs()[0].to(dtype), inputs(length=4)[0].to(dtype)
    if key == "B":
        module = d2l_blocks().multi_head_attention(*[D_MODEL] * 4, N_HEADS, 0.0)
        output = module.to(dtype)(y, x, x, mask.sum(-1))
        weights = d2l_blocks().kept_weights(module)
        return output, weights.unflatten(0, (-1, N_HEADS))
    if key == "D":
        module = lengths.MultiHeadSublayer(D_MODEL, N_HEADS).to(dtype)
        output, weights = module(x, x, y, ~mask)
        return output, weights.unflatten(0, (-1, N_HEADS))
    if key == "E":
        module = build_reading("E", 50, 50, **SIZES).to(dtype).eval()
        return module(y, x, x, mask)
    module = annotated.MultiHeadedAttention(N_HEADS, D_MODEL, 0.0).to(dtype)
    return module(y, x, x, mask), module.attn


@pytest.mark.parametrize("key", "ABDE")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_are_a_distribution_over_the_visible_keys(key, dtype):
    mask = torch.arange(6) < torch.tensor([6, 3, 1])[:, None, None].expand(-1, 4, 1)
    output, weights = attend(key, mask, dtype)
    assert output.isfinite().all()
    assert (weights[~mask[:, None].expand_as(weights)] == 0).all()
    sums = weights.float().sum(-1)
    assert_close(sums, torch.ones_like(sums), atol=1e-2, rtol=0)


@pytest.mark.parametrize("key", "ABDE")
def test_a_query_that_sees_nothing_attends_to_all_alike(key):
    mask = torch.ones(3, 4, 6, dtype=torch.bool)
    mask[1, 2] = False
    output, weights = attend(key, mask)
    assert output.isfinite().all()
    assert_close(weights[1, :, 2], torch.full((N_HEADS, 6), 1 / 6))


# --- Training ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "key", ["D", *(pytest.param(key, marks=pytest.mark.long) for key in "ABC")]
)
def test_a_reading_learns_a_handful_of_sentences(key):
    rows = torch.randint(4, 20, (12, 5)).tolist()
    pairs = [(row, row[::-1]) for row in rows]  # to be written backwards
    sizes = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 1, "max_length": 16}
    reading = build_reading(key, 20, 20, dropout=0.0, **sizes)
    before = evaluate_loss(reading, pairs)
    assert 0.8 * math.log(20) < before < 2 * math.log(20)
    config = TrainingConfig(epochs=100, peak_rate=5e-3, label_smoothing=0.0)
    trainer = Trainer(reading, pairs, pairs, config)
    *_, last = trainer.fit()
    assert last.step == 100 and last.validation_loss < 0.1
    loss, tokens = token_loss(reading, make_batch(pairs))
    assert tokens == 12 * 6 and abs(loss.item() - last.validation_loss) < 1e-4
    outputs = translate_ids(reading, rows, max_length=10)
    assert outputs == [target for _, target in pairs] and EOS not in outputs[0]


# --- The table -----------------------------------------------------------------------


def test_every_reading_is_built():
    for key in READINGS:
        assert isinstance(build_reading(key, 50, 60, **SIZES), nn.Module)
    with pytest.raises(ValueError, match="the readings are A, B, C, D, E: not 'F'"):
        build_reading("F", 50, 50)
    with pytest.raises(ValueError, match="d_model=32 is not divisible by n_heads=5"):
        build_reading("E", 50, 50, d_model=32, n_heads=5)
