"""Faults in Hugging Face's encoder–decoders, put in by patching."""

import torch
from torch import Tensor, nn

from faults.listing import fault
from faults.patching import Nothing, become, wrap
from helpers import PAD


@fault(
    "no positions in Marian's decoder",
    "Marian",
    "model.decoder.embed_tokens model.shared model.decoder.layers.0 "
    "model.decoder.embed_positions",
    "position",
)
def marian_positions(model: nn.Module) -> None:
    """The table is made, and zeros are added."""
    model.model.decoder.embed_positions = Nothing(model.model.decoder.embed_positions)


@fault("Marian's encoder under no_grad", "Marian", "model.encoder", "gradient")
def frozen_encoder(model: nn.Module) -> None:
    """Frozen for a first stage of training, and never thawed."""
    wrap(model.model.encoder, torch.no_grad()(lambda inner, *a, **k: inner(*a, **k)))


@fault(
    "BART's cross-attention without residual",
    "BART",
    "model.decoder.layers.0.encoder_attn model.decoder.layers.0",
    "residual",
)
def bart_residual(model: nn.Module) -> None:
    """`hidden_states = residual + hidden_states` is one line among fourteen like it."""
    layer = model.model.decoder.layers[0]
    asked = []

    def keep(inner, hidden_states, *args, **kwargs):
        asked[:] = [hidden_states]
        output, *rest = inner(hidden_states, *args, **kwargs)
        return (output - hidden_states, *rest)

    wrap(layer.encoder_attn, keep)


@fault("BART's target shifted twice", "BART", "-", "late shift")
def bart_shifted(model: nn.Module) -> None:
    """decoder_input_ids go through shift_tokens_right, which labels should."""
    from transformers.models.bart.modeling_bart import shift_tokens_right

    def shifted(inner, *args, decoder_input_ids, **kwargs):
        ids = shift_tokens_right(decoder_input_ids, PAD, 2)
        return inner(*args, decoder_input_ids=ids, **kwargs)

    wrap(model, shifted)


@fault(
    "T5's decoder ignores the source's mask",
    "T5",
    "decoder.block.0.layer.1.EncDecAttention decoder.block.0.layer.1",
    "padding mask",
)
def t5_cross_mask(model: nn.Module) -> None:
    """huggingface/transformers, issue 36293: lost between two refactorings."""

    def without(inner, *args, encoder_attention_mask=None, **kwargs):
        return inner(*args, **kwargs)

    wrap(model.decoder, without)


@fault(
    "T5's decoder without its relative bias",
    "T5",
    "decoder.embed_tokens shared decoder.block.0",
    "position",
)
def t5_bias(model: nn.Module) -> None:
    """The first block alone has the bias, for all."""
    attention = model.decoder.block[0].layer[0].SelfAttention
    attention.relative_attention_bias = Nothing(attention.relative_attention_bias)


@fault(
    "Pegasus's feed-forward never added",
    "Pegasus",
    "model.encoder.layers.1.fc2 model.encoder.layers.1",
    "residual",
)
def pegasus_residual(model: nn.Module) -> None:
    """The sublayer's output stands for the sum."""
    layer = model.model.encoder.layers[1]
    kept = []

    def before(inner, x):
        kept[:] = [x]
        return inner(x)

    def after(inner, x):
        return inner(x) - kept[0]

    wrap(layer.final_layer_norm, before)
    wrap(layer.fc2, after)


@fault(
    "one BART layer without its first residual",
    "BART",
    "model.encoder.layers.0.self_attn model.encoder.layers.0",
    "residual",
)
def bart_layer(model: nn.Module) -> None:
    """In one layer, which is of a class of its own, `residual +` is missing."""

    def forward(self: nn.Module, x: Tensor, attention_mask: Tensor, **given) -> Tensor:
        mixed, _ = self.self_attn(x, attention_mask=attention_mask, **given)
        x = self.self_attn_layer_norm(mixed)
        return self.final_layer_norm(x + self.fc2(self.activation_fn(self.fc1(x))))

    become(model.model.encoder.layers[0], forward=forward)


@fault(
    "T5's distances with the wrong sign",
    "T5",
    "decoder.block.0.layer.0.SelfAttention",
    "position relative",
)
def t5_sign(model: nn.Module) -> None:
    """query - key for key - query: the decoder's past is all at distance 0."""
    attention = model.decoder.block[0].layer[0].SelfAttention
    bucket = attention._relative_position_bucket
    attention._relative_position_bucket = lambda x, **given: bucket(-x, **given)


@fault(
    "T5 divides by the largest of the batch",
    "T5",
    "encoder.block.1.layer.1.DenseReluDense",
    "maximum norm mean",
)
def t5_scale(model: nn.Module) -> None:
    """`x / x.abs().max()` without dim, against overflow."""
    part = model.encoder.block[1].layer[1].DenseReluDense

    def scaled(inner, x: Tensor) -> Tensor:
        y = inner(x)
        return y / y.abs().max().clamp(min=1e-3)

    wrap(part, scaled)


@fault(
    "ProphetNet as it is published",
    "ProphetNet, put right",
    "prophetnet.decoder.layers.0.self_attn",
    "axes length positions",
)
def prophetnet_as_it_is(model: nn.Module) -> None:
    """huggingface/transformers, issue 24289 tells a symptom; so in version 5.23.

    Scores are flattened as (batch, length, ngram, heads), the distances that look them
    up as (ngram, batch, heads, length): a position reads those of another, of the
    future too, and padding moves them.
    """
    for layer in model.prophetnet.decoder.layers:
        del layer.self_attn.get_predict_relative_pos_embeddings
