"""Readings A and C: the Annotated Transformer, its parts and its frame (lesson 16).

A explains the parts, C the frame that holds them. Both normalise first, and divide by
the standard deviation, not by the root of the variance plus eps. A mask is
(batch, 1 or query_length, key_length), the same for every head; 0 or False hides.
"""

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from helpers import PAD
from helpers.positions import PositionalEncoding
from helpers.transformer import TransformerConfig
from lessons.lesson16.readings.interface import Translator

# -- A: the parts ----------------------------------------------------------------------


def clones(module: nn.Module, N: int) -> nn.ModuleList:
    """N copies of a module, with parameters of their own that start out equal."""
    return nn.ModuleList(copy.deepcopy(module) for _ in range(N))


class Embeddings(nn.Module):
    """ids (batch, length) -> (batch, length, d_model), times √d_model."""

    def __init__(self, d_model: int, vocab: int):
        super().__init__()
        self.lut = nn.Embedding(vocab, d_model)
        self.d_model = d_model

    def forward(self, x: Tensor) -> Tensor:
        return self.lut(x) * math.sqrt(self.d_model)


def attention_with_dropout(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention, and the weights that it used.

    query (…, query_length, d_k), key and value (…, key_length, d_k or d_v), mask as in
    the module's docstring. Dropout acts on the weights. A query whose keys are all
    hidden attends to all of them alike.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        # The smallest number of the scores' own type: -1e9 is none in half precision,
        # and -inf makes NaN of a row that is hidden as a whole.
        scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return p_attn @ value, p_attn


class MultiHeadedAttention(nn.Module):
    """h heads of size d_k = d_model / h; linears: query, key, value, output.

    query (batch, query_length, d_model), key and value (batch, key_length, d_model)
    -> (batch, query_length, d_model). `attn` keeps the last weights, (batch, h,
    query_length, key_length).
    """

    def __init__(self, h: int, d_model: int, dropout: float = 0.1):
        super().__init__()
        if d_model % h:
            raise ValueError(f"d_model={d_model} is not divisible by h={h}")
        self.d_k, self.h = d_model // h, h
        self.linears = clones(nn.Linear(d_model, d_model), 4)
        self.attn: Tensor | None = None
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        if mask is not None:
            mask = mask.unsqueeze(1)  # the same for all heads
        batch = query.size(0)
        query, key, value = (
            linear(x).view(batch, -1, self.h, self.d_k).transpose(1, 2)
            for linear, x in zip(self.linears[:3], (query, key, value), strict=True)
        )
        x, attn = attention_with_dropout(query, key, value, mask, self.dropout)
        self.attn = attn.detach()
        return self.linears[3](x.transpose(1, 2).flatten(2))


class StdLayerNorm(nn.Module):
    """a_2 (x - mean) / (std + eps) + b_2 over the last axis; std is the unbiased one.

    Called LayerNorm in the texts. Before gain and bias it is the course's norm, with
    its biased variance v and eps e, times √(v + e) / (std + eps).
    """

    def __init__(self, features: int, eps: float = 1e-6):
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(features))
        self.b_2 = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        mean, std = x.mean(-1, keepdim=True), x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


class SublayerConnection(nn.Module):
    """x + Dropout(sublayer(norm(x))); the paper has the norm last, section 3.1."""

    def __init__(self, size: int, dropout: float):
        super().__init__()
        self.norm = StdLayerNorm(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return x + self.dropout(sublayer(self.norm(x)))


class PositionwiseFeedForward(nn.Module):
    """(batch, length, d_model) to d_ff and back, with dropout between the two."""

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.1):
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.w_2(self.dropout(self.w_1(x).relu()))


# -- C: the frame ----------------------------------------------------------------------


def subsequent_mask(size: int) -> Tensor:
    """(1, size, size), True on and below the diagonal."""
    return torch.ones(1, size, size, dtype=torch.bool).triu(1) == 0


class NormFirstEncoderLayer(nn.Module):
    """C's EncoderLayer: self-attention and feed-forward, both given.

    x (batch, length, size), mask (batch, 1, length) -> (batch, length, size).
    """

    def __init__(
        self, size: int, self_attn: nn.Module, feed_forward: nn.Module, dropout: float
    ):
        super().__init__()
        self.size = size
        self.self_attn, self.feed_forward = self_attn, feed_forward
        self.sublayer = clones(SublayerConnection(size, dropout), 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.sublayer[0](x, lambda y: self.self_attn(y, y, y, mask))
        return self.sublayer[1](x, self.feed_forward)


class NormFirstEncoder(nn.Module):
    """C's Encoder: N clones of a layer and one last norm; shapes as the layer's."""

    def __init__(self, layer: nn.Module, N: int):
        super().__init__()
        self.layers = clones(layer, N)
        self.norm = StdLayerNorm(layer.size)

    def forward(self, x: Tensor, *given: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, *given)
        return self.norm(x)


class NormFirstDecoderLayer(nn.Module):
    """C's DecoderLayer: self-attention, attention to the source, feed-forward; given.

    x (batch, target_length, size), memory (batch, source_length, size), src_mask
    (batch, 1, source_length), tgt_mask (batch, target_length, target_length)
    -> (batch, target_length, size).
    """

    def __init__(
        self,
        size: int,
        self_attn: nn.Module,
        src_attn: nn.Module,
        feed_forward: nn.Module,
        dropout: float,
    ):
        super().__init__()
        self.size = size
        self.self_attn, self.src_attn = self_attn, src_attn
        self.feed_forward = feed_forward
        self.sublayer = clones(SublayerConnection(size, dropout), 3)

    def forward(
        self, x: Tensor, memory: Tensor, src_mask: Tensor, tgt_mask: Tensor
    ) -> Tensor:
        x = self.sublayer[0](x, lambda y: self.self_attn(y, y, y, tgt_mask))
        x = self.sublayer[1](x, lambda y: self.src_attn(y, memory, memory, src_mask))
        return self.sublayer[2](x, self.feed_forward)


class NormFirstDecoder(NormFirstEncoder):
    """C's Decoder: the same, of layers that are given a memory and two masks, too."""


class Generator(nn.Module):
    """States (…, d_model) -> log-probabilities (…, vocab).

    A cross-entropy may take them for logits: their log-sum-exp is 0 already.
    """

    def __init__(self, d_model: int, vocab: int):
        super().__init__()
        self.proj = nn.Linear(d_model, vocab)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x).log_softmax(dim=-1)


class EncoderDecoder(nn.Module):
    """Encoder, decoder, embeddings and generator, all given; masks by the caller.

    forward gives states (batch, target_length, d_model): `generator` is held here but
    applied outside.
    """

    def __init__(
        self,
        encoder: nn.Module,
        decoder: nn.Module,
        src_embed: nn.Module,
        tgt_embed: nn.Module,
        generator: nn.Module,
    ):
        super().__init__()
        self.encoder, self.decoder = encoder, decoder
        self.src_embed, self.tgt_embed = src_embed, tgt_embed
        self.generator = generator

    def forward(
        self, src: Tensor, tgt: Tensor, src_mask: Tensor, tgt_mask: Tensor
    ) -> Tensor:
        return self.decode(self.encode(src, src_mask), src_mask, tgt, tgt_mask)

    def encode(self, src: Tensor, src_mask: Tensor) -> Tensor:
        return self.encoder(self.src_embed(src), src_mask)

    def decode(
        self, memory: Tensor, src_mask: Tensor, tgt: Tensor, tgt_mask: Tensor
    ) -> Tensor:
        return self.decoder(self.tgt_embed(tgt), memory, src_mask, tgt_mask)


# -- both, joined to the course --------------------------------------------------------


def make_src_mask(src: Tensor) -> Tensor:
    """(batch, length) -> (batch, 1, length), False where src is PAD."""
    return (src != PAD).unsqueeze(1)


def make_tgt_mask(tgt: Tensor) -> Tensor:
    """(batch, length) -> (batch, length, length), False for PAD and what is later."""
    return make_src_mask(tgt) & subsequent_mask(tgt.size(1)).to(tgt.device)


class AnnotatedTranslator(Translator):
    """An EncoderDecoder with the interface of `helpers.transformer.Transformer`."""

    def __init__(self, model: EncoderDecoder, config: TransformerConfig):
        super().__init__()
        self.model, self.config = model, config

    def read(self, source: Tensor) -> Tensor:
        return self.model.encode(source, make_src_mask(source))

    def write(self, tokens: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        masks = make_src_mask(source), make_tgt_mask(tokens)
        return self.model.decode(memory, masks[0], tokens, masks[1])

    def project(self, states: Tensor) -> Tensor:
        """States (…, d_model) -> logits (…, target_vocab), normalised ones from C."""
        return self.model.generator(states)

    def attention_maps(self, source: Tensor, target: Tensor) -> dict[str, list[Tensor]]:
        """What the attentions keep."""
        self(source, target)
        encoder, decoder = self.model.encoder.layers, self.model.decoder.layers
        return {
            "encoder": [layer.self_attn.attn for layer in encoder],
            "decoder": [layer.self_attn.attn for layer in decoder],
            "cross": [layer.src_attn.attn for layer in decoder],
        }


def frame_model(config: TransformerConfig) -> AnnotatedTranslator:
    """C as a whole, its clones drawn anew: they would start equal."""
    d_model, dropout = config.d_model, config.dropout
    attn = MultiHeadedAttention(config.n_heads, d_model, dropout)
    feed_forward = PositionwiseFeedForward(d_model, config.d_ff, dropout)
    positions = PositionalEncoding(
        d_model, dropout=dropout, max_length=config.max_length
    )
    # Clones copy what they are given; only the decoder's two need a copy made here.
    encoder_layer = NormFirstEncoderLayer(d_model, attn, feed_forward, dropout)
    decoder_layer = NormFirstDecoderLayer(
        d_model, attn, copy.deepcopy(attn), feed_forward, dropout
    )
    model = EncoderDecoder(
        NormFirstEncoder(encoder_layer, config.n_layers),
        NormFirstDecoder(decoder_layer, config.n_layers),
        nn.Sequential(Embeddings(d_model, config.source_vocab), positions),
        nn.Sequential(Embeddings(d_model, config.target_vocab), positions),
        Generator(d_model, config.target_vocab),
    )
    for parameter in model.parameters():
        # Embeddings, too: with the deviation 1 that PyTorch gives them A learns slowly.
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    return AnnotatedTranslator(model, config)


def parts_model(config: TransformerConfig) -> AnnotatedTranslator:
    """A as a whole: its parts in C's frame without last norms, and plain logits."""
    translator = frame_model(config)
    model = translator.model
    model.encoder.norm, model.decoder.norm = nn.Identity(), nn.Identity()
    model.generator = model.generator.proj
    return translator
