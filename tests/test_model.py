"""The whole model: equal to PyTorch's, causal, blind to padding, and its sizes."""

import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from helpers import PAD
from helpers.attention import record_attention
from helpers.decoder import DecoderLayer
from helpers.encoder import EncoderLayer
from helpers.interop.pytorch import copy_layer, copy_stack
from helpers.layers import LayerNorm, Residual
from helpers.masks import causal_mask, decoder_mask, padding_mask
from helpers.positions import PositionalEncoding, positional_encoding
from helpers.transformer import Transformer, TransformerConfig
from samples import SIZES, layer_sizes, randomise, sentences, small_model

pytestmark = pytest.mark.usefixtures("seed")
NORM_ORDERS = pytest.mark.parametrize("norm_first", [False, True])


# --- Equal to PyTorch's own modules --------------------------------------------------


@NORM_ORDERS
def test_encoder_layer_equals_pytorch(norm_first):
    ours = randomise(EncoderLayer(layer_sizes(norm_first))).eval()
    theirs = nn.TransformerEncoderLayer(
        32, 4, 48, batch_first=True, norm_first=norm_first
    )
    copy_layer(ours, theirs)
    source, _ = sentences()
    x = torch.randn(*source.shape, 32)
    # Training mode without dropout: PyTorch's fused eval path zeroes padded rows.
    theirs.dropout.p = theirs.dropout1.p = theirs.dropout2.p = 0.0
    theirs.self_attn.dropout = 0.0
    expected = theirs(x, src_key_padding_mask=source == PAD)
    assert_close(ours(x, padding_mask(source)), expected, atol=1e-5, rtol=1e-5)


@NORM_ORDERS
def test_decoder_layer_equals_pytorch(norm_first):
    ours = randomise(DecoderLayer(layer_sizes(norm_first))).eval()
    theirs = nn.TransformerDecoderLayer(
        32, 4, 48, batch_first=True, norm_first=norm_first
    ).eval()
    copy_layer(ours, theirs)
    source, target = sentences()
    x, memory = torch.randn(*target.shape, 32), torch.randn(*source.shape, 32)
    expected = theirs(
        x,
        memory,
        tgt_mask=~causal_mask(target.size(1))[0, 0],
        tgt_key_padding_mask=target == PAD,
        memory_key_padding_mask=source == PAD,
    )
    output = ours(x, memory, decoder_mask(target), padding_mask(source))
    assert_close(output, expected, atol=1e-5, rtol=1e-5)


# A remark of nn.Transformer on its own speed, true of every norm-first model.
@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@NORM_ORDERS
def test_transformer_equals_pytorch(norm_first):
    model = small_model(norm_first)
    theirs = nn.Transformer(
        32, 4, 2, 2, 48, dropout=0.0, batch_first=True, norm_first=norm_first
    )
    copy_stack(model.encoder, theirs.encoder)
    copy_stack(model.decoder, theirs.decoder)
    source, target = sentences()
    states = theirs(
        model.positions(model.source_embedding(source)),
        model.positions(model.target_embedding(target)),
        tgt_mask=~causal_mask(target.size(1))[0, 0],
        src_key_padding_mask=source == PAD,
        tgt_key_padding_mask=target == PAD,
        memory_key_padding_mask=source == PAD,
    )
    expected = model.project(states)
    assert_close(model(source, target), expected, atol=1e-5, rtol=1e-5)


def test_layer_norm_equals_pytorch_and_the_equation():
    ours = randomise(LayerNorm(12))
    theirs = nn.LayerNorm(12)
    theirs.load_state_dict({"weight": ours.gain, "bias": ours.bias})
    x = 3 * torch.randn(4, 5, 12) + 1
    centred = x - x.mean(-1, keepdim=True)
    deviation = (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    assert_close(ours(x), theirs(x))
    assert_close(ours(x), ours.gain * centred / deviation + ours.bias)


def test_positional_encoding_holds_the_paper_s_numbers():
    table = positional_encoding(60, 8)
    for position in (0, 1, 59):
        for i in range(4):
            angle = position / 10000 ** (2 * i / 8)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle))
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle))


# --- Causality, padding, batches: by perturbation and by gradient ---------------------


@NORM_ORDERS
def test_no_position_sees_a_later_target_token(norm_first):
    model, (source, target) = small_model(norm_first), sentences(rows=1)
    expected = model(source, target)
    for position in range(1, target.size(1)):
        changed = target.clone()
        changed[0, position] = 4 + (changed[0, position] - 3) % 40
        output = model(source, changed)
        assert_close(output[:, :position], expected[:, :position])
        assert not torch.allclose(output[:, position:], expected[:, position:])


@NORM_ORDERS
def test_more_padding_changes_nothing(norm_first):
    model, (source, target) = small_model(norm_first), sentences()
    expected = model(source, target)
    longer_source = nn.functional.pad(source, (0, 4), value=PAD)
    longer_target = nn.functional.pad(target, (0, 3), value=PAD)
    output = model(longer_source, longer_target)[:, : target.size(1)]
    real = target != PAD
    assert_close(output[real], expected[real], atol=1e-5, rtol=1e-5)


# --- Recording attention --------------------------------------------------------------


@NORM_ORDERS
def test_recorded_maps_are_distributions_and_change_no_output(norm_first):
    model, (source, target) = small_model(norm_first), sentences()
    plain = model(source, target)
    with record_attention(model) as maps:
        recorded = model(source, target)
    assert_close(recorded, plain, atol=1e-5, rtol=1e-5)
    kinds = ("encoder.layers.{}.self_attention", "decoder.layers.{}.self_attention")
    names = [kind.format(i) for kind in kinds for i in range(2)]
    names += [f"decoder.layers.{i}.cross_attention" for i in range(2)]
    assert sorted(maps) == sorted(names)
    masks = {"encoder": padding_mask(source), "decoder": decoder_mask(target)}
    for name, weights in maps.items():
        across = name.endswith("cross_attention")
        mask = padding_mask(source) if across else masks[name.split(".")[0]]
        assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        assert (weights[~mask.expand_as(weights)] == 0).all()


# --- Sizes, initialisation, state -----------------------------------------------------


def test_parameter_counts_of_the_paper():
    """The count is the model's own, with one vocabulary of 37,000.

    The paper rounds to 65M and 213M with a vocabulary of "about 37,000", each of which
    adds d_model parameters, once since the three matrices are one: 1,920 tokens more
    would make it 64.06M. Biases count, the sinusoids do not.
    """
    counts = {}
    for name in ("base", "big"):
        with torch.device("meta"):
            model = Transformer(getattr(TransformerConfig, name)())
        counts[name] = sum(p.numel() for p in model.parameters())
    assert counts == {"base": 63_082_496, "big": 214_245_376}
    assert counts["base"] == pytest.approx(65e6, rel=0.03)
    assert counts["big"] == pytest.approx(213e6, rel=0.03)


def test_shared_embeddings_are_one_matrix():
    model = Transformer(TransformerConfig(50, 50, **SIZES))
    shared = model.source_embedding.weight
    assert model.target_embedding.weight is shared
    assert model.projection.weight is shared
    separate = Transformer(TransformerConfig(50, 60, share_embeddings=False, **SIZES))
    saved = 50 * 32 + 60 * 32 + 60 * 32 - 50 * 32
    count = [sum(p.numel() for p in m.parameters()) for m in (model, separate)]
    assert count[1] - count[0] == saved


@pytest.mark.parametrize("share", [False, True])
def test_a_fresh_model_starts_as_its_docstrings_say(share):
    sizes = {"d_model": 64, "n_heads": 4, "d_ff": 128, "n_layers": 1}
    model = Transformer(TransformerConfig(500, 500, share_embeddings=share, **sizes))
    for embedding in (model.source_embedding, model.target_embedding):
        assert embedding.weight.std().item() == pytest.approx(64**-0.5, rel=0.05)
    start = 64**-0.5 if share else 0.02
    assert model.projection.weight.std().item() == pytest.approx(start, rel=0.05)
    linears = [m for m in model.modules() if isinstance(m, nn.Linear)]
    linears.remove(model.projection)
    assert len(linears) == 4 + 2 + 8 + 2
    for linear in linears:
        limit = math.sqrt(6 / sum(linear.weight.shape))  # Glorot and Bengio 2010
        largest = linear.weight.abs().max().item()
        assert 0.9 * limit < largest <= limit
        assert not linear.bias.any()


@NORM_ORDERS
def test_every_parameter_receives_a_gradient(norm_first):
    model = small_model(norm_first).train()
    model(*sentences()).logsumexp(-1).sum().backward()
    missing = [
        name
        for name, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.abs().sum() > 0
    ]
    # A key's bias adds the same to all scores of a query; softmax does not see it.
    assert all(name.endswith("key_projection.bias") for name in missing)


def test_all_state_moves_with_the_model():
    model = small_model().to(torch.float64)
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    assert {t.dtype for t in tensors.values()} == {torch.float64}
    loaded = Transformer(model.config).double().eval()
    loaded.load_state_dict(model.state_dict())
    batch = sentences()
    assert_close(loaded(*batch), model(*batch))


class Thrice(nn.Module):
    """Shows where a dropout stands."""

    def forward(self, x):
        return 3 * x


def test_dropout_is_on_what_a_sublayer_adds_and_on_the_embeddings_sum():
    x = torch.randn(2, 5, 8)
    for norm_first in (False, True):
        residual = randomise(Residual(8, dropout=0.1, norm_first=norm_first))
        residual.dropout, norm = Thrice(), residual.norm
        last, first = norm(x + 3 * x.tanh()), x + 3 * norm(x).tanh()
        assert_close(residual(x, torch.tanh), first if norm_first else last)
    positions = PositionalEncoding(8, dropout=0.1, max_length=10)
    positions.dropout = Thrice()
    assert_close(positions(x), 3 * (x + positional_encoding(5, 8)))
