"""Reading D: the long tutorial, whose sequences come with their lengths (lesson 16).

Its conventions: arguments in the order key, value, query; a mask is
(batch, query_length, key_length), True = hidden; residual connection and norm are
inside the sublayers, norm last; every module returns what it attended to, with the
heads folded into the batch: (batch × heads, query_length, key_length). Lengths are
(batch, 1), padding stands on the right. Here attention is called self-attention or
context attention, the latter from the decoder to the encoder.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD
from helpers.positions import positional_encoding
from helpers.transformer import TransformerConfig
from lessons.lesson16.readings.interface import Translator


def hidden_padding_mask(seq_k: Tensor, seq_q: Tensor) -> Tensor:
    """(batch, query_length, key_length), True where a key is PAD."""
    return (seq_k == PAD).unsqueeze(1).expand(-1, seq_q.size(1), -1)


def hidden_sequence_mask(seq: Tensor) -> Tensor:
    """(batch, length, length), True where a key is later than the query."""
    batch, length = seq.shape
    ones = torch.ones(length, length, dtype=torch.bool, device=seq.device)
    return ones.triu(diagonal=1).expand(batch, -1, -1)


def residual(sublayer_fn: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """sublayer_fn(x) + x."""
    return sublayer_fn(x) + x


class BatchedDotProductAttention(nn.Module):
    """softmax(q kᵀ · scale) v on three axes, heads folded into the first.

    q (rows, query_length, d), k and v (rows, key_length, d), attn_mask True = hidden
    -> context (rows, query_length, d), weights (rows, query_length, key_length). A
    query whose keys are all hidden attends to all of them alike.
    """

    def __init__(self, attention_dropout: float = 0.0):
        super().__init__()
        self.dropout = nn.Dropout(attention_dropout)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        scale: float | None = None,
        attn_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        scores = torch.bmm(q, k.transpose(1, 2))
        if scale is not None:
            scores = scores * scale
        if attn_mask is not None:
            # With -inf a row that is hidden as a whole becomes NaN.
            scores = scores.masked_fill(attn_mask, torch.finfo(scores.dtype).min)
        attention = self.dropout(scores.softmax(dim=2))
        return torch.bmm(attention, v), attention


class RepairedAttention(nn.Module):
    """LayerNorm(query + Dropout(multi-head attention)): the whole sublayer.

    key and value (batch, key_length, model_dim), query (batch, query_length,
    model_dim), attn_mask (batch, query_length, key_length), True = hidden -> output
    (batch, query_length, model_dim) and attention (batch × heads, query_length,
    key_length). Reading D, "Multi-head attention", where it is MultiHeadAttention.
    """

    def __init__(self, model_dim: int = 512, num_heads: int = 8, dropout: float = 0.0):
        super().__init__()
        if model_dim % num_heads:
            raise ValueError(f"{model_dim=} is not divisible by {num_heads=}")
        self.num_heads, self.dim_per_head = num_heads, model_dim // num_heads
        self.scale = self.dim_per_head**-0.5
        self.linear_k = nn.Linear(model_dim, model_dim)
        self.linear_v = nn.Linear(model_dim, model_dim)
        self.linear_q = nn.Linear(model_dim, model_dim)
        self.dot_product_attention = BatchedDotProductAttention(dropout)
        self.linear_final = nn.Linear(model_dim, model_dim)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(model_dim)

    def forward(
        self, key: Tensor, value: Tensor, query: Tensor, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        k, v = self.linear_k(key), self.linear_v(value)
        q, k, v = map(self.fold_heads, (self.linear_q(query), k, v))
        mask = None if attn_mask is None else self.mask_of_heads(attn_mask)
        context, attention = self.dot_product_attention(q, k, v, self.scale, mask)
        output = self.dropout(self.linear_final(self.join_heads(context)))
        return self.layer_norm(query + output), attention

    def fold_heads(self, x: Tensor) -> Tensor:  # (batch × heads, length, dim_per_head)
        x = x.unflatten(2, (self.num_heads, self.dim_per_head))
        return x.transpose(1, 2).flatten(0, 1)

    def join_heads(self, x: Tensor) -> Tensor:  # (batch, length, model_dim)
        return x.unflatten(0, (-1, self.num_heads)).transpose(1, 2).flatten(2)

    def mask_of_heads(self, mask: Tensor) -> Tensor:  # sentence 0's heads come first
        return mask.repeat_interleave(self.num_heads, dim=0)


class PositionalWiseFeedForward(nn.Module):
    """LayerNorm(x + Dropout(two convolutions of width 1)): the whole sublayer.

    (batch, length, model_dim) -> the same; a convolution's channels come second.
    """

    def __init__(self, model_dim: int = 512, ffn_dim: int = 2048, dropout: float = 0.0):
        super().__init__()
        self.w1 = nn.Conv1d(model_dim, ffn_dim, 1)
        self.w2 = nn.Conv1d(ffn_dim, model_dim, 1)
        self.dropout = nn.Dropout(dropout)
        self.layer_norm = nn.LayerNorm(model_dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer_norm(residual(self.convolve, x))

    def convolve(self, x: Tensor) -> Tensor:
        output = self.w2(F.relu(self.w1(x.transpose(1, 2))))
        return self.dropout(output.transpose(1, 2))


class LengthPositions(nn.Module):
    """Sinusoids for the positions of a sequence, and zeros for its padding.

    input_len (batch, 1) -> (batch, padded_len, d_model); without a padded_len it is the
    largest length. Row 0 of the table is the padding's, row p + 1 that of position p.
    """

    def __init__(self, d_model: int, max_seq_len: int):
        super().__init__()
        table = F.pad(positional_encoding(max_seq_len, d_model), (0, 0, 1, 0))
        self.register_buffer("position_encoding", table)

    def forward(self, input_len: Tensor, padded_len: int | None = None) -> Tensor:
        if padded_len is None:
            padded_len = int(input_len.max())
        longest = self.position_encoding.size(0) - 1
        if padded_len > longest:
            raise ValueError(
                f"the sequence is {padded_len} tokens long, the positional table "
                f"{longest}"
            )
        row = torch.arange(1, padded_len + 1, device=input_len.device)
        row = torch.where(row <= input_len.view(-1, 1), row, 0)
        return self.position_encoding[row]


class SequenceEmbedding(nn.Module):
    """Word embeddings times √model_dim plus positions; a vector of zeros for padding.

    inputs (batch, length), inputs_len (batch, 1) -> (batch, length, model_dim). D has
    vocab_size + 1 rows, too; where PAD is counted, the last one is never read.
    """

    def __init__(self, vocab_size: int, max_seq_len: int, model_dim: int):
        super().__init__()
        # PyTorch's deviation of 1, times √model_dim, is far above the sinusoids.
        weight = torch.randn(vocab_size + 1, model_dim) * model_dim**-0.5
        weight[PAD] = 0.0
        self.seq_embedding = nn.Embedding.from_pretrained(
            weight, freeze=False, padding_idx=PAD
        )
        self.pos_embedding = LengthPositions(model_dim, max_seq_len)

    def forward(self, inputs: Tensor, inputs_len: Tensor) -> Tensor:
        words = self.seq_embedding(inputs) * math.sqrt(self.seq_embedding.embedding_dim)
        return words + self.pos_embedding(inputs_len, inputs.size(1))


class SelfAttentionLayer(nn.Module):
    """D's EncoderLayer: (batch, length, model_dim) -> the same, and attention."""

    def __init__(self, model_dim: int, num_heads: int, ffn_dim: int, dropout: float):
        super().__init__()
        self.attention = RepairedAttention(model_dim, num_heads, dropout)
        self.feed_forward = PositionalWiseFeedForward(model_dim, ffn_dim, dropout)

    def forward(
        self, inputs: Tensor, attn_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        context, attention = self.attention(inputs, inputs, inputs, attn_mask)
        return self.feed_forward(context), attention


class ContextAttentionLayer(nn.Module):
    """D's DecoderLayer, whose two attentions have weights of their own.

    dec_inputs (batch, target_length, model_dim), enc_outputs (batch, source_length,
    model_dim) -> output like dec_inputs, and both attentions.
    """

    def __init__(self, model_dim: int, num_heads: int, ffn_dim: int, dropout: float):
        super().__init__()
        self.self_attention = RepairedAttention(model_dim, num_heads, dropout)
        self.context_attention = RepairedAttention(model_dim, num_heads, dropout)
        self.feed_forward = PositionalWiseFeedForward(model_dim, ffn_dim, dropout)

    def forward(
        self,
        dec_inputs: Tensor,
        enc_outputs: Tensor,
        self_attn_mask: Tensor | None = None,
        context_attn_mask: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        output, self_attention = self.self_attention(
            dec_inputs, dec_inputs, dec_inputs, self_attn_mask
        )
        output, context_attention = self.context_attention(
            enc_outputs, enc_outputs, output, context_attn_mask
        )
        return self.feed_forward(output), self_attention, context_attention


class LengthEncoder(nn.Module):
    """D's Encoder: inputs (batch, length), lengths -> output, a list of attentions.

    sizes are those of a layer.
    """

    def __init__(self, vocab_size: int, max_seq_len: int, num_layers: int, *sizes: Any):
        super().__init__()
        self.embedding = SequenceEmbedding(vocab_size, max_seq_len, sizes[0])
        self.encoder_layers = nn.ModuleList(
            SelfAttentionLayer(*sizes) for _ in range(num_layers)
        )

    def forward(
        self, inputs: Tensor, inputs_len: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        output = self.embedding(inputs, inputs_len)
        mask = hidden_padding_mask(inputs, inputs)
        attentions = []
        for layer in self.encoder_layers:
            output, attention = layer(output, mask)
            attentions.append(attention)
        return output, attentions


class LengthDecoder(nn.Module):
    """D's Decoder: -> output, self-attentions, context attentions, one a layer.

    sizes are those of a layer.
    """

    def __init__(self, vocab_size: int, max_seq_len: int, num_layers: int, *sizes: Any):
        super().__init__()
        self.embedding = SequenceEmbedding(vocab_size, max_seq_len, sizes[0])
        self.decoder_layers = nn.ModuleList(
            ContextAttentionLayer(*sizes) for _ in range(num_layers)
        )

    def forward(
        self,
        inputs: Tensor,
        inputs_len: Tensor,
        enc_output: Tensor,
        context_attn_mask: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        output = self.embedding(inputs, inputs_len)
        mask = hidden_padding_mask(inputs, inputs) | hidden_sequence_mask(inputs)
        self_attentions, context_attentions = [], []
        for layer in self.decoder_layers:
            output, self_attention, context_attention = layer(
                output, enc_output, mask, context_attn_mask
            )
            self_attentions.append(self_attention)
            context_attentions.append(context_attention)
        return output, self_attentions, context_attentions


class LengthTransformer(nn.Module):
    """Sequences and their lengths in; probabilities and every attention out.

    src_seq (batch, source_length), src_len (batch, 1), and so on -> (batch,
    target_length, tgt_vocab_size), then three lists: the encoder's, the decoder's self-
    and its context attentions. With softmax=False, logits, which a cross-entropy needs.
    sizes: num_layers, model_dim, num_heads, ffn_dim, dropout.
    """

    def __init__(
        self,
        src_vocab_size: int,
        src_max_len: int,
        tgt_vocab_size: int,
        tgt_max_len: int,
        *sizes: Any,
        softmax: bool = True,
    ):
        super().__init__()
        self.encoder = LengthEncoder(src_vocab_size, src_max_len, *sizes)
        self.decoder = LengthDecoder(tgt_vocab_size, tgt_max_len, *sizes)
        self.linear = nn.Linear(sizes[1], tgt_vocab_size, bias=False)
        self.softmax = nn.Softmax(dim=-1) if softmax else nn.Identity()

    def forward(
        self, src_seq: Tensor, src_len: Tensor, tgt_seq: Tensor, tgt_len: Tensor
    ) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
        output, enc_self_attn = self.encoder(src_seq, src_len)
        output, dec_self_attn, ctx_attn = self.decoder(
            tgt_seq, tgt_len, output, hidden_padding_mask(src_seq, tgt_seq)
        )
        output = self.softmax(self.linear(output))
        return output, enc_self_attn, dec_self_attn, ctx_attn


class LengthsTranslator(Translator):
    """A LengthTransformer with the interface of `helpers.transformer.Transformer`.

    The lengths follow from PAD.
    """

    def __init__(self, model: LengthTransformer, config: TransformerConfig):
        super().__init__()
        self.model, self.config = model, config

    def read(self, source: Tensor) -> Tensor:
        return self.model.encoder(source, sequence_lengths(source))[0]

    def write(self, tokens: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        mask = hidden_padding_mask(source, tokens)
        return self.model.decoder(tokens, sequence_lengths(tokens), memory, mask)[0]

    def project(self, states: Tensor) -> Tensor:
        """States (…, d_model) -> logits (…, target_vocab), or what `softmax` makes."""
        return self.model.softmax(self.model.linear(states))

    def attention_maps(self, source: Tensor, target: Tensor) -> dict[str, list[Tensor]]:
        """What the model returns beside its output, its heads unfolded."""
        lengths = sequence_lengths(source), sequence_lengths(target)
        _, *kinds = self.model(source, lengths[0], target, lengths[1])
        heads = self.config.n_heads
        return {
            kind: [weights.unflatten(0, (-1, heads)) for weights in maps]
            for kind, maps in zip(("encoder", "decoder", "cross"), kinds, strict=True)
        }


def sequence_lengths(seq: Tensor) -> Tensor:
    """(batch, length) -> (batch, 1): how many tokens are not PAD."""
    return (seq != PAD).sum(dim=1, keepdim=True)


def lengths_model(
    config: TransformerConfig, *, softmax: bool = False
) -> LengthsTranslator:
    """Reading D as a whole; without the text's softmax, so that it can be trained."""
    c = config
    sizes = c.n_layers, c.d_model, c.n_heads, c.d_ff, c.dropout
    vocabularies = c.source_vocab, c.max_length, c.target_vocab, c.max_length
    model = LengthTransformer(*vocabularies, *sizes, softmax=softmax)
    return LengthsTranslator(model, config)
