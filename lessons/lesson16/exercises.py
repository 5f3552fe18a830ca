"""The exercises of lesson 16: loud or silent, and a stranger's attention repaired."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from helpers.exercise import UNTRIED, Exercise, Probe
from lessons.lesson16.readings import printed
from lessons.lesson16.readings.lengths import RepairedAttention

# ------------------------------------------------------------- 16.1 loud or silent

SLIPS = {
    "d_k, d_v, n_heads = self.d_k, self.d_v, self.n_head": "loud",
    "residual = q": "silent",
    "scores.masked_fill(attn_mask == 0, -1e9)": "silent",
    "context = context.permute(0, 2, 1, 3).view(…)": "loud",
    "self.dropout = nn.Dropout(p=dropout)": "silent",
}


def loud_or_silent(said: Mapping[str, Any]) -> None:
    """Print for each of E's lines whether it was judged right; never raises."""
    for line, due in SLIPS.items():
        word = said.get(line) if isinstance(said, Mapping) else None
        word = word.strip().casefold() if isinstance(word, str) else word
        if word is None or word is Ellipsis:
            print(UNTRIED, f"`{line}`", sep=": ")
        elif word not in ("loud", "silent"):
            print(f"✗ `{line}`: say loud or silent")
        elif word == due:
            print(f"✓ {due}: `{line}`")
        else:
            print(f"✗ not {word}, with two heads and five queries: `{line}`")


# ------------------------------------------------------------- 16.2 the repair


def _built(*sizes: int, **options: float):
    return lambda kind: kind(*sizes, **options)


def _given(seed: int, batch: int, queries: int, keys: int, d: int) -> list[Tensor]:
    """Key, value and query, in D's order."""
    chance = torch.Generator().manual_seed(seed)
    shapes = (batch, keys, d), (batch, keys, d), (batch, queries, d)
    return [torch.randn(shape, generator=chance) for shape in shapes]


def _lengths(*lengths: int, queries: int) -> Tensor:
    """D's mask (batch, queries, keys), True from each sentence's length on."""
    hidden = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
    return hidden[:, None].expand(-1, queries, -1).clone()


ONE_KEY = ~torch.eye(4, dtype=torch.bool)[[2, 0, 3, 3, 1]][None]  # of 4, for 5 queries
BLIND = _lengths(4, 2, queries=3)
BLIND[1, 2] = True


def _finite(output: Any, *given: Tensor) -> Any:
    """What is compared: of a query that sees nothing, only that it is a number."""
    sees = torch.ones(given[2].shape[:2]) if len(given) < 4 else (~given[3]).any(-1)
    if not isinstance(output, list | tuple) or len(output) != 2:
        return output
    context, weights = output
    if not (isinstance(context, Tensor) and isinstance(weights, Tensor)):
        return output
    rows = sees.repeat_interleave(max(1, len(weights) // len(sees)), dim=0)
    if context.shape[:2] != sees.shape or weights.shape[:2] != rows.shape:
        return output
    return context * sees[..., None], weights * rows[..., None]


def _drops_out(module: nn.Module) -> str:
    """What is wrong with a module in training mode: with dropout, two runs differ."""
    if module.linear_q.in_features != 24:
        return ""
    given = _given(0, 2, 3, 4, 24)
    runs = [module(*given) for _ in range(2)]
    same = all(isinstance(run, list | tuple) for run in runs) and torch.equal(
        runs[0][0], runs[1][0]
    )
    return "with dropout=0.3, two runs in training mode are equal" if same else ""


class _JoinedByView(RepairedAttention):
    join_heads = printed.CutByView.join_heads


class _TurnedRound(RepairedAttention):
    def mask_of_heads(self, mask: Tensor) -> Tensor:
        return super().mask_of_heads(~mask)


# Each probe shows one slip and hides those that come later: with one head, `view`,
# `repeat` and the scale are right; with one key to see, no scale matters; with one
# sentence, `repeat` is right.
repaired_attention = Exercise(
    RepairedAttention,
    [
        Probe(
            *_given(1, 2, 3, 4, 6),
            build=_built(6, 1),
            praise="one head, no mask: projections, residual connection and norm",
            when="with one head and no mask: ",
        ),
        Probe(
            *(*_given(2, 2, 3, 4, 6), _lengths(4, 2, queries=3)),
            build=_built(6, 1),
            praise="one head, a mask: True hides",
            when="with one head and a mask: ",
        ),
        Probe(
            *(*_given(3, 1, 5, 4, 12), ONE_KEY),
            build=_built(12, 2),
            praise="two heads, one key to see: heads hold features, not positions",
            when="with two heads, where each query sees one key: ",
        ),
        Probe(
            *_given(4, 1, 5, 3, 24),
            build=_built(24, 3, dropout=0.3),
            praise="three heads, all keys: the scale",
            when="with three heads of eight features, and no mask: ",
        ),
        Probe(
            *(*_given(5, 3, 4, 6, 16), _lengths(6, 3, 1, queries=4)),
            build=_built(16, 2),
            praise="three sentences of different lengths: each head has its own mask",
            when="with sentences of different lengths: ",
        ),
        Probe(
            *(*_given(6, 2, 3, 4, 8), BLIND),
            build=_built(8, 2),
            praise="a query that sees nothing: no NaN",
            when="with a query that sees nothing: ",
        ),
    ],
    {
        "`view` cuts the sentence into pieces: it takes the numbers as they lie, word "
        "by word. Take the heads apart, then transpose: (batch, length, heads, "
        "dim_per_head), `transpose(1, 2)`, and fold": printed.CutByView,
        "the heads are cut right, and joined by `view` alone: transpose back first": (
            _JoinedByView
        ),
        "the scale is still the printed one: `key.size(-1)` is the size of one head "
        "already": printed.ScaledAsPrinted,
        "a sentence gets another sentence's mask: the folded rows are sentence 0's "
        "heads, then sentence 1's, so `repeat_interleave(num_heads, dim=0)`": (
            printed.MaskRepeated
        ),
        "the mask is turned round: D's True hides": _TurnedRound,
    },
    results=("output", "attention"),
    read=_finite,
    initial=_drops_out,
    lesson="16",
)
