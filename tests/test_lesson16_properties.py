"""The five readings under the property checks: no false alarm; and their slips."""

import pytest
import torch

from helpers import PAD
from helpers.transformer import TransformerConfig
from lessons.lesson16.adapters import of_reading
from lessons.lesson16.conventions import HeadsByView, MaskThrownAway, slips
from lessons.lesson16.readings import build_reading, lengths, pure_attention
from lessons.lesson16.readings.pure_attention import AttentionOnlyTranslator
from transformer_checkup.properties import CHECKS

SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 2}


def reading(key, seed=0):
    """An untrained one; every other seed with dropout."""
    sizes = {**SIZES, "dropout": 0.1 * (seed % 2)}
    if key == "E":
        config = TransformerConfig(50, 60, share_embeddings=False, **sizes)
        return AttentionOnlyTranslator(config)
    return build_reading(key, 50, 60, **sizes)


@pytest.mark.slow
@pytest.mark.parametrize("key", "ABCDE")
def test_no_false_alarm_on_a_reading(key, seed):
    subject = of_reading(reading(key, seed), seed=seed)
    verdicts = [check(subject) for check in CHECKS.values()]
    assert [v for v in verdicts if v.holds is None] == []
    assert {v.name: v.sentence for v in verdicts if not v.holds} == {}


def test_a_is_loud_because_nothing_norms_its_last_states(seed):
    model = reading("A", seed).eval()
    batch = of_reading(model, seed=seed).sentences()
    states = model.decode(batch[1], model.encode(batch[0]), batch[0])
    assert states.var(-1).mean() > 2  # a closing norm would make it 1
    frame = reading("C", seed).model
    model.model.encoder.norm, model.model.decoder.norm = (
        frame.encoder.norm,
        frame.decoder.norm,
    )
    assert CHECKS["initial loss"](of_reading(model, seed=seed)).holds


def test_only_padding_looks_at_padding_in_b(seed):
    model = reading("B", seed).eval()
    source, target = of_reading(model, seed=seed).sentences()
    target[2:, -3:] = PAD
    hidden = (target == PAD)[:, None, None]
    real = (target != PAD)[:, None, :, None]
    for weights in model.attention_maps(source, target)["decoder"]:
        assert (weights * hidden * ~real).max() > 0.01
        assert (weights * hidden * real == 0).all()


@pytest.mark.parametrize("key", "ABCDE")
def test_every_map_is_given(key):
    model = reading(key).eval()
    source, target = of_reading(model).sentences()
    maps = model.attention_maps(source, target)
    assert list(maps) == ["encoder", "decoder", "cross"]
    sizes = {"encoder": (9, 9), "decoder": (8, 8), "cross": (8, 9)}
    for kind, layers in maps.items():
        assert [tuple(w.shape) for w in layers] == [(4, 4, *sizes[kind])] * 2


def test_each_slip_is_one_change_of_a_repaired_module():
    query, key = torch.randn(2, 3, 8), torch.randn(2, 4, 8)
    hidden = torch.zeros(2, 3, 4, dtype=torch.bool)
    hidden[0, :, 3:] = True
    for heads, alike in ((1, True), (2, False)):
        module = lengths.MultiHeadSublayer(8, heads)
        due, _ = module(key, key, query, hidden)
        module.__class__ = HeadsByView
        found, _ = module(key, key, query, hidden)
        assert torch.allclose(found, due, atol=1e-6) == alike
    attention = pure_attention.ScaledDotProductAttention(8, dropout=0.0)
    bare, masked = attention(query, key, key)[1], attention(query, key, key, ~hidden)[1]
    attention.__class__ = MaskThrownAway
    found = attention(query, key, key, ~hidden)[1]
    assert torch.equal(found, bare) and not torch.allclose(found, masked)


def test_a_shared_attention_passes_unseen_and_has_fewer_weights():
    config = TransformerConfig(50, 60, share_embeddings=False, dropout=0.0, **SIZES)
    shared = slips(config)["D, one attention for two"]
    count = [sum(p.numel() for p in m.parameters()) for m in (shared, reading("D"))]
    assert count[0] < count[1]
    for layer in shared.model.decoder.decoder_layers:
        assert layer.context_attention is layer.self_attention
