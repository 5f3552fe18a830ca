"""The exercise of lesson 04: multi-head attention, and mistakes that learners make."""

from typing import Any

import torch
from torch import Tensor

from helpers.attention import MultiHeadAttention, attention
from helpers.exercise import Exercise, Probe
from helpers.masks import causal_mask, padding_mask


class _Split(MultiHeadAttention):
    def split_heads(self, x):
        return x.reshape(len(x), self.n_heads, x.size(1), -1)


class _Join(MultiHeadAttention):
    def attend(self, query, key_heads, value_heads, mask=None):
        query_heads = self.split_heads(self.query_projection(query))
        context, _ = attention(query_heads, key_heads, value_heads, mask)
        return self.finish(context)

    def finish(self, context):
        joined = context.reshape(len(context), context.size(2), -1)
        return self.output_projection(joined)


class _Both(_Split, _Join):
    pass


class _NoOutput(_Join):
    def finish(self, context):
        return context.transpose(1, 2).flatten(2)


def _probe(
    heads: int,
    d_head: int,
    queries: int,
    keys: int,
    mask: Tensor | None,
    batch: int = 3,
    **more: Any,
) -> Probe:
    """Some sentences; the keys are no values, so that none stands for the other."""
    chance = torch.Generator().manual_seed(keys)
    query, key, value = (
        torch.randn(batch, length, heads * d_head, generator=chance)
        for length in (queries, keys, keys)
    )
    masks = [] if mask is None else [mask]
    return Probe(
        query, key, value, *masks, build=lambda x: x(heads * d_head, heads), **more
    )


PADDED = torch.tensor([[5, 6, 7], [5, 6, 0], [0, 0, 0]])
TWO_STEPS = "`unflatten(2, (n_heads, -1))`, then `transpose(1, 2)`"
multi_head_attention = Exercise(
    MultiHeadAttention,
    [
        _probe(3, 4, 5, 5, None, praise="the course's numbers"),
        _probe(4, 2, 2, 6, None, when="where query and key have other lengths: "),
        _probe(2, 3, 1, 4, None, batch=1, when="for one query of one sentence: "),
        _probe(
            *(2, 5, 4, 4, causal_mask(4)),
            praise="with a causal mask, too",
            when="with a causal mask, in training mode (is it handed on?): ",
            training=True,
        ),
        _probe(
            *(2, 3, 2, 3, padding_mask(PADDED)),
            praise="a sentence of padding alone gets a context of 0",
            when="with a padding mask, and a sentence of padding alone: ",
        ),
        _probe(
            *(2, 4, 3, 5, torch.arange(90).view(3, 2, 3, 5) % 7 > 2),
            praise="a mask of its own for each head",
            when="with a mask of its own for each head: ",
        ),
    ],
    {
        f"the heads are split without a transpose, so that a row mixes tokens: "
        f"{TWO_STEPS}": _Split,
        "the heads are joined without a transpose, so that a row mixes tokens: "
        "`transpose(1, 2)`, then `flatten(2)`": _Join,
        f"split and join both lack a transpose, so that a head sees a block of the "
        f"sentence: {TWO_STEPS}; then back, `transpose(1, 2)`, `flatten(2)`": _Both,
        "the output projection is missing: it mixes what the heads found": _NoOutput,
    },
    attributes=("n_heads",),
    lesson="04",
)
