"""What the lessons train follows its model to any device.

"meta" holds no numbers and mixes with no other device, so a step there stops at any
tensor that was left or made on the CPU.
"""

from functools import partial

import pytest
import torch

from helpers.attention import record_attention
from helpers.batching import Batch
from helpers.decoding import next_token_scores, start_decoding
from helpers.masks import padding_mask
from helpers.probes import influence
from helpers.transformer import TransformerConfig
from lessons.lesson16.readings import build_reading
from lessons.lesson16.readings.pure_attention import AttentionOnlyTranslator
from samples import SIZES, sentences, small_model


def attention_only():
    config = TransformerConfig(50, 50, share_embeddings=False, **SIZES)
    return AttentionOnlyTranslator(config)


MODELS = {
    "the course's": small_model,
    "the course's, norm first": partial(small_model, norm_first=True, dropout=0.1),
    **{
        f"reading {key}": partial(build_reading, key, 50, 50, **SIZES) for key in "ABCD"
    },
    "reading E": attention_only,
}


def meta_batch():
    return Batch(*sentences()).to("meta")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_model_learns_and_writes_where_it_is(name):
    model, batch = MODELS[name]().to("meta").train(), meta_batch()
    model(batch.source, batch.decoder_input).logsumexp(dim=-1).sum().backward()
    assert {p.grad.device.type for p in model.parameters()} == {"meta"}
    with torch.no_grad():
        decoding = start_decoding(model.eval(), batch.source)
        for token in batch.decoder_input.unbind(1):  # the first one fills the caches
            scores = next_token_scores(decoding, token)
    assert scores.device.type == "meta" and scores.shape == (3, 50)


@pytest.mark.slow
def test_what_looks_inside_a_model_looks_where_it_is():
    model, batch = small_model().to("meta"), meta_batch()
    with record_attention(model) as maps:
        model(batch.source, batch.decoder_input)
    assert {weights.device.type for weights in maps.values()} == {"meta"}
    mask, x = padding_mask(batch.source[:1]), torch.empty(1, 7, 32, device="meta")
    assert influence(lambda x: model.encoder(x, mask), x).shape == (7, 7)
