"""The five readings under the property checks: no false alarm."""

import pytest

from helpers import PAD
from helpers.debugger.adapters import of_reading
from helpers.debugger.properties import CHECKS
from helpers.readings import build_reading
from helpers.readings.pure_attention import AttentionOnlyTranslator
from helpers.transformer import TransformerConfig

SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 2}


def reading(key, seed=0):
    """An untrained one; every other seed with dropout."""
    sizes = {**SIZES, "dropout": 0.1 * (seed % 2)}
    if key == "E":
        config = TransformerConfig(50, 60, share_embeddings=False, **sizes)
        return AttentionOnlyTranslator(config)
    return build_reading(key, 50, 60, **sizes)


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
