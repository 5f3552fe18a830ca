"""Broken Transformers, each with one fault as somebody would make it (lesson 15).

A mutant derives from the course's own class, or is a function that damages a model.
Beside its fault stand the property checks that see it, exactly these; where none
stands, no property tells the model from a sound one.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from helpers.attention import MultiHeadAttention
from helpers.encoder import Encoder
from helpers.layers import FeedForward, Residual
from helpers.masks import causal_mask, padding_mask
from helpers.positions import PositionalEncoding
from helpers.transformer import Transformer
from lessons.lesson15.breaking import MUTANTS, mutant

__all__ = ["MUTANTS"]  # filled from here on


class OpenAttention(MultiHeadAttention):
    """Multi-head attention taken apart, so that one step at a time can be broken."""

    def attend(self, query, key_heads, value_heads, mask=None):
        if mask is None:  # nothing is hidden
            mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=query.device)
        query_heads = self.split_heads(self.query_projection(query))
        scores = self.scale(query_heads @ key_heads.transpose(-2, -1))
        weights = self.weigh(scores, mask)
        if self.observer is not None:
            self.observer(weights)
        context = self.mix(weights, key_heads, value_heads)
        return self.output_projection(self.join_heads(context))

    def scale(self, scores):
        return scores / math.sqrt(self.query_projection.out_features // self.n_heads)

    def weigh(self, scores, mask, dim=-1):
        return scores.masked_fill(~mask, self.hidden(scores)).softmax(dim)

    def hidden(self, scores):
        return torch.finfo(scores.dtype).min

    def mix(self, weights, keys, values):
        return weights @ values

    def join_heads(self, context):
        return context.transpose(1, 2).flatten(2)


# --- The axes are mixed up, and every shape is right ----------------------------------


@mutant("heads split by view alone", "padding invariant", "steps equal parallel")
class ViewedHeads(OpenAttention):
    """Two axes are wanted in another order; view only cuts the rows anew."""

    def split_heads(self, x):
        return x.reshape(len(x), self.n_heads, x.size(1), -1)

    def join_heads(self, context):
        return context.reshape(len(context), context.size(2), -1)


@mutant(
    *("softmax over the queries", "causal", "padding invariant"),
    *("steps equal parallel", "attention is sound"),
)
class QueriesCompete(OpenAttention):
    """dim=-2 for dim=-1: the shape stays, the rows no longer sum to 1."""

    def weigh(self, scores, mask):
        return super().weigh(scores, mask, dim=-2)


@mutant(
    "masks repeated in another order than heads",
    "independent of neighbours",
    "attention is sound",
)
class MixedUpMasks(OpenAttention):
    """Heads are folded into the batch, sentence by sentence; masks round by round."""

    def weigh(self, scores, mask):
        folded = scores.flatten(0, 1)  # row i·heads + h is head h of sentence i
        mask = mask[:, 0].expand(len(scores), *scores.shape[2:])
        mask = mask.repeat(self.n_heads, 1, 1)  # row h·batch + i is sentence i
        return super().weigh(folded, mask).view_as(scores)


@mutant("batch and length swapped", "independent of neighbours", "attention is sound")
class LengthFirst(Encoder):
    """Batch-first sentences in an encoder that expects (length, batch, d_model)."""

    def forward(self, x, mask=None):
        nothing_hidden = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=x.device)
        return super().forward(x.transpose(0, 1), nothing_hidden).transpose(0, 1)


# --- What is hidden, and what is not --------------------------------------------------


FUTURE_SEEN = "causal", "steps equal parallel", "attention is sound"


@mutant("no causal mask", *FUTURE_SEEN)
class SeesTheFuture(Transformer):
    """The decoder's mask hides the padding and forgets the future."""

    def decode(self, target, memory, source):
        x = self.positions(self.target_embedding(target))
        return self.decoder(x, memory, padding_mask(target), padding_mask(source))


@mutant("causal mask one place too wide", *FUTURE_SEEN)
class SeesOneAhead(Transformer):
    """tril(1) for tril(): the diagonal above, where the answer stands, is open."""

    def decode(self, target, memory, source):
        x = self.positions(self.target_embedding(target))
        ones = torch.ones(target.size(1), target.size(1), dtype=torch.bool)
        mask = padding_mask(target) & ones.tril(1).to(target.device)
        return self.decoder(x, memory, mask, padding_mask(source))


@mutant("no padding mask in cross-attention", "padding invariant", "attention is sound")
class SeesPadding(Transformer):
    """The memory of padding is read as words are."""

    def decode(self, target, memory, source):
        everything = torch.ones_like(source)
        return super().decode(target, memory, everything)


@mutant("a causal mask of fixed size", "length generic")
class FixedMask(Transformer):
    """The mask is made once, for the longest sentence seen so far."""

    def decode(self, target, memory, source):
        mask = causal_mask(16)[..., : target.size(1), : target.size(1)]
        x = self.positions(self.target_embedding(target))
        mask = padding_mask(target) & mask.to(target.device)
        return self.decoder(x, memory, mask, padding_mask(source))


# --- The right shapes, other numbers --------------------------------------------------


@mutant("no positions in the encoder", "order aware")
class NoPositions(Transformer):
    """The positions are made, and the line that adds them is missing."""

    def encode(self, source):
        return self.encoder(self.source_embedding(source), padding_mask(source))


@mutant("positions restart with the cache", "steps equal parallel")
class RestartingPositions(PositionalEncoding):
    """With a cache every new token is told that it is the first."""

    def forward(self, embedded, *, start=0):
        return super().forward(embedded)


@mutant("dropout stays on in eval mode", "same twice")
class AlwaysDropping(FeedForward):
    """F.dropout is a function: unless it is told, it drops in eval mode too."""

    def forward(self, x):
        return super().forward(F.dropout(x, 0.1))


@mutant("scaled after the softmax", "attention is sound")
class ScaledTooLate(OpenAttention):
    """The weights are divided by √d_head, not the scores."""

    def scale(self, scores):
        return scores

    def weigh(self, scores, mask):
        return super().scale(super().weigh(scores, mask))


@mutant("weights applied to the keys", "all parameters learn")
class MixesKeys(OpenAttention):
    """softmax(QKᵀ) K: it runs, as keys and values have the same shape."""

    def mix(self, weights, keys, values):
        return weights @ keys


@mutant(
    *("the memory is ignored", "order aware", "attention is sound"),
    *("all parameters learn", "overfits one batch"),
)
class ReadsItself(Transformer):
    """One name for two things: the decoder is handed its own input as memory."""

    def decode(self, target, memory, source):
        memory = self.positions(self.target_embedding(target[:, :1]))
        first = torch.ones_like(target[:, :1])
        return super().decode(target, memory, first)


@mutant("the residual taken and never added", "overfits one batch")
class NothingAdded(Residual):
    """The input is kept under a name of its own, and that name is not used again."""

    def forward(self, x, sublayer):
        residual = x  # noqa: F841
        return self.dropout(sublayer(self.norm(x)))


@mutant("the projection starts loud", "initial loss")
def loud_projection(model):
    """A matrix with PyTorch's initialisation of an embedding, N(0, 1)."""
    nn.init.normal_(model.projection.weight)


@mutant("the positional table is no buffer", "state moves")
def plain_table(model):
    """`self.table = table` where register_buffer belongs."""
    table = model.positions.table
    del model.positions.table
    model.positions.table = table


@mutant("the layers in a plain list", "state moves")
def listed_layers(model):
    """`self.layers = [EncoderLayer(…), …]` where nn.ModuleList belongs."""
    layers = [*model.encoder.layers]
    del model.encoder.layers
    model.encoder.layers = layers


@mutant("hidden scores filled with -1e9", "finite in half precision")
class MinusABillion(OpenAttention):
    """Far below any score, and far below what 16 bits can hold."""

    def hidden(self, scores):
        return -1e9


@mutant("hidden scores filled with -inf", "finite without source")
class MinusInfinity(OpenAttention):
    """It hides well as long as one key is left: a softmax over nothing is NaN."""

    def hidden(self, scores):
        return -math.inf


# --- No property tells them from sound ones -------------------------------------------


@mutant("no scale")
class Unscaled(OpenAttention):
    """The scores go into the softmax as they are."""

    def scale(self, scores):
        return scores


@mutant("heads interleaved")
class InterleavedHeads(OpenAttention):
    """Head h takes every n_heads-th feature, and the join puts them back there."""

    def split_heads(self, x):
        return x.unflatten(2, (-1, self.n_heads)).permute(0, 3, 1, 2)

    def join_heads(self, context):
        return context.permute(0, 2, 3, 1).flatten(2)


@mutant("one layer, listed twice")
def shared_layers(model):
    """`nn.ModuleList([layer] * n_layers)`: the same layer, and not a copy of it."""
    for stack in (model.encoder, model.decoder):
        stack.layers = nn.ModuleList([stack.layers[0]] * len(stack.layers))
