"""The exercises of lesson 16: loud or silent, and a stranger's attention repaired."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from helpers.exercise import UNTRIED, Exercise, Probe, Wrong
from lessons.lesson16.readings import printed
from lessons.lesson16.readings.lengths import RepairedAttention

# ------------------------------------------------------------- 16.1 loud or silent

# Each line of E: the right word, what shows that, and what is said of the other word.
SLIPS = {
    "d_k, d_v, n_heads = self.d_k, self.d_v, self.n_head": (
        "loud",
        "any call: the constructor sets `n_heads`, so `n_head` does not exist",
        "which names does the constructor set on `self`? Read them letter by letter",
    ),
    "residual = q": (
        "silent",
        "set `fc` to zero: the output is not the norm of the query",
        "it runs. But does a later line read `residual`?",
    ),
    "scores.masked_fill(attn_mask == 0, -1e9)": (
        "silent",
        "change a hidden key: the output moves",
        "it runs. But `masked_fill` without `_` returns a new tensor: who keeps it?",
    ),
    "context = context.permute(0, 2, 1, 3).view(…)": (
        "loud",
        "two heads and two queries: the numbers lie in another order",
        "`permute` moves no number, and `view` cannot read them in the new order",
    ),
    "self.dropout = nn.Dropout(p=dropout)": (
        "silent",
        "run twice in training mode: the outputs are equal",
        "a module that is made and never called stops nothing",
    ),
}


def loud_or_silent(said: Mapping[str, Any]) -> None:
    """Print for each of E's lines whether it was judged right, and why."""
    for line, (due, shown, hint) in SLIPS.items():
        word = said.get(line) if isinstance(said, Mapping) else None
        word = word.strip().casefold() if isinstance(word, str) else word
        if word is None or word is Ellipsis:
            print(UNTRIED, f"`{line}`", sep=": ")
        elif word not in ("loud", "silent"):
            print(f"✗ `{line}`: say loud or silent")
        elif word == due:
            print(f"✓ {due}: `{line}`\n  {shown}")
        else:
            print(f"✗ not {word}: `{line}`\n  {hint}")


# ------------------------------------------------------------- 16.2 the repair


NO_RESIDUAL = (
    "with `linear_final` at zero, the output is not `layer_norm` of the query: add the "
    "query as it came in, before its projection"
)
TRUTH_OF_A_TENSOR = (
    "`if attn_mask:` asks a whole tensor for one yes or no. What is meant is "
    "`if attn_mask is not None:`"
)


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


ONE_HEAD, MASKED = 6, 10  # the model_dim of the two probes with one head
ONE_KEY = ~torch.eye(4, dtype=torch.bool)[[2, 0, 3, 3, 1]][None]  # of 4, for 5 queries
BLIND = _lengths(4, 2, queries=3)
BLIND[1, 2] = True


def _read(output: Any, *given: Tensor) -> Any:
    """What is compared: of a query that sees nothing, only that it is a number."""
    if not isinstance(output, list | tuple) or len(output) != 2:
        return output
    context, weights = output
    if not (isinstance(context, Tensor) and isinstance(weights, Tensor)):
        return output
    hidden = given[3] if len(given) > 3 else torch.zeros(1, 1, 1, dtype=torch.bool)
    hidden = hidden.expand(len(given[0]), given[2].size(1), given[0].size(1))
    heads = max(1, len(weights) // len(hidden))
    rows = hidden.repeat_interleave(heads, dim=0)
    if context.shape[:2] != hidden.shape[:2] or weights.shape != rows.shape:
        return output
    sees, some = ~hidden.all(-1), hidden.any(-1) & ~hidden.all(-1)
    if heads == 1:
        _say_what_masks_do(weights[some], hidden[some])
    if any(x.isnan().any() for x in (context[~sees], weights[rows.all(-1)])):
        raise Wrong(
            "NaN: a softmax over scores that are all −∞ divides 0 by 0. Hide with the "
            "lowest number of the type, `torch.finfo(attention.dtype).min`"
        )
    return context * sees[..., None], weights * ~rows.all(-1)[..., None]


def _say_what_masks_do(weights: Tensor, hidden: Tensor) -> None:
    """Wrong, if hidden keys have weight. Both are (queries, keys); a row has both."""
    if not (weights[hidden] > 1e-6).any():
        return
    if (weights[~hidden] > 1e-6).any():
        raise Wrong(
            "hidden keys have weight. Is the mask used? `masked_fill` returns a new "
            "tensor, which must be kept"
        )
    raise Wrong("the mask is turned round: D's True hides")


def _fresh(module: nn.Module) -> str:
    """What is wrong with a fresh module: residual connection, or `if attn_mask:`."""
    size = module.linear_q.in_features
    given = _given(0, 2, 3, 4, size)
    if size == ONE_HEAD:
        return _without_sublayer(module.eval(), given)
    if size == MASKED:
        return _asked_for_truth(module.eval(), given)
    return ""


def _without_sublayer(module: nn.Module, given: list[Tensor]) -> str:
    for parameter in module.linear_final.parameters():
        nn.init.zeros_(parameter)
    output, due = module(*given), nn.functional.layer_norm(given[2], (ONE_HEAD,))
    output = output[0] if isinstance(output, list | tuple) and output else None
    if not isinstance(output, Tensor) or output.shape != due.shape:
        return ""  # said elsewhere
    return "" if torch.allclose(output, due, atol=1e-4) else NO_RESIDUAL


def _asked_for_truth(module: nn.Module, given: list[Tensor]) -> str:
    try:
        module(*given, _lengths(4, 2, queries=3))
    except RuntimeError as error:
        if "Boolean value of Tensor" in str(error):
            return TRUTH_OF_A_TENSOR
        raise
    return ""


class _JoinedByView(RepairedAttention):
    join_heads = printed.CutByView.join_heads


class _CutByViewOnly(RepairedAttention):
    fold_heads = printed.CutByView.fold_heads


# Each probe shows one slip and hides those that come later: with one head, `view`,
# `repeat` and the scale are right; with one key to see, no scale matters; with one
# sentence, `repeat` is right. With dropout=1, all weights are 0 and the residual
# connection alone is left, so both places of dropout show without chance.
repaired_attention = Exercise(
    RepairedAttention,
    [
        Probe(
            *_given(1, 2, 3, 4, ONE_HEAD),
            build=_built(ONE_HEAD, 1),
            praise="one head, no mask: projections, residual connection and norm",
            when="with one head of six features (scale 1/√6) and no mask: ",
        ),
        Probe(
            *(*_given(2, 2, 3, 4, MASKED), _lengths(4, 2, queries=3)),
            build=_built(MASKED, 1),
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
            build=_built(24, 3),
            praise="three heads, all keys: the scale",
            when="with three heads of eight features (scale 1/√8) and no mask: ",
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
        Probe(
            *_given(7, 2, 3, 4, 12),
            build=_built(12, 2, dropout=1.0),
            training=True,
            praise="dropout on the weights, and on what `linear_final` gives",
            when="in training mode with dropout=1, where the weights become 0 and the "
            "output is `layer_norm(query)`: ",
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
    initial=_fresh,
    lesson="16",
)
