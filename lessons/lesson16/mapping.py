"""Copy a reading's weights into the course's modules, to compare (lesson 16).

The opposite direction to `helpers.interop.pytorch`, in the same style. What the
course's modules have and a reading lacks, a bias for example, becomes zero.
"""

import math
from dataclasses import replace

import torch
from torch import nn

from helpers.attention import MultiHeadAttention
from helpers.interop.pytorch import copy_layer_norm, copy_linear
from helpers.layers import FeedForward, LayerNorm
from helpers.transformer import Transformer
from lessons.lesson16.readings import annotated, d2l_blocks, lengths, pure_attention


def copy_projections(
    theirs: tuple[nn.Linear, ...] | nn.ModuleList, ours: MultiHeadAttention
) -> None:
    """The four projections: of query, key, value, and output."""
    mine = (ours.query_projection, ours.key_projection, ours.value_projection)
    for their_linear, our_linear in zip(
        theirs, (*mine, ours.output_projection), strict=True
    ):
        copy_linear(their_linear, our_linear)


def copy_feed_forward_pair(
    expand: nn.Module, contract: nn.Module, ours: FeedForward
) -> None:
    """The two matrices of the network with their biases."""
    copy_linear(expand, ours.expand)
    copy_linear(contract, ours.contract)


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
    copy_feed_forward_pair(
        theirs.feed_forward.w_1, theirs.feed_forward.w_2, ours.feed_forward
    )
    for connection, residual in zip(theirs.sublayer, ours.residuals, strict=True):
        copy_std_norm(connection.norm, residual.norm)


def course_from_blocks(reading: nn.Module) -> Transformer:
    """Reading B, with the norm over the features."""
    ours = blank(reading, norm_first=False)
    encoder, decoder = reading.encoder, reading.decoder
    for mine, theirs in zip(ours.encoder.layers, encoder.blks, strict=True):
        copy_d2l_attention(theirs.attention, mine.self_attention)
        copy_block(theirs, mine)
    for mine, theirs in zip(ours.decoder.layers, decoder.blks, strict=True):
        copy_d2l_attention(theirs.attention1, mine.self_attention)
        copy_d2l_attention(theirs.attention2, mine.cross_attention)
        copy_block(theirs, mine)
    copy_embedding(encoder.embedding, ours.source_embedding)
    copy_embedding(decoder.embedding, ours.target_embedding)
    copy_linear(decoder.dense, ours.projection)
    return ours


def copy_d2l_attention(theirs: nn.Module, ours: MultiHeadAttention) -> None:
    """d2l's MultiHeadAttention."""
    copy_projections((theirs.W_q, theirs.W_k, theirs.W_v, theirs.W_o), ours)


def copy_block(theirs: nn.Module, ours: nn.Module) -> None:
    """What an EncoderBlock or DecoderBlock has beside its attention."""
    copy_feed_forward_pair(theirs.ffn.dense1, theirs.ffn.dense2, ours.feed_forward)
    for i, residual in enumerate(ours.residuals, start=1):
        copy_layer_norm(getattr(theirs, f"addnorm{i}").ln, residual.norm)


def course_from_lengths(reading: nn.Module) -> Transformer:
    """Reading D."""
    ours, model = blank(reading, norm_first=False), reading.model
    encoder, decoder = model.encoder, model.decoder
    for mine, theirs in zip(ours.encoder.layers, encoder.encoder_layers, strict=True):
        copy_self_attention_layer(theirs, mine)
    for mine, theirs in zip(ours.decoder.layers, decoder.decoder_layers, strict=True):
        copy_context_attention_layer(theirs, mine)
    copy_embedding(encoder.embedding.seq_embedding, ours.source_embedding)
    copy_embedding(decoder.embedding.seq_embedding, ours.target_embedding)
    copy_linear(model.linear, ours.projection)
    return ours


def copy_self_attention_layer(theirs: nn.Module, ours: nn.Module) -> None:
    """An encoder's layer of reading D."""
    attention, feed_forward = ours.residuals
    copy_sublayer(theirs.attention, ours.self_attention, attention)
    copy_convolutions(theirs.feed_forward, ours.feed_forward, feed_forward)


def copy_context_attention_layer(theirs: nn.Module, ours: nn.Module) -> None:
    """A decoder's layer of reading D."""
    look_back, look_at_source, feed_forward = ours.residuals
    copy_sublayer(theirs.self_attention, ours.self_attention, look_back)
    copy_sublayer(theirs.context_attention, ours.cross_attention, look_at_source)
    copy_convolutions(theirs.feed_forward, ours.feed_forward, feed_forward)


def copy_sublayer(
    theirs: nn.Module, ours: MultiHeadAttention, residual: nn.Module
) -> None:
    """A RepairedAttention into an attention and the residual connection around it."""
    linears = (theirs.linear_q, theirs.linear_k, theirs.linear_v, theirs.linear_final)
    copy_projections(linears, ours)
    copy_layer_norm(theirs.layer_norm, residual.norm)


def copy_convolutions(
    theirs: nn.Module, ours: FeedForward, residual: nn.Module
) -> None:
    """A PositionalWiseFeedForward into a network and the residual around it."""
    copy_feed_forward_pair(theirs.w1, theirs.w2, ours)
    copy_layer_norm(theirs.layer_norm, residual.norm)


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
    b = d2l_blocks.multi_head_attention(16, 16, 16, 16, 2, 0.0)
    d = lengths.RepairedAttention(16, 2)
    e = pure_attention.AttentionWithNorm(2, 16, d_k=8, d_v=8, dropout=0.0)
    for module in (a_or_c, b, d):
        for empty, full in zip(linears_of(module), linears_of(e), strict=True):
            copy_linear(full, empty)
    return a_or_c, b, d, e


def linears_of(module: nn.Module) -> tuple[nn.Linear, ...]:
    """Query, key, value and output projection, under the names of a reading."""
    if isinstance(module, annotated.MultiHeadedAttention):
        return tuple(module.linears)
    if isinstance(module, lengths.RepairedAttention):
        return module.linear_q, module.linear_k, module.linear_v, module.linear_final
    if isinstance(module, pure_attention.AttentionWithNorm):
        return module.w_qs, module.w_ks, module.w_vs, module.fc
    return module.W_q, module.W_k, module.W_v, module.W_o  # d2l's
