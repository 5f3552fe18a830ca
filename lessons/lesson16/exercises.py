"""The exercises of lesson 16: loud or silent, and a stranger's attention repaired."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from helpers.exercise import Exercise, Probe, Wrong, choose
from lessons.lesson16.readings import printed
from lessons.lesson16.readings.lengths import RepairedAttention

# ------------------------------------------------------------- 16.1 loud or silent

loud_or_silent = partial(
    choose,
    due={
        "d_k, d_v, n_heads = self.d_k, self.d_v, self.n_head": "loud",
        "residual = q": "silent",
        "scores.masked_fill(attn_mask == 0, -1e9)": "silent",
        "context = context.permute(0, 2, 1, 3).view(…)": "loud",
        "self.dropout = nn.Dropout(p=dropout)": "silent",
    },
    choices={
        "loud": "it runs. But does any line use what it makes?",
        "silent": "it stops. Is every name set before? Can `view` read these numbers?",
    },
)


# ------------------------------------------------------------- 16.2 the repair


def _attends(
    seed: int,
    shape: tuple[int, int, int],
    sizes: tuple[int, int],
    mask: Tensor | None = None,
    *,
    dropout: float = 0.0,
    **said: Any,
) -> Probe:
    """D's arguments of shape (batch, queries, keys); sizes: model_dim, num_heads."""
    (batch, queries, keys), chance = shape, torch.Generator().manual_seed(seed)
    key, value = torch.randn(2, batch, keys, sizes[0], generator=chance)
    query = torch.randn(batch, queries, sizes[0], generator=chance)
    given = [key, value, query] if mask is None else [key, value, query, mask]
    return Probe(*given, build=lambda kind: kind(*sizes, dropout=dropout), **said)


def _lengths(*lengths: int, queries: int) -> Tensor:
    """D's mask (batch, queries, keys), True from each sentence's length on."""
    hidden = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
    return hidden[:, None].expand(-1, queries, -1).clone()


ONE_KEY = ~torch.eye(4, dtype=torch.bool)[[2, 0, 3, 3, 1]][None]  # of 4, for 5 queries
BLIND = _lengths(4, 2, queries=3)
BLIND[1, 2] = True


def _read(output: Any, *given: Tensor) -> Any:
    """What is compared: of a query that sees nothing, only that it is a number."""
    blind = given[3].all(dim=-1) if len(given) > 3 else torch.zeros(0)
    if not blind.any():
        return output
    context, weights = output
    if context.isnan().any() or weights.isnan().any():
        raise Wrong(
            "NaN: a softmax over scores that are all −∞ divides 0 by 0. Hide with the "
            "lowest number of the type, `torch.finfo(attention.dtype).min`"
        )
    rows = blind.repeat_interleave(len(weights) // len(blind), dim=0)
    return context * ~blind[..., None], weights * ~rows[..., None]


class _JoinedByView(RepairedAttention):
    join_heads = printed.CutByView.join_heads


class _CutByViewOnly(RepairedAttention):
    fold_heads = printed.CutByView.fold_heads


# Each probe shows one slip and hides those that come later. With dropout=1, all weights
# are 0 and the residual connection alone is left, so both places of dropout show
# without chance. With one head, `view`, `repeat` and the scale are right; with one key
# to see, no scale matters; with one sentence, `repeat` is right.
repaired_attention = Exercise(
    RepairedAttention,
    [
        _attends(
            *(7, (2, 3, 4), (12, 2)),
            dropout=1.0,
            training=True,
            praise="dropout, residual connection and norm",
            when="in training mode with dropout=1, where the weights become 0 and the "
            "output is `layer_norm(query)`: ",
        ),
        _attends(
            *(1, (2, 3, 4), (6, 1)),
            when="with one head of six features (scale 1/√6) and no mask: ",
        ),
        _attends(
            *(2, (2, 3, 4), (10, 1), _lengths(4, 2, queries=3)),
            praise="one head: True hides",
            when="with one head and a mask: ",
        ),
        _attends(
            *(3, (1, 5, 4), (12, 2), ONE_KEY),
            praise="two heads, one key to see: heads hold features, not positions",
            when="with two heads, where each query sees one key: ",
        ),
        _attends(
            *(4, (1, 5, 3), (24, 3)),
            praise="three heads, all keys: the scale",
            when="with three heads of eight features (scale 1/√8) and no mask: ",
        ),
        _attends(
            *(5, (3, 4, 6), (16, 2), _lengths(6, 3, 1, queries=4)),
            praise="three sentences of different lengths: each head has its own mask",
            when="with sentences of different lengths: ",
        ),
        _attends(
            *(6, (2, 3, 4), (8, 2), BLIND),
            praise="a query that sees nothing: no NaN",
            when="with a query that sees nothing: ",
        ),
    ],
    {
        "`view` cuts the sentence into pieces: it takes the numbers as they lie, word "
        "by word. Take the heads apart, then transpose: (batch, length, heads, "
        "dim_per_head), `transpose(1, 2)`, and fold": printed.CutByView,
        "the heads are joined right, and cut by `view` alone: transpose there, too": (
            _CutByViewOnly
        ),
        "the heads are cut right, and joined by `view` alone: transpose back first": (
            _JoinedByView
        ),
        "the scale is still the printed one: `key.size(-1)` is the size of one head "
        "already": printed.ScaledAsPrinted,
        "a sentence gets another sentence's mask: the folded rows are sentence 0's "
        "heads, then sentence 1's, so `repeat_interleave(num_heads, dim=0)`": (
            printed.MaskRepeated
        ),
    },
    results=("output", "attention"),
    read=_read,
    lesson="16",
)
