"""Reading B: blocks on top of d2l's, completed by a decoder (lesson 16).

Constructors have the text's arguments in its order, without `**kwargs`. Shapes are
(batch, length, num_hiddens). Instead of a mask there are valid_lens, the number of keys
from the left that may be attended to: (batch,) or (batch, query_length). d2l fills
hidden scores with -1e6, which is -inf in float16. Importing this imports d2l: seconds.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from helpers import PAD
from helpers.transformer import TransformerConfig
from lessons.lesson16.d2l import import_d2l
from lessons.lesson16.readings.interface import Translator

d2l = import_d2l()


class PositionWiseFFN(nn.Module):
    """(batch, length, ffn_num_input) -> (batch, length, ffn_num_outputs)."""

    def __init__(self, ffn_num_input: int, ffn_num_hiddens: int, ffn_num_outputs: int):
        super().__init__()
        self.dense1 = nn.Linear(ffn_num_input, ffn_num_hiddens)
        self.relu = nn.ReLU()
        self.dense2 = nn.Linear(ffn_num_hiddens, ffn_num_outputs)

    def forward(self, X: Tensor) -> Tensor:
        return self.dense2(self.relu(self.dense1(X)))


class AddNorm(nn.Module):
    """LayerNorm(X + Dropout(Y)): norm last.

    normalized_shape is what nn.LayerNorm normalises over. The text's examples take
    [length, num_hiddens], which ties the module to one length, and lets a position
    change the others.
    """

    def __init__(self, normalized_shape: int | Sequence[int], dropout: float):
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.ln = nn.LayerNorm(normalized_shape)

    def forward(self, X: Tensor, Y: Tensor) -> Tensor:
        return self.ln(X + self.dropout(Y))


class SteppedPositions(d2l.PositionalEncoding):
    """d2l's sinusoids as a buffer, from position `start` on, for a token at a time."""

    def __init__(self, num_hiddens: int, dropout: float, max_len: int = 1000):
        super().__init__(num_hiddens, dropout, max_len)
        table = self.P
        del self.P
        self.register_buffer("P", table)

    def forward(self, X: Tensor, start: int = 0) -> Tensor:
        end, max_len = start + X.size(1), self.P.size(1)
        if end > max_len:
            raise ValueError(
                f"the sequence is {end} tokens long, the positional table {max_len}"
            )
        return self.dropout(X + self.P[:, start:end])


class EncoderBlock(nn.Module):
    """Self-attention and PositionWiseFFN, each followed by AddNorm."""

    def __init__(
        self,
        key_size: int,
        query_size: int,
        value_size: int,
        num_hiddens: int,
        norm_shape: int | Sequence[int],
        ffn_num_input: int,
        ffn_num_hiddens: int,
        num_heads: int,
        dropout: float,
        use_bias: bool = False,
    ):
        super().__init__()
        sizes = key_size, query_size, value_size, num_hiddens, num_heads
        self.attention = d2l.MultiHeadAttention(*sizes, dropout, use_bias)
        self.addnorm1 = AddNorm(norm_shape, dropout)
        self.ffn = PositionWiseFFN(ffn_num_input, ffn_num_hiddens, num_hiddens)
        self.addnorm2 = AddNorm(norm_shape, dropout)

    def forward(self, X: Tensor, valid_lens: Tensor | None) -> Tensor:
        Y = self.addnorm1(X, self.attention(X, X, X, valid_lens))
        return self.addnorm2(Y, self.ffn(Y))


class TransformerEncoder(d2l.Encoder):
    """ids X (batch, length), valid_lens (batch,) -> (batch, length, num_hiddens).

    `attention_weights` keeps what each block attended to in the last call, a list of
    (batch × num_heads, length, length).
    """

    def __init__(self, vocab_size: int, *sizes: Any, max_len: int = 1000):
        """sizes are an EncoderBlock's, and before its dropout the number of layers."""
        super().__init__()
        *block, num_layers, dropout = sizes
        self.num_hiddens = sizes[3]
        self.embedding = nn.Embedding(vocab_size, self.num_hiddens)
        self.pos_encoding = SteppedPositions(self.num_hiddens, dropout, max_len)
        self.blks = nn.ModuleList(
            EncoderBlock(*block, dropout) for _ in range(num_layers)
        )

    def forward(self, X: Tensor, valid_lens: Tensor | None, *args) -> Tensor:
        X = self.pos_encoding(self.embedding(X) * math.sqrt(self.num_hiddens))
        for blk in self.blks:
            X = blk(X, valid_lens)
        return X

    @property
    def attention_weights(self) -> list[Tensor]:
        return [kept_weights(blk.attention) for blk in self.blks]


class DecoderBlock(nn.Module):
    """Block number i: attention to the past, to the source, PositionWiseFFN.

    X (batch, new_length, num_hiddens) and state [enc_outputs, enc_valid_lens, inputs]
    -> the shape of X, and the state, whose inputs[i] has grown by X. The text breaks
    off after `key_values = X`; the rest is ours.
    """

    def __init__(self, *sizes: Any, i: int):
        """sizes are an EncoderBlock's, without a bias."""
        super().__init__()
        self.i = i
        *widths, norm_shape, ffn_num_input, ffn_num_hiddens, num_heads, dropout = sizes
        self.attention1 = d2l.MultiHeadAttention(*widths, num_heads, dropout)
        self.addnorm1 = AddNorm(norm_shape, dropout)
        self.attention2 = d2l.MultiHeadAttention(*widths, num_heads, dropout)
        self.addnorm2 = AddNorm(norm_shape, dropout)
        self.ffn = PositionWiseFFN(ffn_num_input, ffn_num_hiddens, widths[-1])
        self.addnorm3 = AddNorm(norm_shape, dropout)

    def forward(self, X: Tensor, state: list) -> tuple[Tensor, list]:
        enc_outputs, enc_valid_lens, inputs = state
        start = 0 if inputs[self.i] is None else inputs[self.i].size(1)
        key_values = torch.cat([inputs[self.i], X], dim=1) if start else X
        inputs[self.i] = key_values
        # Query number q, counted from start, sees q + 1 keys. The same for training and
        # prediction: a rule that asks self.training lets eval() look ahead.
        seen = torch.arange(start + 1, key_values.size(1) + 1, device=X.device)
        dec_valid_lens = seen.expand(X.size(0), -1)
        Y = self.addnorm1(X, self.attention1(X, key_values, key_values, dec_valid_lens))
        Z = self.addnorm2(
            Y, self.attention2(Y, enc_outputs, enc_outputs, enc_valid_lens)
        )
        return self.addnorm3(Z, self.ffn(Z)), state


class TransformerDecoder(d2l.AttentionDecoder):
    """ids X (batch, new_length) and a state -> logits (batch, new_length, vocab_size).

    Ours. inputs[i] of a state is what block i has been given so far, or None. Padding
    stands on the right, where only padding can look at it.
    """

    def __init__(
        self,
        vocab_size: int,
        widths: Sequence[int],
        sizes: Sequence,
        num_layers: int,
        max_len: int = 1000,
    ):
        """widths and sizes are a DecoderBlock's first four arguments, and the next."""
        super().__init__()
        self.num_hiddens = widths[-1]
        self.embedding = nn.Embedding(vocab_size, self.num_hiddens)
        self.pos_encoding = SteppedPositions(self.num_hiddens, sizes[-1], max_len)
        self.blks = nn.ModuleList(
            DecoderBlock(*widths, *sizes, i=i) for i in range(num_layers)
        )
        self.dense = nn.Linear(self.num_hiddens, vocab_size)

    def init_state(self, enc_outputs: Tensor, enc_valid_lens: Tensor | None) -> list:
        return [enc_outputs, enc_valid_lens, [None] * len(self.blks)]

    def forward(self, X: Tensor, state: list) -> tuple[Tensor, list]:
        states, state = self.run_blocks(X, state)
        return self.dense(states), state

    def run_blocks(self, X: Tensor, state: list) -> tuple[Tensor, list]:
        """All but the last projection: (batch, new_length, num_hiddens), state."""
        first = state[2][0]
        start = 0 if first is None else first.size(1)
        X = self.embedding(X) * math.sqrt(self.num_hiddens)
        X = self.pos_encoding(X, start)
        for blk in self.blks:
            X, state = blk(X, state)
        return X, state

    @property
    def attention_weights(self) -> tuple[list[Tensor], list[Tensor]]:
        """Of each block's last call: to the target so far, and to the source.

        Each is (batch × num_heads, new_length, key_length).
        """
        return (
            [kept_weights(blk.attention1) for blk in self.blks],
            [kept_weights(blk.attention2) for blk in self.blks],
        )


def kept_weights(attention: nn.Module) -> Tensor:
    """What d2l's MultiHeadAttention keeps: (batch × num_heads, queries, keys)."""
    return attention.attention.attention_weights.detach()


class BlocksTranslator(Translator, d2l.EncoderDecoder):
    """d2l's encoder–decoder, with the interface of `helpers.transformer.Transformer`.

    The valid lengths follow from PAD, which must stand on the right.
    """

    def __init__(
        self,
        encoder: TransformerEncoder,
        decoder: TransformerDecoder,
        config: TransformerConfig,
    ):
        super().__init__(encoder, decoder)
        self.config = config
        self.apply(initialise)

    def read(self, source: Tensor) -> Tensor:
        return self.encoder(source, valid_lengths(source))

    def write(self, tokens: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        state = self.decoder.init_state(memory, valid_lengths(source))
        return self.decoder.run_blocks(tokens, state)[0]

    def start_decoding(self, source: Tensor) -> "StateDecoding":
        """The text's own way to write step by step, for `helpers.decoding`."""
        return StateDecoding(self, source)

    def project(self, states: Tensor) -> Tensor:
        """States (…, d_model) -> logits (…, target_vocab)."""
        return self.decoder.dense(states)

    def attention_maps(self, source: Tensor, target: Tensor) -> dict[str, list[Tensor]]:
        """What the blocks keep, its heads unfolded from the batch."""
        self(source, target)
        kinds = {"encoder": self.encoder.attention_weights}
        kinds["decoder"], kinds["cross"] = self.decoder.attention_weights
        heads = self.config.n_heads
        return {
            kind: [weights.unflatten(0, (-1, heads)) for weights in maps]
            for kind, maps in kinds.items()
        }


class StateDecoding:
    """d2l's state from step to step: what each block has been given so far."""

    def __init__(self, model: BlocksTranslator, source: Tensor):
        self.decoder = model.decoder
        memory = model.encode(source)
        self.state = self.decoder.init_state(memory, valid_lengths(source))

    def step(self, token: Tensor) -> Tensor:
        """The newest token of each row (batch,) -> logits (batch, vocab_size)."""
        logits, self.state = self.decoder(token[:, None], self.state)
        return logits[:, -1]

    def select(self, rows: Tensor) -> None:
        """Keep the given rows of the batch, in their order; rows may repeat."""
        memory, lengths, inputs = self.state
        inputs = [None if x is None else x[rows] for x in inputs]
        self.state = [memory[rows], lengths[rows], inputs]


def valid_lengths(tokens: Tensor) -> Tensor:
    """(batch, length) -> (batch,): how many tokens are not PAD."""
    return (tokens != PAD).sum(dim=1)


def initialise(module: nn.Module) -> None:
    """Xavier's rule for linear layers, as d2l trains; smaller embeddings."""
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=module.embedding_dim**-0.5)


def blocks_model(
    config: TransformerConfig, norm_length: int | None = None
) -> BlocksTranslator:
    """Reading B as a whole.

    norm_length restores the reading's own norm over [length, features], for sequences
    of that length only, on both sides.
    """
    features = [config.d_model]
    norm_shape = features if norm_length is None else [norm_length, *features]
    widths, layers = features * 4, config.n_layers  # of keys, queries, values, the rest
    sizes = norm_shape, config.d_model, config.d_ff, config.n_heads
    longest, dropout = config.max_length, config.dropout
    encoder = TransformerEncoder(
        config.source_vocab, *widths, *sizes, layers, dropout, max_len=longest
    )
    sizes = *sizes, dropout
    decoder = TransformerDecoder(config.target_vocab, widths, sizes, layers, longest)
    return BlocksTranslator(encoder, decoder, config)
