"""Every name of the five texts is there and works: a test for each row of the table."""

import inspect
import math
from functools import cache

import pytest
import torch
from samples import SIZES, layer_sizes, randomise, sentences
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from helpers import PAD
from helpers.attention import MultiHeadAttention, attention
from helpers.decoder import DecoderLayer
from helpers.encoder import EncoderLayer
from helpers.interop import mapping
from helpers.layers import FeedForward, LayerNorm, Residual
from helpers.masks import causal_mask, decoder_mask, padding_mask
from helpers.positions import PositionalEncoding, TokenEmbedding, positional_encoding
from helpers.readings import annotated, build_reading, lengths
from helpers.readings.names import NAMES, names_of, names_page
from helpers.transformer import TransformerConfig
from tools.reproducible import ROOT

D_MODEL, N_HEADS, D_FF = SIZES["d_model"], SIZES["n_heads"], SIZES["d_ff"]
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
# What each text defines, and what it takes from d2l or lists.
DEFINED = {
    "A": "Embeddings clones attention MultiHeadedAttention LayerNorm "
    "SublayerConnection PositionwiseFeedForward",
    "B": "PositionWiseFNN AddNorm EncoderBlock TransformerEncoder DecoderBlock "
    "d2l.PositionalEncoding d2l.MultiHeadAttention",
    "C": "EncoderDecoder Generator clones Encoder LayerNorm SublayerConnection "
    "EncoderLayer Decoder DecoderLayer subsequent_mask attention MultiHeadedAttention "
    "PositionwiseFeedForward",
    "D": "ScaledDotProductAttention MultiHeadAttention residual LayerNorm "
    "padding_mask sequence_mask PositionalEncoding seq_embedding "
    "PositionalWiseFeedForward EncoderLayer Encoder DecoderLayer Decoder Transformer "
    "additive_attention local-base general dot-product scaled_dot-product",
    "E": "PositionalEncoding ScaledDotProductAttention MultiHeadAttention nn.LayerNorm",
}
RUNS = {}


def runs(*rows):
    """The test of these rows; it is given what their name stands for."""

    def keep(function):
        RUNS.update(dict.fromkeys(rows, function))
        return function

    return keep


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in NAMES])
def test_the_name_runs(row):
    RUNS[row.id](row.get())


def test_every_row_has_its_test_and_every_test_its_row():
    assert {*RUNS} == {row.id for row in NAMES} and len(NAMES) == len(RUNS)
    here = inspect.getfile(test_the_name_runs).replace("\\", "/")
    for row in NAMES:
        path, _, name = row.test.partition("::")
        assert here.endswith(path) and name == f"test_the_name_runs[{row.id}]"


@pytest.mark.parametrize("reading", "ABCDE")
def test_no_name_of_a_text_is_missing(reading):
    due = {name.replace("_", " ") for name in DEFINED[reading].split()}
    rows = names_of(reading)
    assert {row.name.replace("_", " ") for row in rows if row.name} == due
    assert all(row.added for row in rows if not row.name)


def test_the_page_shows_every_row():
    renew = "python -m helpers.readings.names > notebooks/five_readings.md"
    page = ROOT / "notebooks" / "five_readings.md"
    assert page.read_text("utf-8") == names_page(), renew
    assert names_page().count("\n| ") == len(NAMES) + 2 * len(DEFINED)


def inputs(length=6, d_model=D_MODEL, rows=3):
    """Random features, and ids whose later rows end in padding."""
    tokens, _ = sentences(rows, source_length=length)
    return torch.randn(rows, length, d_model), tokens


@cache
def d2l():
    """Imported by the first test that needs it: it takes seconds."""
    from helpers.readings.d2l_blocks import d2l

    return d2l


def check_weights(weights, visible):
    """Rows sum to one and hidden keys get exactly nothing."""
    assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    assert (weights[~visible.expand_as(weights)] == 0).all()


def config():
    return TransformerConfig(50, 50, share_embeddings=False, **SIZES)


def equal_to_the_course(key, model):
    """A whole model, and the course's with its weights; A and C in any of two ways."""
    source, target = sentences()
    randomise(model).eval()
    expected = mapping.COURSE_FROM[key](model)(source, target)
    given, real = model(source, target), target != PAD
    if key == "C":
        expected = expected.log_softmax(dim=-1)
    assert_close(given[real], expected[real], **CLOSE)


# --- A and C -------------------------------------------------------------------------


@runs("A-Embeddings")
def embeddings(theirs):
    drawn = theirs(D_MODEL, 2000)
    assert abs(drawn.lut.weight.std().item() - 1) < 0.05  # as printed
    ours, (tokens, _) = TokenEmbedding(2000, D_MODEL), sentences()
    mapping.copy_embedding(drawn.lut, ours)
    assert_close(drawn(tokens), ours(tokens), **CLOSE)


@runs("A-clones", "C-clones")
def clones(theirs):
    first, second = theirs(nn.Linear(4, 4), N=2)
    assert torch.equal(first.weight, second.weight)
    assert first.weight is not second.weight


@runs("A-attention", "C-attention")
def attention_of_both(theirs):
    _, tokens = inputs()
    query, key, value = torch.randn(3, 3, 2, 6, 8)
    mask = padding_mask(tokens)
    expected = attention(query, key, value, mask)
    for given in (mask, mask.int()):  # 0 or False hides
        assert_close(theirs(query, key, value, given), expected, **CLOSE)
    twice = theirs(query, key, value, mask, dropout=lambda weights: 2 * weights)
    assert_close(twice, tuple(2 * x for x in expected), **CLOSE)


@runs("A-MultiHeadedAttention", "C-MultiHeadedAttention")
def multi_headed_attention(theirs):
    module = randomise(theirs(N_HEADS, D_MODEL)).eval()
    ours = MultiHeadAttention(D_MODEL, N_HEADS)
    mapping.copy_projections(module.linears, ours)
    (key, tokens), (query, _) = inputs(), inputs(length=4)  # fewer queries than keys
    expected = ours(query, key, key, padding_mask(tokens))
    mask = annotated.make_src_mask(tokens)
    assert_close(module(query, key, key, mask), expected, **CLOSE)
    assert module.attn.shape == (3, N_HEADS, 4, 6)
    with pytest.raises(ValueError, match="d_model=32 is not divisible by h=5"):
        theirs(5, D_MODEL)


@runs("A-LayerNorm", "C-LayerNorm")
def std_layer_norm(theirs):
    module, ours = randomise(theirs(D_MODEL)).double(), LayerNorm(D_MODEL).double()
    with torch.no_grad():
        ours.gain.copy_(module.a_2)
    for scale in (1e-3, 1.0, 50.0):
        x = scale * inputs()[0].double() + 3
        variance, std = x.var(-1, correction=0, keepdim=True), x.std(-1, keepdim=True)
        factor = (variance + ours.eps).sqrt() / (std + module.eps)
        expected = ours(x) * factor + module.b_2
        assert_close(module(x), expected, atol=1e-12, rtol=1e-12)


@runs("A-SublayerConnection", "C-SublayerConnection")
def sublayer_connection(theirs):
    module = randomise(theirs(D_MODEL, 0.1)).eval()
    ours = Residual(D_MODEL, dropout=0.1, norm_first=True).eval()
    mapping.copy_std_norm(module.norm, ours.norm)
    x, _ = inputs()
    assert_close(module(x, torch.tanh), ours(x, torch.tanh), **CLOSE)


@runs("A-PositionwiseFeedForward", "C-PositionwiseFeedForward")
def positionwise_feed_forward(theirs):
    module, ours = randomise(theirs(D_MODEL, D_FF)).eval(), FeedForward(D_MODEL, D_FF)
    mapping.copy_feed_forward_pair(module.w_1, module.w_2, ours)
    x, _ = inputs()
    assert_close(module(x), ours(x), **CLOSE)


@runs("A-parts_model")
def parts_model(build):
    model = build(config())
    assert isinstance(model.model.encoder.norm, nn.Identity)
    assert isinstance(model.model.generator, nn.Linear)
    equal_to_the_course("A", model)


@runs("C-frame_model")
def frame_model(build):
    model = build(config())
    matrices = [p for p in model.parameters() if p.dim() > 1]
    for i, matrix in enumerate(matrices):  # drawn anew: no two are alike
        assert not any(torch.equal(matrix, other) for other in matrices[:i])
    kept = build(config(), drawn_anew=False).model.encoder.layers
    weights = [layer.self_attn.linears[0].weight for layer in kept]
    assert torch.equal(*weights)
    equal_to_the_course("C", model)


@runs("C-subsequent_mask")
def subsequent_mask(theirs):
    assert torch.equal(theirs(6), causal_mask(6)[0])


@runs("C-make_src_mask")
def make_src_mask(ours):
    _, tokens = inputs()
    assert torch.equal(ours(tokens), padding_mask(tokens)[:, 0])


@runs("C-make_tgt_mask")
def make_tgt_mask(ours):
    _, tokens = inputs()
    assert torch.equal(ours(tokens), decoder_mask(tokens)[:, 0])


def frame_parts():
    """An attention, a feed-forward network and a dropout for the layers of C."""
    attn = annotated.MultiHeadedAttention(N_HEADS, D_MODEL)
    return attn, annotated.PositionwiseFeedForward(D_MODEL, D_FF), 0.1


@runs("C-EncoderLayer")
def encoder_layer_of_c(theirs):
    layer = randomise(theirs(D_MODEL, *frame_parts())).eval()
    ours = EncoderLayer(layer_sizes(norm_first=True)).eval()
    mapping.copy_annotated_layer(layer, ours)
    x, tokens = inputs()
    expected = ours(x, padding_mask(tokens))
    assert_close(layer(x, annotated.make_src_mask(tokens)), expected, **CLOSE)


@runs("C-DecoderLayer")
def decoder_layer_of_c(theirs):
    attn, *others = frame_parts()
    layer = randomise(theirs(D_MODEL, attn, frame_parts()[0], *others)).eval()
    ours = DecoderLayer(layer_sizes(norm_first=True)).eval()
    mapping.copy_annotated_layer(layer, ours)
    (x, tokens), (y, written) = inputs(), inputs(length=5)
    masks = annotated.make_src_mask(tokens), annotated.make_tgt_mask(written)
    expected = ours(y, x, decoder_mask(written), padding_mask(tokens))
    assert_close(layer(y, x, *masks), expected, **CLOSE)


@runs("C-Encoder")
def encoder_of_c(theirs):
    layer = annotated.NormFirstEncoderLayer(D_MODEL, *frame_parts())
    stack, (x, tokens) = randomise(theirs(layer, N=2)).eval(), inputs()
    mask = annotated.make_src_mask(tokens)
    first, second = stack.layers
    assert_close(stack(x, mask), stack.norm(second(first(x, mask), mask)), **CLOSE)


@runs("C-Decoder")
def decoder_of_c(theirs):
    attn, *others = frame_parts()
    parts = attn, frame_parts()[0], *others
    layer = annotated.NormFirstDecoderLayer(D_MODEL, *parts)
    stack, (x, tokens), (y, written) = theirs(layer, N=2).eval(), inputs(), inputs(5)
    given = x, annotated.make_src_mask(tokens), annotated.make_tgt_mask(written)
    first, second = randomise(stack).layers
    expected = stack.norm(second(first(y, *given), *given))
    assert_close(stack(y, *given), expected, **CLOSE)


@runs("C-Generator")
def generator(theirs):
    module = randomise(theirs(D_MODEL, 50))
    x, labels = torch.randn(20, D_MODEL), torch.randint(50, (20,))
    assert_close(module(x).exp().sum(-1), torch.ones(20))
    for smoothing in (0.0, 0.1):  # log-probabilities may stand for logits
        results = []
        for score in (module, module.proj):
            loss = F.cross_entropy(score(x), labels, label_smoothing=smoothing)
            results.append((loss, gradient(loss, module.proj.bias)))
        assert_close(*results)


def gradient(loss, of):
    return torch.autograd.grad(loss, of)[0]


@runs("C-EncoderDecoder")
def encoder_decoder(theirs):
    reading = randomise(build_reading("C", 50, 50, **SIZES)).eval()
    (source, target), parts = sentences(), reading.model
    assert isinstance(parts, theirs)
    masks = annotated.make_src_mask(source), annotated.make_tgt_mask(target)
    names = ["encoder", "decoder", "src_embed", "tgt_embed", "generator"]
    model = theirs(*(getattr(parts, name) for name in names))
    logits = model.generator(model(source, target, *masks))
    assert_close(logits, reading(source, target), **CLOSE)


# --- B -------------------------------------------------------------------------------


@runs("B-PositionWiseFNN")
def position_wise_ffn(theirs):
    assert theirs(4, 4, 8).eval()(torch.ones(2, 3, 4)).shape == (2, 3, 8)  # as printed
    module, ours = randomise(theirs(D_MODEL, D_FF, D_MODEL)), FeedForward(D_MODEL, D_FF)
    mapping.copy_feed_forward_pair(module.dense1, module.dense2, ours)
    x, _ = inputs()
    assert_close(module(x), ours(x), **CLOSE)


@runs("B-AddNorm")
def add_norm(theirs):
    ones = torch.ones(2, 3, 4)
    assert theirs([3, 4], dropout=0.5).eval()(ones, ones).shape == (2, 3, 4)  # printed
    module = randomise(theirs(D_MODEL, 0.1)).eval()
    ours = Residual(D_MODEL, dropout=0.1, norm_first=False).eval()
    mapping.copy_layer_norm(module.ln, ours.norm)
    x, _ = inputs()
    assert_close(module(x, x.tanh()), ours(x, torch.tanh), **CLOSE)


@runs("B-EncoderBlock")
def encoder_block(theirs):
    block = theirs(24, 24, 24, 24, [100, 24], 24, 48, 8, 0.5).eval()  # as printed
    valid_lens = torch.tensor([3, 2])
    assert block(torch.ones(2, 100, 24), valid_lens).shape == (2, 100, 24)
    names = "key_size query_size value_size num_hiddens norm_shape ffn_num_input "
    names += "ffn_num_hiddens num_heads dropout use_bias"
    assert [*inspect.signature(theirs).parameters] == names.split()
    x, tokens = inputs()
    for use_bias in (False, True):
        block = theirs(*[D_MODEL] * 6, D_FF, N_HEADS, 0.1, use_bias)
        ours = EncoderLayer(layer_sizes()).eval()
        mapping.copy_d2l_attention(randomise(block).attention, ours.self_attention)
        mapping.copy_block(block, ours)
        expected = ours(x, padding_mask(tokens))
        assert_close(block.eval()(x, (tokens != PAD).sum(1)), expected, **CLOSE)
    with pytest.raises(ValueError, match="num_hiddens=24 is not divisible by num_hea"):
        theirs(24, 24, 24, 24, [24], 24, 48, 7, 0.5)


@runs("B-DecoderBlock")
def decoder_block(theirs):
    names = "key_size query_size value_size num_hiddens norm_shape ffn_num_input "
    names += "ffn_num_hiddens num_heads dropout i use_bias"
    assert [*inspect.signature(theirs).parameters] == names.split()
    block = randomise(theirs(*[D_MODEL] * 6, D_FF, N_HEADS, 0.1, 0)).eval()
    ours = DecoderLayer(layer_sizes()).eval()
    mapping.copy_d2l_attention(block.attention1, ours.self_attention)
    mapping.copy_d2l_attention(block.attention2, ours.cross_attention)
    mapping.copy_block(block, ours)
    (x, tokens), (y, _) = inputs(), inputs(length=5)
    expected = ours(y, x, causal_mask(5), padding_mask(tokens))
    memory = x, (tokens != PAD).sum(1)
    output, state = block(y, [*memory, [None]])
    assert_close(output, expected, **CLOSE)
    assert_close(state[2][0], y)
    state, steps = [*memory, [None]], []
    for token in y.split(1, dim=1):
        step, state = block(token, state)
        steps.append(step)
    assert_close(torch.cat(steps, dim=1), expected, **CLOSE)


SIZES_OF_B = [D_MODEL] * 6, D_FF, N_HEADS, SIZES["n_layers"], 0.1


@runs("B-TransformerEncoder")
def transformer_encoder(theirs):
    names = "vocab_size key_size query_size value_size num_hiddens norm_shape "
    names += "ffn_num_input ffn_num_hiddens num_heads num_layers dropout use_bias"
    assert " ".join(inspect.signature(theirs).parameters).startswith(names)
    widths, *others = SIZES_OF_B
    stack = randomise(theirs(50, *widths, *others)).eval()
    assert isinstance(stack, d2l().Encoder)
    source, _ = sentences()
    valid_lens = (source != PAD).sum(1)
    x = stack.pos_encoding(stack.embedding(source) * math.sqrt(D_MODEL))
    for block in stack.blks:
        x = block(x, valid_lens)
    assert_close(stack(source, valid_lens), x, **CLOSE)
    kept = stack.attention_weights
    assert len(kept) == SIZES["n_layers"]
    for weights in kept:
        check_weights(weights.unflatten(0, (-1, N_HEADS)), padding_mask(source))


@runs("B-TransformerDecoder")
def transformer_decoder(ours):
    widths, *others = SIZES_OF_B
    decoder = randomise(ours(50, *widths, *others)).eval()
    source, target = sentences()
    memory = torch.randn(3, 7, D_MODEL), (source != PAD).sum(1)
    whole, _ = decoder(target, decoder.init_state(*memory))
    to_target, to_source = decoder.attention_weights
    masks = causal_mask(target.size(1)), padding_mask(source)
    for kept, mask in zip((to_target, to_source), masks, strict=True):
        for weights in kept:
            check_weights(weights.unflatten(0, (-1, N_HEADS)), mask)
    state, steps = decoder.init_state(*memory), []
    for token in target.split(1, dim=1):
        step, state = decoder(token, state)
        steps.append(step)
    assert_close(torch.cat(steps, dim=1), whole, **CLOSE)


@runs("B-d2l.PositionalEncoding")
def stepped_positions(theirs):
    module = theirs(D_MODEL, 0.1, 40).eval()
    ours = PositionalEncoding(D_MODEL, dropout=0.1, max_length=40).eval()
    x, _ = inputs()
    assert_close(module(x), ours(x), **CLOSE)
    assert_close(module(x), d2l().PositionalEncoding(D_MODEL, 0.0, 40)(x), **CLOSE)
    assert_close(module(x, 34), ours(x, start=34), **CLOSE)


@runs("B-d2l.MultiHeadAttention")
def d2l_attention(theirs):
    module = theirs(5, 7, 9, D_MODEL, N_HEADS, 0.0, True)
    assert isinstance(module, d2l().MultiHeadAttention)
    query, key, value = torch.randn(3, 4, 7), torch.randn(3, 6, 5), torch.randn(3, 6, 9)
    assert module(query, key, value, torch.tensor([6, 3, 1])).shape == (3, 4, D_MODEL)
    assert module.W_k.in_features == 5 and module.W_o.bias is not None


@runs("B-blocks_model")
def blocks_model(build):
    model = build(config())
    assert isinstance(model, d2l().EncoderDecoder)
    equal_to_the_course("B", model)


# --- D -------------------------------------------------------------------------------


@runs("D-ScaledDotProductAttention")
def batched_attention(theirs):
    (x, tokens), (y, _) = inputs(), inputs(length=4)
    hidden = lengths.hidden_padding_mask(tokens, y[..., 0])
    given = theirs()(y, x, x, D_MODEL**-0.5, hidden)
    assert_close(given, attention(y, x, x, ~hidden), **CLOSE)
    bare = theirs()(y, x, x)  # no scale: none is applied
    assert_close(bare, theirs()(y, x, x, 1.0), **CLOSE)


@runs("D-MultiHeadAttention")
def multi_head_sublayer(theirs):
    module = randomise(theirs(D_MODEL, N_HEADS))
    ours = MultiHeadAttention(D_MODEL, N_HEADS)
    residual = Residual(D_MODEL, dropout=0.0, norm_first=False)
    mapping.copy_sublayer(module, ours, residual)
    (key, tokens), (value, _), (query, _) = inputs(), inputs(), inputs(4)
    hidden = lengths.hidden_padding_mask(tokens, query[..., 0])
    output, weights = module(key, value, query, hidden)
    expected = residual(query, lambda y: ours(y, key, value, padding_mask(tokens)))
    assert_close(output, expected, **CLOSE)
    assert weights.shape == (3 * N_HEADS, 4, 6)  # as the text folds them
    check_weights(weights.unflatten(0, (3, N_HEADS)), padding_mask(tokens))
    assert theirs().linear_k.in_features == 512 and theirs().num_heads == 8
    with pytest.raises(ValueError, match="model_dim=32 is not divisible by"):
        theirs(D_MODEL, 5)


@runs("D-residual")
def residual_of_d(theirs):
    x, _ = inputs()
    assert_close(theirs(torch.tanh, x), x.tanh() + x)


@runs("D-LayerNorm")
def epsilon_layer_norm(theirs):
    module, same = theirs(D_MODEL).double(), annotated.StdLayerNorm(D_MODEL).double()
    x = inputs()[0].double()
    assert_close(module(x), same(x), atol=0, rtol=0)
    assert [name for name, _ in module.named_parameters()] == ["gamma", "beta"]
    # Its formula does not say which variance: the biased one makes it its model's norm,
    centred = x - x.mean(-1, keepdim=True)
    formula = centred / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    assert_close(nn.LayerNorm(D_MODEL).double()(x), formula)
    ratio = math.sqrt((D_MODEL - 1) / D_MODEL)
    assert_close(module(x), ratio * formula, atol=1e-4, rtol=1e-4)
    assert (module(x) - formula).abs().max() > 1e-2
    # and the unbiased one its class, but for the place of ε.
    formula = centred / (x.var(-1, correction=1, keepdim=True) + 1e-5).sqrt()
    assert_close(module(x), formula, atol=1e-4, rtol=1e-4)


@runs("D-padding_mask")
def hidden_padding_mask(theirs):
    source, target = sentences()
    hidden = theirs(source, target)
    assert hidden.shape == (3, target.size(1), source.size(1))
    assert torch.equal(hidden, ~padding_mask(source)[:, 0].expand_as(hidden))


@runs("D-sequence_mask")
def hidden_sequence_mask(theirs):
    hidden = theirs(sentences()[1])
    assert hidden.dtype == torch.bool
    assert torch.equal(hidden, ~causal_mask(6)[0].expand(3, -1, -1))


@runs("D-PositionalEncoding")
def length_positions(theirs):
    table, counts = theirs(D_MODEL, 40), torch.tensor([[6], [4], [1]])
    added, expected = table(counts), positional_encoding(6, D_MODEL)
    assert added.shape == (3, 6, D_MODEL)
    for row, count in zip(added, counts.flatten().tolist(), strict=True):
        assert_close(row[:count], expected[:count])
        assert not row[count:].any()
    assert_close(table(counts, 9)[:, :6], added)
    assert "position_encoding" in table.state_dict()


@runs("D-seq_embedding")
def sequence_embedding(theirs):
    module, ours = theirs(50, 40, D_MODEL), TokenEmbedding(50, D_MODEL)
    assert module.seq_embedding.num_embeddings == 51  # vocab_size + 1, as printed
    mapping.copy_embedding(module.seq_embedding, ours)
    _, tokens = inputs()
    embedded = module(tokens, lengths.sequence_lengths(tokens))
    expected, real = ours(tokens) + positional_encoding(6, D_MODEL), tokens != PAD
    assert_close(embedded[real], expected[real], **CLOSE)
    assert (embedded[~real] == 0).all()


@runs("D-PositionalWiseFeedForward")
def convolutions(theirs):
    assert theirs().w1.weight.shape == (2048, 512, 1)
    module, ours = randomise(theirs(D_MODEL, D_FF)).eval(), FeedForward(D_MODEL, D_FF)
    residual = Residual(D_MODEL, dropout=0.0, norm_first=False)
    mapping.copy_convolutions(module, ours, residual)
    x, _ = inputs()
    assert_close(module(x), residual(x, ours), **CLOSE)


@runs("D-EncoderLayer")
def self_attention_layer(theirs):
    defaults = [p.default for p in inspect.signature(theirs).parameters.values()]
    assert defaults == [512, 8, 2048, 0.0]
    layer = randomise(theirs(D_MODEL, N_HEADS, D_FF)).eval()
    ours = EncoderLayer(layer_sizes()).eval()
    mapping.copy_self_attention_layer(layer, ours)
    x, tokens = inputs()
    output, weights = layer(x, lengths.hidden_padding_mask(tokens, tokens))
    assert_close(output, ours(x, padding_mask(tokens)), **CLOSE)
    assert weights.shape == (3 * N_HEADS, 6, 6)


@runs("D-DecoderLayer")
def context_attention_layer(theirs):
    layer = randomise(theirs(D_MODEL, N_HEADS, D_FF)).eval()
    ours = DecoderLayer(layer_sizes()).eval()
    mapping.copy_context_attention_layer(layer, ours)
    (x, tokens), (y, written) = inputs(), inputs(length=5)
    hidden = ~decoder_mask(written)[:, 0]
    output, *maps = layer(y, x, hidden, lengths.hidden_padding_mask(tokens, written))
    expected = ours(y, x, decoder_mask(written), padding_mask(tokens))
    assert_close(output, expected, **CLOSE)
    assert [m.shape[1:] for m in maps] == [(5, 5), (5, 6)]


def tutorial():
    """D in small sizes, a batch for it, and the lengths of both sides."""
    source, target = sentences()
    sizes = {"model_dim": D_MODEL, "num_heads": N_HEADS, "ffn_dim": D_FF}
    model = lengths.LengthTransformer(50, 40, 50, 40, 2, **sizes)
    both = lengths.sequence_lengths(source), lengths.sequence_lengths(target)
    assert both[0].shape == (3, 1)
    return randomise(model).eval(), (source, both[0], target, both[1])


@runs("D-Encoder")
def length_encoder(theirs):
    model, (source, source_len, *_) = tutorial()
    assert isinstance(model.encoder, theirs)
    output, maps = model.encoder(source, source_len)
    assert output.shape == (3, 7, D_MODEL) and len(maps) == 2
    for weights in maps:
        check_weights(weights.unflatten(0, (3, N_HEADS)), padding_mask(source))


@runs("D-Decoder")
def length_decoder(theirs):
    model, (source, source_len, target, target_len) = tutorial()
    assert isinstance(model.decoder, theirs)
    memory, _ = model.encoder(source, source_len)
    hidden = lengths.hidden_padding_mask(source, target)
    output, to_target, to_source = model.decoder(target, target_len, memory, hidden)
    assert output.shape == (3, 6, D_MODEL)
    masks = decoder_mask(target), padding_mask(source)
    for maps, mask in zip((to_target, to_source), masks, strict=True):
        for weights in maps:
            check_weights(weights.unflatten(0, (3, N_HEADS)), mask)


@runs("D-Transformer")
def length_transformer(theirs):
    model, batch = tutorial()
    probabilities, *maps = model(*batch)
    assert_close(probabilities.sum(-1), torch.ones(3, 6))  # the text's softmax
    assert [len(layers) for layers in maps] == [2, 2, 2]
    logits = theirs(50, 40, 50, 40, 2, D_MODEL, N_HEADS, D_FF, softmax=False)
    logits.load_state_dict(model.state_dict())
    assert_close(logits.eval()(*batch)[0].softmax(-1), probabilities, **CLOSE)
    given = inspect.signature(theirs).parameters
    assert given["dropout"].default == 0.2 and given["num_layers"].default == 6


@runs("D-lengths_model")
def lengths_model(build):
    equal_to_the_course("D", build(config()))


def scored():
    (key, _), (query, _) = inputs(), inputs(length=4)
    return query, key, torch.einsum("bqd,bkd->bqk", query, key)


@runs("D-dot-product")
def dot_score(theirs):
    query, key, dot = scored()
    assert_close(theirs(query, key), dot, **CLOSE)


@runs("D-scaled dot-product")
def scaled_dot_score(theirs):
    query, key, dot = scored()
    assert_close(theirs(query, key), dot / D_MODEL**0.5, **CLOSE)


@runs("D-general")
def general_score(theirs):
    (query, key, _), module = scored(), randomise(theirs(D_MODEL))
    expected = torch.einsum("bqd,de,bke->bqk", query, module.between.weight, key)
    assert_close(module(query, key), expected, **CLOSE)


@runs("D-local-base")
def location_score(theirs):
    (query, key, _), module = scored(), theirs(D_MODEL, 9)
    assert torch.equal(module(query, key), module(query, torch.zeros_like(key)))
    with pytest.raises(ValueError, match="6 keys, but places for 5"):
        theirs(D_MODEL, 5)(query, key)


@runs("D-additive attention")
def additive_score(theirs):
    query, key, _ = scored()
    module = d2l().AdditiveAttention(D_MODEL, D_MODEL, 7, 0.0)
    module(query, key, key, None)
    ours = theirs(D_MODEL, 7)
    for part, name in ((ours.query, "W_q"), (ours.key, "W_k"), (ours.score, "w_v")):
        part.load_state_dict(getattr(module, name).state_dict())
    assert_close(ours(query, key).softmax(-1), module.attention_weights, **CLOSE)


# --- E -------------------------------------------------------------------------------


@runs("E-PositionalEncoding")
def sinusoid_table(theirs):
    printed = theirs(512, 0)(torch.zeros(32, 10, 512))
    assert printed.shape == (32, 10, 512)
    module = theirs(D_MODEL, 0.1, 40).eval()
    ours = PositionalEncoding(D_MODEL, dropout=0.1, max_length=40).eval()
    x, _ = inputs()
    assert_close(module(x), ours(x), **CLOSE)
    assert "pe" in module.state_dict()
    assert module.half()(x.half()).dtype == torch.float16
    with pytest.raises(ValueError, match="6 tokens long, the positional table 5"):
        theirs(D_MODEL, 0.1, 5)(x)


@runs("E-ScaledDotProductAttention")
def scaled_dot_product_attention(theirs):
    _, tokens = inputs()
    query, key = torch.randn(2, 3, 2, 6, 8)
    value, mask = torch.randn(3, 2, 6, 5), padding_mask(tokens)
    module = theirs(8).eval()
    expected = attention(query, key, value, mask)
    assert_close(module(query, key, value, mask), expected, **CLOSE)
    assert_close(module(query, key, value), attention(query, key, value), **CLOSE)


@runs("E-MultiHeadAttention")
def attention_with_norm(theirs):
    d_head = D_MODEL // N_HEADS
    module = randomise(theirs(N_HEADS, D_MODEL, d_head, d_head)).eval()
    ours = MultiHeadAttention(D_MODEL, N_HEADS)
    residual = Residual(D_MODEL, dropout=0.0, norm_first=False)
    linears = module.w_qs, module.w_ks, module.w_vs, module.fc
    mapping.copy_projections(linears, ours)
    mapping.copy_layer_norm(module.layernorm, residual.norm)
    (key, tokens), (query, _) = inputs(), inputs(length=4)
    output, weights = module(query, key, key, padding_mask(tokens)[:, 0])
    expected = residual(query, lambda y: ours(y, key, key, padding_mask(tokens)))
    assert_close(output, expected, **CLOSE)
    check_weights(weights, padding_mask(tokens))


@runs("E-nn.LayerNorm")
def norm_of_one_to_four(ours):
    expected = torch.tensor([-1.3416, -0.4472, 0.4472, 1.3416])  # as printed
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    for norm in (ours(4), nn.LayerNorm(normalized_shape=4)):
        assert_close(norm(x), expected, atol=1e-4, rtol=0)
    # By the unbiased deviation all are √(3/4) of it.
    by_std = annotated.StdLayerNorm(4)(x)
    assert_close(by_std, expected * 0.75**0.5, atol=1e-4, rtol=0)


@runs("E-AttentionOnlyTranslator")
def attention_only(ours):
    model, (source, target) = randomise(ours(config())).eval(), sentences()
    logits = model(source, target)
    assert logits.shape == (3, 6, 50)
    changed = target.clone()
    changed[:, 4:] = 5
    assert_close(model(source, changed)[:, :4], logits[:, :4], **CLOSE)
    assert not any(isinstance(part, nn.ReLU) for part in model.modules())
