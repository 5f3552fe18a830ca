"""The five readings: equal to the course's model, or different by what they say."""

import math
from functools import cache

import pytest
import torch
from samples import SIZES, layer_sizes, randomise, sentences
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from helpers import BOS, EOS, PAD
from helpers.attention import MultiHeadAttention, attention
from helpers.batching import make_batch
from helpers.decoder import DecoderLayer
from helpers.decoding import greedy_decode, start_decoding, translate_ids
from helpers.encoder import EncoderLayer
from helpers.interop import mapping
from helpers.layers import FeedForward, LayerNorm, Residual
from helpers.masks import causal_mask, decoder_mask, padding_mask
from helpers.positions import PositionalEncoding, TokenEmbedding, positional_encoding
from helpers.readings import (
    READINGS,
    annotated,
    build_reading,
    lengths,
    pure_attention,
    scores,
)
from helpers.training import Trainer, TrainingConfig, evaluate_loss, token_loss
from helpers.transformer import TransformerConfig
from tools import one_text

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
    from helpers.readings import d2l_blocks

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


def test_embeddings_equal_the_course():
    theirs = randomise(annotated.Embeddings(D_MODEL, 50))
    ours = TokenEmbedding(50, D_MODEL)
    mapping.copy_embedding(theirs.lut, ours)
    tokens, _ = sentences()
    assert_close(theirs(tokens), ours(tokens), **CLOSE)


def test_attention_with_dropout_equals_the_course():
    _, tokens = inputs()
    query, key, value = torch.randn(3, 3, 2, 6, 8)
    mask = padding_mask(tokens)
    expected = attention(query, key, value, mask)
    for given in (mask, mask.int()):  # 0 or False hides
        theirs = annotated.attention_with_dropout(query, key, value, given)
        assert_close(theirs, expected, **CLOSE)
    context, weights = annotated.attention_with_dropout(
        query, key, value, mask, dropout=lambda weights: 2 * weights
    )
    assert_close((context, weights), tuple(2 * x for x in expected), **CLOSE)


def test_multi_headed_attention_equals_the_course():
    theirs = randomise(annotated.MultiHeadedAttention(N_HEADS, D_MODEL)).eval()
    ours = MultiHeadAttention(D_MODEL, N_HEADS)
    mapping.copy_projections(theirs.linears, ours)
    key, tokens = inputs()
    query, _ = inputs(length=4)  # fewer queries than keys
    expected = ours(query, key, key, padding_mask(tokens))
    mask = annotated.make_src_mask(tokens)
    assert_close(theirs(query, key, key, mask), expected, **CLOSE)
    assert theirs.attn.shape == (3, N_HEADS, 4, 6)
    with pytest.raises(ValueError, match="d_model=32 is not divisible by h=5"):
        annotated.MultiHeadedAttention(5, D_MODEL)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_std_layer_norm_differs_by_the_factor_of_its_docstring(scale):
    theirs = randomise(annotated.StdLayerNorm(D_MODEL)).double()
    ours = LayerNorm(D_MODEL).double()
    with torch.no_grad():
        ours.gain.copy_(theirs.a_2)
    x = scale * inputs()[0].double() + 3
    variance, std = x.var(-1, correction=0, keepdim=True), x.std(-1, keepdim=True)
    factor = (variance + ours.eps).sqrt() / (std + theirs.eps)
    expected = ours(x) * factor + theirs.b_2
    assert_close(theirs(x), expected, atol=1e-12, rtol=1e-12)
    # With the gain adjusted what is left is eps / std.
    mapping.copy_std_norm(theirs, ours)
    left = (theirs(x) - ours(x)) / (ours(x) - ours.bias)
    assert_close(left, -theirs.eps / (std + theirs.eps).expand_as(x))


def test_std_layer_norm_of_equal_features_is_its_bias_with_a_finite_gradient():
    norm = annotated.StdLayerNorm(D_MODEL)
    x = torch.ones(2, D_MODEL, requires_grad=True)
    norm(x).square().sum().backward()
    assert (norm(x) == 0).all() and x.grad.isfinite().all()


def test_sublayer_connection_equals_a_residual_with_norm_first():
    theirs = randomise(annotated.SublayerConnection(D_MODEL, 0.1)).eval()
    ours = Residual(D_MODEL, dropout=0.1, norm_first=True).eval()
    mapping.copy_std_norm(theirs.norm, ours.norm)
    x, _ = inputs()
    assert_close(theirs(x, torch.tanh), ours(x, torch.tanh), **CLOSE)


def test_positionwise_feed_forward_equals_the_course():
    theirs = randomise(annotated.PositionwiseFeedForward(D_MODEL, D_FF)).eval()
    ours = FeedForward(D_MODEL, D_FF)
    mapping.copy_feed_forward_pair(theirs.w_1, theirs.w_2, ours)
    x, _ = inputs()
    assert_close(theirs(x), ours(x), **CLOSE)


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


# --- C: the frame --------------------------------------------------------------------


def test_annotated_masks_equal_the_course():
    _, tokens = inputs()
    assert torch.equal(annotated.subsequent_mask(6), causal_mask(6)[0])
    assert torch.equal(annotated.make_src_mask(tokens), padding_mask(tokens)[:, 0])
    assert torch.equal(annotated.make_tgt_mask(tokens), decoder_mask(tokens)[:, 0])


def test_norm_first_layers_equal_the_course():
    reading = model("C").model
    options = {"dropout": 0.1, "norm_first": True}
    x, tokens = inputs()
    mask = annotated.make_src_mask(tokens)
    encoder_layer = EncoderLayer(layer_sizes(**options)).eval()
    theirs = reading.encoder.layers[0]
    mapping.copy_annotated_layer(theirs, encoder_layer)
    assert_close(theirs(x, mask), encoder_layer(x, padding_mask(tokens)), **CLOSE)
    y, written = inputs(length=5)
    decoder_layer = DecoderLayer(layer_sizes(**options)).eval()
    theirs = reading.decoder.layers[1]
    mapping.copy_annotated_layer(theirs, decoder_layer)
    output = theirs(y, x, mask, annotated.make_tgt_mask(written))
    expected = decoder_layer(y, x, decoder_mask(written), padding_mask(tokens))
    assert_close(output, expected, **CLOSE)


def test_encoder_decoder_runs_in_its_own_convention():
    reading, (source, target) = model("C"), sentences()
    masks = (annotated.make_src_mask(source), annotated.make_tgt_mask(target))
    states = reading.model(source, target, *masks)
    assert_close(reading.model.generator(states), reading(source, target), **CLOSE)


def test_log_probabilities_may_stand_for_logits():
    generator = randomise(annotated.Generator(D_MODEL, 50))
    x, labels = torch.randn(20, D_MODEL), torch.randint(50, (20,))
    assert_close(generator(x).exp().sum(-1), torch.ones(20))
    for smoothing in (0.0, 0.1):
        results = []
        for score in (generator, generator.proj):
            loss = F.cross_entropy(score(x), labels, label_smoothing=smoothing)
            results.append((loss, gradient(loss, generator.proj.bias)))
        assert_close(*results)


def test_only_c_ends_its_stacks_with_a_norm():
    parts, frame = model("A").model, model("C").model
    assert isinstance(parts.encoder.norm, nn.Identity)
    assert isinstance(frame.decoder.norm, annotated.StdLayerNorm)
    assert isinstance(parts.generator, nn.Linear)


# --- B: d2l's blocks -----------------------------------------------------------------


def test_position_wise_ffn_and_add_norm_equal_the_course():
    blocks = d2l_blocks()
    theirs = randomise(blocks.PositionWiseFFN(D_MODEL, D_FF, D_MODEL))
    ours = FeedForward(D_MODEL, D_FF)
    mapping.copy_feed_forward_pair(theirs.dense1, theirs.dense2, ours)
    x, _ = inputs()
    assert_close(theirs(x), ours(x), **CLOSE)
    add_norm = randomise(blocks.AddNorm(D_MODEL, 0.1)).eval()
    residual = Residual(D_MODEL, dropout=0.1, norm_first=False).eval()
    mapping.copy_layer_norm(add_norm.ln, residual.norm)
    assert_close(add_norm(x, x.tanh()), residual(x, torch.tanh), **CLOSE)


def test_stepped_positions_equal_the_course_from_any_start():
    theirs = d2l_blocks().SteppedPositions(D_MODEL, 0.1, 40).eval()
    ours = PositionalEncoding(D_MODEL, dropout=0.1, max_length=40).eval()
    x, _ = inputs()
    assert_close(theirs(x), ours(x), **CLOSE)
    assert_close(theirs(x, 34), ours(x, start=34), **CLOSE)


def test_blocks_equal_the_course():
    blocks, sizes = d2l_blocks(), (D_MODEL, D_MODEL, D_FF, N_HEADS, 0.1)
    options = {"dropout": 0.1, "norm_first": False}
    x, tokens = inputs()
    for use_bias in (False, True):
        theirs = randomise(blocks.EncoderBlock(*sizes, use_bias)).eval()
        ours = EncoderLayer(layer_sizes(**options)).eval()
        mapping.copy_d2l_attention(theirs.attention, ours.self_attention)
        mapping.copy_block(theirs, ours)
        expected = ours(x, padding_mask(tokens))
        valid_lens = blocks.valid_lengths(tokens)
        assert_close(theirs(x, valid_lens), expected, **CLOSE)

        theirs = randomise(blocks.DecoderBlock(0, *sizes, use_bias)).eval()
        ours = DecoderLayer(layer_sizes(**options)).eval()
        mapping.copy_d2l_attention(theirs.attention1, ours.self_attention)
        mapping.copy_d2l_attention(theirs.attention2, ours.cross_attention)
        mapping.copy_block(theirs, ours)
        y, _ = inputs(length=5)
        expected = ours(y, x, causal_mask(5), padding_mask(tokens))
        output, state = theirs(y, [x, valid_lens, [None]])
        assert_close(output, expected, **CLOSE)
        assert_close(state[2][0], y)


def test_the_encoder_decoder_runs_in_d2l_s_convention():
    reading, (source, target) = model("B"), sentences()
    valid_lens = d2l_blocks().valid_lengths(source)
    state = reading.decoder.init_state(reading.encoder(source, valid_lens), valid_lens)
    logits = []
    for i in range(target.size(1)):
        step, state = reading.decoder(target[:, i : i + 1], state)
        logits.append(step)
    real = target != PAD
    expected = reading(source, target)
    assert_close(torch.cat(logits, dim=1)[real], expected[real], **CLOSE)


def test_the_blocks_keep_what_they_attended_to():
    reading, (source, target) = model("B"), sentences()
    reading(source, target)
    to_target, to_source = reading.decoder.attention_weights
    heads = SIZES["n_heads"]
    for kept, mask in (
        (reading.encoder.attention_weights, padding_mask(source)),
        (to_target, causal_mask(target.size(1))),
        (to_source, padding_mask(source)),
    ):
        assert len(kept) == SIZES["n_layers"]
        for weights in kept:
            check_weights(weights.unflatten(0, (-1, heads)), mask)


def check_weights(weights, visible):
    """Rows sum to one and hidden keys get exactly nothing."""
    assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert (weights[~visible.expand_as(weights)] == 0).all()


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


def test_the_tutorial_s_masks_are_the_course_s_negated():
    source, target = sentences()
    hidden = lengths.hidden_padding_mask(source, target)
    assert hidden.shape == (3, target.size(1), source.size(1))
    assert torch.equal(hidden, ~padding_mask(source)[:, 0].expand_as(hidden))
    assert torch.equal(
        lengths.hidden_padding_mask(target, target)
        | lengths.hidden_sequence_mask(target),
        ~decoder_mask(target)[:, 0],
    )


def test_batched_attention_equals_the_course():
    x, tokens = inputs()
    y, _ = inputs(length=4)
    hidden = lengths.hidden_padding_mask(tokens, y[..., 0])
    theirs = lengths.BatchedDotProductAttention()(y, x, x, D_MODEL**-0.5, hidden)
    assert_close(theirs, attention(y, x, x, ~hidden), **CLOSE)


def test_multi_head_sublayer_equals_attention_in_a_residual():
    theirs = randomise(lengths.MultiHeadSublayer(D_MODEL, N_HEADS)).eval()
    ours = MultiHeadAttention(D_MODEL, N_HEADS)
    residual = Residual(D_MODEL, dropout=0.0, norm_first=False)
    mapping.copy_sublayer(theirs, ours, residual)
    (key, tokens), (value, _), (query, _) = inputs(), inputs(), inputs(4)
    hidden = lengths.hidden_padding_mask(tokens, query[..., 0])
    output, weights = theirs(key, value, query, hidden)
    expected = residual(query, lambda y: ours(y, key, value, padding_mask(tokens)))
    assert_close(output, expected, **CLOSE)
    check_weights(weights, padding_mask(tokens))
    with pytest.raises(ValueError, match="model_dim=32 is not divisible by"):
        lengths.MultiHeadSublayer(D_MODEL, 5)


def test_convolutions_equal_the_feed_forward_network():
    theirs = randomise(lengths.PositionalWiseFeedForward(D_MODEL, D_FF)).eval()
    ours = FeedForward(D_MODEL, D_FF)
    residual = Residual(D_MODEL, dropout=0.0, norm_first=False)
    mapping.copy_convolutions(theirs, ours, residual)
    x, _ = inputs()
    assert_close(theirs(x), residual(x, ours), **CLOSE)


def test_padding_has_a_vector_of_zeros_and_words_the_course_s():
    theirs = lengths.SequenceEmbedding(50, 40, D_MODEL)
    ours = TokenEmbedding(50, D_MODEL)
    mapping.copy_embedding(theirs.seq_embedding, ours)
    _, tokens = inputs()
    embedded = theirs(tokens, lengths.sequence_lengths(tokens))
    expected = ours(tokens) + positional_encoding(6, D_MODEL)
    real = tokens != PAD
    assert_close(embedded[real], expected[real], **CLOSE)
    assert (embedded[~real] == 0).all()


def test_the_tutorial_s_layers_equal_the_course():
    reading = model("D").model
    options = {"dropout": 0.1, "norm_first": False}
    x, tokens = inputs()
    y, written = inputs(length=5)
    theirs = reading.encoder.encoder_layers[0]
    ours = EncoderLayer(layer_sizes(**options)).eval()
    mapping.copy_self_attention_layer(theirs, ours)
    output, _ = theirs(x, lengths.hidden_padding_mask(tokens, tokens))
    assert_close(output, ours(x, padding_mask(tokens)), **CLOSE)
    theirs = reading.decoder.decoder_layers[1]
    ours = DecoderLayer(layer_sizes(**options)).eval()
    mapping.copy_context_attention_layer(theirs, ours)
    hidden = ~decoder_mask(written)[:, 0]
    output, *_ = theirs(y, x, hidden, lengths.hidden_padding_mask(tokens, written))
    expected = ours(y, x, decoder_mask(written), padding_mask(tokens))
    assert_close(output, expected, **CLOSE)


def test_the_transformer_gives_all_attentions():
    reading, (source, target) = model("D"), sentences()
    counts = [lengths.sequence_lengths(tokens) for tokens in (source, target)]
    logits, *attentions = reading.model(source, counts[0], target, counts[1])
    assert_close(logits, reading(source, target), **CLOSE)
    masks = (padding_mask(source), decoder_mask(target), padding_mask(source))
    for maps, mask in zip(attentions, masks, strict=True):
        assert len(maps) == SIZES["n_layers"]
        for weights in maps:
            check_weights(weights, mask)


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


def test_residual_adds():
    x, _ = inputs()
    assert_close(lengths.residual(torch.tanh, x), x.tanh() + x)


# --- D: the table of scores ----------------------------------------------------------


def test_scores_are_those_of_the_table():
    (key, _), (query, _) = inputs(), inputs(length=4)
    dot = torch.einsum("bqd,bkd->bqk", query, key)
    assert_close(scores.dot_score(query, key), dot, **CLOSE)
    assert_close(scores.scaled_dot_score(query, key), dot / D_MODEL**0.5, **CLOSE)
    general = randomise(scores.GeneralScore(D_MODEL))
    expected = torch.einsum("bqd,de,bke->bqk", query, general.between.weight, key)
    assert_close(general(query, key), expected, **CLOSE)
    location = scores.LocationScore(D_MODEL, 9)
    assert torch.equal(location(query, key), location(query, torch.zeros_like(key)))
    with pytest.raises(ValueError, match="6 keys, but places for 5"):
        scores.LocationScore(D_MODEL, 5)(query, key)


def test_additive_score_equals_d2l_s():
    (key, _), (query, _) = inputs(), inputs(length=4)
    theirs = d2l_blocks().d2l.AdditiveAttention(D_MODEL, D_MODEL, 7, 0.0)
    theirs(query, key, key, None)
    ours = scores.AdditiveScore(D_MODEL, 7)
    ours.query.load_state_dict(theirs.W_q.state_dict())
    ours.key.load_state_dict(theirs.W_k.state_dict())
    ours.score.load_state_dict(theirs.w_v.state_dict())
    weights = ours(query, key).softmax(-1)
    assert_close(weights, theirs.attention_weights, **CLOSE)


# --- E: attention alone --------------------------------------------------------------


def test_sinusoid_table_equals_the_course():
    x, _ = inputs()
    theirs = pure_attention.SinusoidTable(D_MODEL, 0.1, 40).eval()
    ours = PositionalEncoding(D_MODEL, dropout=0.1, max_length=40).eval()
    assert_close(theirs(x), ours(x), **CLOSE)
    assert theirs.half()(x.half()).dtype == torch.float16
    with pytest.raises(ValueError, match="6 tokens long, the positional table 5"):
        pure_attention.SinusoidTable(D_MODEL, 0.1, 5)(x)


def test_scaled_dot_product_attention_equals_the_course():
    _, tokens = inputs()
    query, key = torch.randn(2, 3, 2, 6, 8)
    value, mask = torch.randn(3, 2, 6, 5), padding_mask(tokens)
    theirs = pure_attention.ScaledDotProductAttention(8).eval()
    expected = attention(query, key, value, mask)
    assert_close(theirs(query, key, value, mask), expected, **CLOSE)
    assert_close(theirs(query, key, value), attention(query, key, value), **CLOSE)


def test_attention_with_norm_equals_the_course_without_biases():
    theirs = randomise(build_reading("E", 50, 50, **SIZES)).eval()
    ours = MultiHeadAttention(D_MODEL, N_HEADS)
    residual = Residual(D_MODEL, dropout=0.0, norm_first=False)
    linears = (theirs.w_qs, theirs.w_ks, theirs.w_vs, theirs.fc)
    mapping.copy_projections(linears, ours)
    mapping.copy_layer_norm(theirs.layernorm, residual.norm)
    (key, tokens), (query, _) = inputs(), inputs(length=4)
    output, weights = theirs(query, key, key, padding_mask(tokens)[:, 0])
    expected = residual(query, lambda y: ours(y, key, key, padding_mask(tokens)))
    assert_close(output, expected, **CLOSE)
    check_weights(weights, padding_mask(tokens))


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


def test_the_norm_of_one_to_four():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    expected = torch.tensor([-1.3416, -0.4472, 0.4472, 1.3416])
    assert_close(LayerNorm(4)(x), expected, atol=1e-4, rtol=0)
    # By the unbiased deviation all are √(3/4) of it.
    assert_close(annotated.StdLayerNorm(4)(x), expected * 0.75**0.5, atol=1e-4, rtol=0)


# --- Rows, masks and types, in every attention ---------------------------------------


def attend(key, mask, dtype=torch.float32):
    """A reading's multi-head attention from 4 random queries to 6 keys; its weights.

    mask (3, 4, 6), True = may attend. Weights: (3, heads, 4, 6).
    """
    x, y = inputs()[0].to(dtype), inputs(length=4)[0].to(dtype)
    if key == "B":
        module = d2l_blocks().multi_head_attention(D_MODEL, N_HEADS, 0.0, False)
        output = module.to(dtype)(y, x, x, mask.sum(-1))
        weights = d2l_blocks().kept_weights(module)
        return output, weights.unflatten(0, (-1, N_HEADS))
    if key == "D":
        module = lengths.MultiHeadSublayer(D_MODEL, N_HEADS).to(dtype)
        return module(x, x, y, ~mask)
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


@pytest.mark.parametrize("key", "ABCD")
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


def test_no_name_stands_for_two_things():
    kept = one_text.kept_definitions(one_text.modules())
    owners = {}
    for module, found in kept.items():
        if module.startswith("readings.") or module.partition(".")[0] in PLACES:
            for name in found:
                assert name not in owners, f"{name}: {module} and {owners[name]}"
                owners[name] = module
