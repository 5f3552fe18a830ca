"""Copy a reading's weights into the course's modules, to compare (lesson 16).

The opposite direction to `helpers.interop.pytorch`, in the same style. What the
course's modules have and a reading lacks, a bias for example, becomes zero.
"""

import math
from collections.abc import Iterable
from dataclasses import replace

import torch
from torch import nn

from helpers.attention import MultiHeadAttention
from helpers.interop.pytorch import copy_layer_norm, copy_linear
from helpers.layers import LayerNorm
from helpers.transformer import Transformer
from lessons.lesson16.readings import annotated, d2l_blocks, lengths, pure_attention


def copy_linears(theirs: Iterable[nn.Module], ours: Iterable[nn.Linear]) -> None:
    """One linear layer, or convolution of width 1, into the other, in this order."""
    for their_linear, our_linear in zip(theirs, ours, strict=True):
        copy_linear(their_linear, our_linear)


def copy_projections(theirs: Iterable[nn.Linear], ours: MultiHeadAttention) -> None:
    """The four projections: of query, key, value, and output."""
    mine = ours.query_projection, ours.key_projection, ours.value_projection
    copy_linears(theirs, (*mine, ours.output_projection))


@torch.no_grad()
def copy_std_norm(theirs: nn.Module, ours: LayerNorm) -> None:
    """The annotated norm, but for its eps: see StdLayerNorm.

    The outputs then differ by the factor 1 + eps / std, std being the input's.
    """
    features = theirs.a_2.numel()
    ours.gain.copy_(theirs.a_2 * math.sqrt((features - 1) / features))
    ours.bias.copy_(theirs.b_2)
    ours.eps = 0.0


def blank(reading: nn.Module, *, norm_first: bool) -> Transformer:
    """The course's model in a reading's sizes, with a bias on the logits."""
    ours = Transformer(replace(reading.config, norm_first=norm_first))
    ours.projection = nn.Linear(reading.config.d_model, reading.config.target_vocab)
    return ours.train(reading.training)


def course_from_annotated(reading: nn.Module) -> Transformer:
    """Readings A and C."""
    ours, model = blank(reading, norm_first=True), reading.model
    for ours_stack, their_stack in (
        (ours.encoder, model.encoder),
        (ours.decoder, model.decoder),
    ):
        for mine, theirs in zip(ours_stack.layers, their_stack.layers, strict=True):
            copy_annotated_layer(theirs, mine)
        if isinstance(their_stack.norm, nn.Identity):
            ours_stack.norm = nn.Identity()
        else:
            copy_std_norm(their_stack.norm, ours_stack.norm)
    copy_embedding(model.src_embed[0].lut, ours.source_embedding)
    copy_embedding(model.tgt_embed[0].lut, ours.target_embedding)
    copy_linear(getattr(model.generator, "proj", model.generator), ours.projection)
    return ours


def copy_annotated_layer(theirs: nn.Module, ours: nn.Module) -> None:
    """An encoder's or a decoder's layer of readings A and C."""
    copy_projections(theirs.self_attn.linears, ours.self_attention)
    if hasattr(ours, "cross_attention"):
        copy_projections(theirs.src_attn.linears, ours.cross_attention)
    pair, mine = theirs.feed_forward, ours.feed_forward
    copy_linears((pair.w_1, pair.w_2), (mine.expand, mine.contract))
    for connection, residual in zip(theirs.sublayer, ours.residuals, strict=True):
        copy_std_norm(connection.norm, residual.norm)


def course_from_blocks(reading: nn.Module) -> Transformer:
    """Reading B, with the norm over the features."""
    ours = blank(reading, norm_first=False)
    encoder, decoder = reading.encoder, reading.decoder
    for mine, theirs in zip(ours.encoder.layers, encoder.blks, strict=True):
        copy_projections(linears_of(theirs.attention), mine.self_attention)
        copy_block(theirs, mine)
    for mine, theirs in zip(ours.decoder.layers, decoder.blks, strict=True):
        copy_projections(linears_of(theirs.attention1), mine.self_attention)
        copy_projections(linears_of(theirs.attention2), mine.cross_attention)
        copy_block(theirs, mine)
    copy_embedding(encoder.embedding, ours.source_embedding)
    copy_embedding(decoder.embedding, ours.target_embedding)
    copy_linear(decoder.dense, ours.projection)
    return ours


def copy_block(theirs: nn.Module, ours: nn.Module) -> None:
    """What an EncoderBlock or DecoderBlock has beside its attention."""
    pair, mine = theirs.ffn, ours.feed_forward
    copy_linears((pair.dense1, pair.dense2), (mine.expand, mine.contract))
    for i, residual in enumerate(ours.residuals, start=1):
        copy_layer_norm(getattr(theirs, f"addnorm{i}").ln, residual.norm)


def course_from_lengths(reading: nn.Module) -> Transformer:
    """Reading D."""
    ours, model = blank(reading, norm_first=False), reading.model
    encoder, decoder = model.encoder, model.decoder
    for mine, theirs in zip(ours.encoder.layers, encoder.encoder_layers, strict=True):
        copy_projections(linears_of(theirs.attention), mine.self_attention)
        copy_norms_and_network((theirs.attention, theirs.feed_forward), mine)
    for mine, theirs in zip(ours.decoder.layers, decoder.decoder_layers, strict=True):
        attentions = theirs.self_attention, theirs.context_attention
        copy_projections(linears_of(attentions[0]), mine.self_attention)
        copy_projections(linears_of(attentions[1]), mine.cross_attention)
        copy_norms_and_network((*attentions, theirs.feed_forward), mine)
    copy_embedding(encoder.embedding.seq_embedding, ours.source_embedding)
    copy_embedding(decoder.embedding.seq_embedding, ours.target_embedding)
    copy_linear(model.linear, ours.projection)
    return ours


def copy_norms_and_network(theirs: tuple[nn.Module, ...], ours: nn.Module) -> None:
    """What a layer has beside its attentions; D's sublayers hold the norms."""
    convolutions, mine = theirs[-1], ours.feed_forward
    copy_linears((convolutions.w1, convolutions.w2), (mine.expand, mine.contract))
    for sublayer, residual in zip(theirs, ours.residuals, strict=True):
        copy_layer_norm(sublayer.layer_norm, residual.norm)


@torch.no_grad()
def copy_embedding(theirs: nn.Embedding, ours: nn.Embedding) -> None:
    """A vector a token; both sides scale by √d_model afterwards.

    Reading D has a row more than there are tokens, at the end.
    """
    ours.weight.copy_(theirs.weight[: len(ours.weight)])


# The course's model with the weights of a model that build_reading made.
COURSE_FROM = {
    "A": course_from_annotated,
    "B": course_from_blocks,
    "C": course_from_annotated,
    "D": course_from_lengths,
}


# -- the five attentions alone ---------------------------------------------------------


def five_attentions() -> tuple[nn.Module, nn.Module, nn.Module, nn.Module]:
    """The attention of A and C, of B, of D, of E: two heads, d_model 16.

    All have E's weights; E has no biases, so all biases are 0.
    """
    a_or_c = annotated.MultiHeadedAttention(2, 16, dropout=0.0)
    b = d2l_blocks.d2l.MultiHeadAttention(16, 16, 16, 16, 2, 0.0)
    d = lengths.RepairedAttention(16, 2)
    e = pure_attention.AttentionWithNorm(2, 16, d_k=8, d_v=8, dropout=0.0)
    for module in (a_or_c, b, d):
        copy_linears(linears_of(e), linears_of(module))
    return a_or_c, b, d, e


def linears_of(module: nn.Module) -> tuple[nn.Linear, ...]:
    """Query, key, value and output projection, under the names of a reading."""
    if hasattr(module, "linears"):  # A, C
        return tuple(module.linears)
    if hasattr(module, "linear_q"):  # D, and a learner's repaired one
        return module.linear_q, module.linear_k, module.linear_v, module.linear_final
    if hasattr(module, "w_qs"):  # E
        return module.w_qs, module.w_ks, module.w_vs, module.fc
    return module.W_q, module.W_k, module.W_v, module.W_o  # d2l's
