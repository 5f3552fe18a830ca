"""The exercises of lesson 19, blocks: reference answers and known mistakes."""

import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any
from unittest.mock import Mock, patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from lessons.checking.comparing import plain
from lessons.checking.engine import Exercise, Part, Trial, several
from lessons.checking.findings import Stop, wrong
from lessons.checking.pictures import weights_beside
from lessons.lesson19.blockwise import attention_over_keys
from lessons.lesson19.peak import peak_bytes

# ------------------------------------------------------------ 19.1 one more key

STEP = ("mixed", "total", "maximum")
RESCALE = "rescale = torch.exp(maximum - shift)"
HIGHEST = "highest = torch.maximum(maximum, score)"
RESULT = "return rescale * mixed + part * value, rescale * total + part, highest"
BOTH_SUMS = "both sums are multiplied by exp(old maximum − new maximum)"


def _state(seed: int, d_value: int, *, score: float, count: int) -> tuple[Tensor, ...]:
    """The state after `count` random keys, and one more key with this score."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(count, generator=generator)
    values = torch.randn(count, d_value, generator=generator)
    maximum = scores.max()
    parts = (scores - maximum).exp()
    value = torch.randn(d_value, generator=generator)
    return parts @ values, parts.sum(), maximum, maximum + score, value


def _row(seed: int, d_value: int, *, hidden: int, scores: int) -> tuple[Tensor, ...]:
    """No key so far, and a row of keys, the first ones hidden."""
    generator = torch.Generator().manual_seed(seed)
    drawn = 2 * torch.randn(scores, generator=generator)
    drawn[:hidden] = -math.inf
    values = torch.randn(scores, d_value, generator=generator)
    nothing = torch.zeros(d_value), torch.tensor(0.0), torch.tensor(-math.inf)
    return *nothing, drawn, values


def _one_by_one(answer: Callable) -> Callable:
    """The answer; of a row of scores it takes one key after the other.

    The result then begins with `mixed` over `total` and ends with the row's log sum of
    exponentials: their gradients are the same whether or not the maximum has any.
    """

    @wraps(answer)
    def function(mixed, total, maximum, score, value):
        if score.dim() == 0:
            return answer(mixed, total, maximum, score, value)
        state = mixed, total, maximum
        for each, vector in zip(score, value, strict=True):
            output = answer(*state, each, vector)
            if output is None or output is Ellipsis:
                return output
            state = [x.to(score.dtype) for x in several(output, STEP)]
        mixed, total, maximum = state
        logarithm = maximum + total.log()
        return torch.cat([mixed / total, logarithm[None]]), total, maximum

    return function


RISING = torch.tensor([-1.0, 0.5, 0.7, 2.0])
EQUAL = torch.tensor([1.0, 1.0, 0.5])


def _first(score: float) -> tuple[Tensor, ...]:
    """No key so far, and a first one with this score."""
    nothing = torch.zeros(2), torch.tensor(0.0), torch.tensor(-math.inf)
    return *nothing, torch.tensor(score), torch.tensor([3.0, -1.0])


step = Exercise(
    f"""\
def my_step(mixed, total, maximum, score, value):
    {HIGHEST}
    shift = highest.masked_fill(highest == -math.inf, 0.0)
    {RESCALE}
    part = torch.exp(score - shift)
    {RESULT}
""",
    Part(
        "my_step",
        {
            f"nothing is rescaled: {BOTH_SUMS}": {RESCALE: "rescale = 1.0"},
            f"`mixed` is not rescaled: {BOTH_SUMS}": {"rescale * mixed": "mixed"},
            f"`total` is not rescaled: {BOTH_SUMS}": {"rescale * total": "total"},
            f"the rescaling is turned round: {BOTH_SUMS}, which is at most 1": {
                RESCALE: "rescale = torch.exp(shift - maximum)"
            },
            "the two factors are swapped: exp(old maximum − new maximum) is for the "
            "old sums, exp(score − new maximum) for the new value": {
                RESCALE: "rescale = torch.exp(score - shift)",
                "part = torch.exp(score - shift)": "part = torch.exp(maximum - shift)",
            },
            "the maximum stays as it was: it is the larger of old and new": [
                {HIGHEST: "highest = maximum"},
                {"total + part, highest": "total + part, maximum"},
            ],
            "a lower score becomes the maximum: it is the larger of the two": {
                HIGHEST: "highest = score"
            },
            "the value counts in full: it is multiplied by exp(score − new maximum)": {
                "part * value": "value"
            },
            "the score itself is the weight: its exponential is": {
                "part = torch.exp(score - shift)": "part = score - shift"
            },
            "the new exponential lacks the maximum: it is exp(score − new maximum)": {
                "torch.exp(score - shift)": "torch.exp(score)"
            },
            "`mixed` is divided by `total`: that is done once, after the last key": {
                RESULT: "total = rescale * total + part\n"
                "    return (rescale * mixed + part * value) / total, total, highest"
            },
            "a hidden first key gives NaN, which is −∞ − (−∞): as long as the maximum "
            "is −∞, subtract 0 instead": {
                "highest.masked_fill(highest == -math.inf, 0.0)": "highest"
            },
        },
        lambda seed: [
            _state(seed, 3, score=-0.7, count=4),
            _row(seed, 4, hidden=0, scores=6),
        ],
        ["a lower score: the maximum stays, both sums grow"],
        others="six keys, one after the other: softmax and gradients come out right",
        doubt="six keys, one after the other: ",
        trials=[
            Trial(
                _state(0, 5, score=0.9, count=3),
                ["a higher score: both sums are rescaled, and then grow"],
                "with a higher score: ",
                "both sums are rescaled, and then grow",
            ),
            Trial(
                _first(1.5),
                ["the first key: its value is all there is"],
                "with the first key: ",
                "the sums are 0 and the maximum is −∞ before it",
            ),
            Trial(
                _first(-1e6),
                ["the first key, however low its score"],
                "with a first key whose score is −1,000,000: ",
                "the maximum is that score, and the new exponential 1",
            ),
            Trial(
                (*_row(0, 3, hidden=0, scores=3)[:3], EQUAL, torch.eye(3)),
                ["equal scores count, both of them"],
                "with two equal scores: ",
                "a score that equals the maximum adds an exponential of 1",
            ),
            Trial(
                _state(0, 4, score=-math.inf, count=3),
                ["a hidden key changes nothing"],
                "with a hidden key, a score of −∞: ",
                "nothing is to change, as exp(−∞) is 0",
            ),
            Trial(
                _first(-math.inf),
                ["a hidden first key leaves all as it was"],
                "with a hidden first key: ",
                "the sums are to stay 0 and the maximum −∞",
            ),
            Trial(
                (*_row(0, 3, hidden=0, scores=4)[:3], RISING, torch.eye(4, 3)),
                ["rising scores: gradients flow through the rescaling"],
                "with rising scores: ",
                "both sums are rescaled at each key",
                gradients="the gradients are wrong: detach nothing, or the maximum "
                "before it is used at all",
            ),
            Trial(
                _row(0, 3, hidden=2, scores=5),
                ["hidden keys at the start leave the gradients whole"],
                "with two hidden keys before three others: ",
                "the softmax is wrong",
                gradients="the gradients are wrong (NaN?): replace −∞ before you "
                "subtract it, as `torch.where` afterwards is too late",
            ),
            Trial(
                (torch.ones(2), *torch.tensor([1.0, 200.0, 203.0]), torch.ones(2) / 3),
                ["large scores do no harm"],
                "where scores are large: ",
                "take exponentials of differences from the maximum alone: exp(200) is "
                "infinite",
            ),
        ],
        results=STEP,
        use=_one_by_one,
    ),
)

# ------------------------------------------------------------ 19.2 blocks of keys

TABLE = (
    "as many floats as the table are held at once: make no more than query_length × "
    "block scores at a time, and keep none of them"
)
TOO_WIDE = (
    "a tensor holds {made:,} floats, where query_length × block are {due:,}: take all "
    "queries, and a block of keys at a time"
)
NO_BLOCK = (
    "the work is the same whatever `block` is: it is the number of keys at a time"
)
LATER = "highest = torch.maximum(maximum, scores.amax(dim=-1, keepdim=True))"
SHIFT = "shift = highest.masked_fill(highest == -math.inf, 0.0)"
RESCALES = "rescale, parts = (maximum - shift).exp(), (scores - shift).exp()"
MIX = "mixed = rescale * mixed + parts @ value[..., start:stop, :]"
TOTAL = "total = rescale * total + parts.sum(dim=-1, keepdim=True)"
LOOP = "for start in range(0, key.size(-2), block):"
SCORES = "scores = query @ key[..., start:stop, :].mT / math.sqrt(query.size(-1))"
MASKED = "scores = scores.masked_fill(~mask[..., start:stop], -math.inf)"
WIDEN = "mask = mask.expand(*query.shape[:-1], key.size(-2))"
QUOTIENT = "return mixed / total.masked_fill(total == 0, 1.0)"


class _Sizes(TorchDispatchMode):
    """Notes how many floats there are in each tensor that an operation makes."""

    def __init__(self):
        super().__init__()
        self.floats: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        output = func(*args, **(kwargs or {}))
        for x in output if isinstance(output, list | tuple) else [output]:
            if isinstance(x, Tensor) and x.is_floating_point():
                self.floats.append(x.untyped_storage().nbytes() // x.element_size())
        return output


def _watched(answer: Callable) -> Callable:
    """The answer; where keys are many, it ends if it holds too much at once.

    Where a block of scores is smaller than the keys, only whether `block` is used.
    """

    @wraps(answer)
    def function(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, block: int):
        if key.size(-2) < MANY:
            return answer(query, key, value, mask, block)
        sizes = []
        for keys in (block, 2 * block):
            with _Sizes() as made:
                output = answer(query, key, value, mask, keys)
            if output is None or output is Ellipsis:
                return output
            sizes.append(made.floats)
        rows, largest = query.shape[:-1].numel(), max(sizes[0], default=0)
        table, due = rows * key.size(-2), rows * block
        if due > key.numel():
            if 2 * due <= largest < table:
                raise Stop(wrong(TOO_WIDE.format(made=largest, due=due)))
            held = peak_bytes(lambda: answer(query, key, value, mask, block))
            if max(largest, held // query.element_size()) >= table:
                raise Stop(wrong(TABLE))
        if sizes[0] == sizes[1]:
            raise Stop(wrong(NO_BLOCK))
        return answer(query, key, value, mask, block)

    return function


MANY = 64


def _block_inputs(seed: int, *sizes: int, kind: str = "") -> tuple[Any, ...]:
    """Random query, key and value, a mask, and the size of a block.

    sizes: batch, heads, query_length, key_length, d_head, d_value, block.
    """
    batch, heads, queries, keys, d_head, d_value, block = sizes
    generator = torch.Generator().manual_seed(seed)
    each = (queries, d_head), (keys, d_head), (keys, d_value)
    tensors = [torch.randn(batch, heads, *x, generator=generator) for x in each]
    steps = [torch.arange(size) for size in sizes[:4]]
    b, h, q, k = torch.meshgrid(*steps, indexing="ij")
    mask = (b + h + 2 * q + k) % 3 != 0
    if kind == "queries alone":
        mask = mask[..., :1] | True
    if kind == "no batch":
        mask = mask[0, 0]
    if kind == "keys alone":
        mask = mask[:, :1, :1]
    if kind == "first block":
        mask = (k >= block)[:1, :1, :1]
    if kind == "nothing":
        mask = mask & (q > 0)
    if kind == "high where hidden":  # scores near 300
        mask = (k % 3 > 0)[:1, :1, :1]
        tensors[0][..., :1] = math.sqrt(d_head)
        tensors[1][..., :1] = 300.0 * ~mask.mT
    if kind in ("open", "unlike heads"):
        mask = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    if kind == "unlike heads":  # scores near −1,000 or near 1,000
        sign = 1 - 2 * ((b + h)[..., :1, :1] % 2)
        tensors[0][..., :1] = 1000 * math.sqrt(d_head) * sign
        tensors[1][..., :1] = 1.0
    return *tensors, mask, block


def _describe(value: Tensor, due: Tensor) -> str:
    if not value.isfinite().all():
        return "the context holds NaN or infinity: print `maximum` and `total`"
    return "the context differs from that of `attention`"


over_keys = Exercise(
    f"""\
def my_attention_over_keys(query, key, value, mask, block):
    {WIDEN}
    mixed = query.new_zeros(*query.shape[:-1], value.size(-1))
    total = query.new_zeros(*query.shape[:-1], 1)
    maximum = torch.full_like(total, -math.inf)
    {LOOP}
        stop = start + block
        {SCORES}
        {MASKED}
        {LATER}
        {SHIFT}
        {RESCALES}
        {MIX}
        {TOTAL}
        maximum = highest
    {QUOTIENT}
""",
    Part(
        "my_attention_over_keys",
        {
            f"nothing is rescaled: {BOTH_SUMS}": {
                RESCALES: "rescale, parts = 1.0, (scores - shift).exp()"
            },
            f"`mixed` is not rescaled: {BOTH_SUMS}": {"rescale * mixed": "mixed"},
            f"`total` is not rescaled: {BOTH_SUMS}": {"rescale * total": "total"},
            "no maximum is subtracted: the exponential of a large score is infinite": {
                RESCALES: "rescale, parts = 1.0, scores.exp()"
            },
            "each block has a softmax of its own, and their contexts are averaged: "
            "carry two sums through all blocks, and divide once": {
                MIX: "share = parts.sum(dim=-1, keepdim=True).clamp(min=1e-30)\n"
                "        mixed = mixed + parts / share @ value[..., start:stop, :]",
                TOTAL: "total = total + 1",
            },
            "each block's own maximum replaces the running one: it is the larger of "
            "the two": {LATER: "highest = scores.amax(dim=-1, keepdim=True)"},
            "the maximum is that of all rows: each query has its own, "
            "`amax(dim=-1, keepdim=True)`": {
                "scores.amax(dim=-1, keepdim=True)": "scores.amax(dim=(-2, -1), "
                "keepdim=True)"
            },
            "the last, shorter block is left out: `range(0, key.size(-2), block)` "
            "goes on to the end": {
                LOOP: "for start in range(0, key.size(-2) // block * block, block):"
            },
            "the first block is left out": {
                LOOP: "for start in range(block, key.size(-2), block):"
            },
            "the scale is forgotten: divide the scores by the square root of d_head": {
                " / math.sqrt(query.size(-1))": ""
            },
            "the mask has no effect": {MASKED: ""},
            "the mask is inverted: True = may attend": {"~mask[": "mask["},
            "each block is masked by the first columns of the mask: take "
            "`mask[..., start:stop]`": {
                "~mask[..., start:stop]": "~mask[..., : scores.size(-1)]"
            },
            "hidden scores are set to 0: exp(0) is 1, so they still count; fill with "
            "`-math.inf`": {
                "~mask[..., start:stop], -math.inf": "~mask[..., start:stop], 0.0"
            },
            "the sum is missing: divide `mixed` by `total` after the last block": {
                QUOTIENT: "return mixed"
            },
            "each block is divided by the sum so far: divide once, after the last": {
                f"{MIX}\n        {TOTAL}": f"{TOTAL}\n        {MIX} / total"
            },
            "a mask with one column for all keys is cut into blocks: give it all its "
            "columns first, `mask.expand(…)`": {WIDEN: ""},
            "a query whose first block is all hidden gets NaN, which is −∞ − (−∞): as "
            "long as the maximum is −∞, subtract 0 instead": {SHIFT: "shift = highest"},
            "a query that may attend to nothing gets NaN, which is 0/0: its context is "
            "to be 0": {QUOTIENT: "return mixed / total"},
            TABLE: {
                SCORES: "table = query @ key.mT / math.sqrt(query.size(-1))\n"
                "        scores = table[..., start:stop]"
            },
            NO_BLOCK: {
                LOOP: "block = 7\n    for start in range(0, key.size(-2), block):"
            },
        },
        lambda seed: [
            _block_inputs(seed, 2, 3, 4, 6, 5, 7, 2),
            _block_inputs(seed, 3, 1, 2, 7, 4, 3, 3, kind="keys alone"),
        ],
        ["the context is that of `attention`, with a mask for each head"],
        others="other sizes, a shorter last block, and one mask for all heads work too",
        doubt="is a size written as a number, the last block shorter, or the mask not "
        "broadcast? ",
        trials=[
            Trial(
                _block_inputs(0, 1, 2, 3, 8, 4, 4, 3, kind="queries alone"),
                ["a mask with one column for all keys works"],
                "with a mask of shape (…, query_length, 1): ",
                "the context differs from that of `attention`",
            ),
            Trial(
                _block_inputs(0, 2, 1, 3, 5, 4, 4, 2, kind="no batch"),
                ["a mask without axes for batch and heads works"],
                "with a mask of shape (query_length, key_length): ",
                "the context differs from that of `attention`",
            ),
            Trial(
                _block_inputs(0, 1, 2, 3, 9, 4, 4, 3, kind="first block"),
                ["a first block that is all hidden does no harm"],
                "where the first block is hidden: ",
                "the context differs from that of `attention`",
                gradients="where the first block is hidden, the gradients are wrong "
                "(NaN): replace −∞ before you subtract it",
            ),
            Trial(
                _block_inputs(0, 1, 2, 3, 9, 4, 4, 3, kind="nothing"),
                ["a query that may attend to nothing gets a context of 0"],
                "where a query may attend to nothing: ",
                "its context is to be 0; other queries get theirs",
                gradients="where a query may attend to nothing, the gradients are "
                "wrong (NaN?): replace a total of 0 before you divide by it",
            ),
            Trial(
                tuple(
                    1000 * x if place == 0 else x
                    for place, x in enumerate(
                        _block_inputs(0, 1, 1, 9, 10, 4, 4, 5, kind="open")
                    )
                ),
                ["large scores do no harm"],
                "where scores are large: ",
                "take exponentials of differences from the running maximum alone",
                accepts=lambda value, due: torch.allclose(value, due, atol=1e-3),
            ),
            Trial(
                _block_inputs(0, 1, 2, 3, 7, 4, 4, 3, kind="high where hidden"),
                ["hidden scores may be as large as they like"],
                "where hidden scores are large: ",
                "hide the scores before you take their maximum",
            ),
            Trial(
                _block_inputs(0, 2, 2, 3, 7, 4, 4, 3, kind="unlike heads"),
                ["heads with low and heads with high scores, side by side"],
                "where scores are near −1,000 in one head and near 1,000 in another: ",
                "each query of each head has its own maximum, which starts at −∞",
                accepts=lambda value, due: torch.allclose(value, due, atol=1e-2),
            ),
            Trial(
                _block_inputs(0, 1, 1, 100, 800, 2, 2, 40, kind="open"),
                ["no more floats at once than a block of keys needs"],
                "with 100 queries, 800 keys and blocks of 40: ",
                "the context differs from that of `attention`",
            ),
            Trial(
                _block_inputs(0, 1, 1, 4, 800, 2, 2, 8, kind="open"),
                ["few queries and many keys: `block` is the number of keys"],
                "with 4 queries, 800 keys and blocks of 8: ",
                "the context differs from that of `attention`",
            ),
        ],
        describe=_describe,
        shown=attention_over_keys,
        use=_watched,
    ),
)

# ------------------------------------------------------------ 19.3 back through a tile

GRADIENTS = ("grad_query", "grad_key", "grad_value")
TILE_SCALE = "scale = math.sqrt(query.size(-1))"
TILE_SCORES = "scores = (query @ key.mT / scale).masked_fill(~mask, -math.inf)"
TILE_WEIGHTS = "weights = (scores - logsumexp).exp()"
TILE_GRAD = "grad_scores = weights * (grad_context @ value.mT - inner)"
FOR_KEYS = "grad_scores.mT @ query / scale"


def _tile(
    seed: int, *sizes: int, keys: int, longer: float = 1, low: float | None = None
) -> tuple[Tensor, ...]:
    """A tile of an attention over `keys` keys, of which it has the last ones.

    sizes: batch, heads, rows, columns, d_head, d_value. The mask hides some pairs, and
    everything from the second query. Queries are `longer` than as drawn. If `low` is
    given, it is the first query's L, and the tile hides everything from it, too.
    """
    batch, heads, rows, columns, d_head, d_value = sizes
    generator = torch.Generator().manual_seed(seed)
    each = (rows, d_head), (keys, d_head), (keys, d_value), (rows, d_value)
    query, key, value, grad = (
        torch.randn(batch, heads, *x, generator=generator) for x in each
    )
    query = longer * query
    q, k = torch.arange(rows)[:, None], torch.arange(keys)
    mask = ((q + 2 * k) % 5 != 0) & (q != 1)
    scores = query @ key.mT / math.sqrt(d_head)
    scores = scores.masked_fill(~mask, -math.inf)
    total = scores.logsumexp(dim=-1, keepdim=True)
    context = (scores - total).exp().nan_to_num() @ value
    total = total.masked_fill(total == -math.inf, math.inf)
    inner = (grad * context).sum(dim=-1, keepdim=True)
    if low is not None:
        mask, total[..., 0, :] = mask & (q > 0), low
    mine = slice(keys - columns, keys)
    key, value = key[..., mine, :], value[..., mine, :]
    return query, key, value, mask[:, mine], total, inner, grad


def _nearly(value: Any, due: Any) -> bool:
    """Whether three gradients agree up to the rounding of large scores."""
    pairs = zip(value, due, strict=True)
    return all(torch.allclose(x, y, rtol=1e-3, atol=5e-2) for x, y in pairs)


def _without_autograd(answer: Callable) -> Callable:
    """The answer, in which autograd takes no gradients."""

    @wraps(answer)
    def function(query, key, value, mask, logsumexp, inner, grad_context):
        given = query, key, value, mask, logsumexp, inner, grad_context
        used = Stop(wrong("autograd is used: write the gradients as matrix products"))
        refuse = Mock(side_effect=used)
        with (
            patch.object(torch.autograd, "grad", refuse),
            patch.object(torch.autograd, "backward", refuse),
        ):
            try:
                return answer(*given)
            except Exception as error:
                if refuse.called:  # torch.func makes other errors of it
                    raise used from error
                raise

    return function


tile_gradients = Exercise(
    f"""\
def my_tile_gradients(query, key, value, mask, logsumexp, inner, grad_context):
    {TILE_SCALE}
    {TILE_SCORES}
    {TILE_WEIGHTS}
    {TILE_GRAD}
    grad_query = grad_scores @ key / scale
    grad_key = {FOR_KEYS}
    grad_value = weights.mT @ grad_context
    return grad_query, grad_key, grad_value
""",
    Part(
        "my_tile_gradients",
        {
            "the softmax of the tile alone is taken: $L$ holds the sum over the whole "
            "row, so the weights are exp(scores − logsumexp)": {
                TILE_WEIGHTS: "weights = scores.softmax(dim=-1).nan_to_num()"
            },
            "$L$ is not used: the weights are exp(scores − logsumexp)": {
                TILE_WEIGHTS: "weights = scores.exp()"
            },
            "$D$ is missing: dS = P∘(dP − D), and `inner` is D": {
                "(grad_context @ value.mT - inner)": "(grad_context @ value.mT)"
            },
            "$D$ is added: dS = P∘(dP − D)": {"value.mT - inner": "value.mT + inner"},
            "it is divided by d_head, not by its square root": {
                TILE_SCALE: "scale = query.size(-1)"
            },
            "$D$ is taken from the tile alone: `inner` is that of the whole row": {
                TILE_GRAD: "grad_weights = grad_context @ value.mT\n"
                "    inner = (weights * grad_weights).sum(dim=-1, keepdim=True)\n"
                "    grad_scores = weights * (grad_weights - inner)"
            },
            "$D$ is not multiplied by the weights: dS = P∘(dP − D)": {
                TILE_GRAD: "grad_scores = weights * (grad_context @ value.mT) - inner"
            },
            "dS is P(1 − P)dP, the diagonal of the softmax's derivative alone: a score "
            "changes all weights of its row, so dS = P∘(dP − D)": {
                TILE_GRAD: "grad_scores = weights * (1 - weights) * "
                "(grad_context @ value.mT)"
            },
            "dP is not multiplied by the weights: dS = P∘(dP − D)": {
                TILE_GRAD: "grad_scores = grad_context @ value.mT - inner"
            },
            "the scores lack their scale, √d_head": {
                "(query @ key.mT / scale)": "(query @ key.mT)"
            },
            "the gradient of the queries lacks the scale: dQ = dS K/√d": {
                "grad_scores @ key / scale": "grad_scores @ key"
            },
            "the gradient of the keys lacks the scale: dK = dSᵀ Q/√d": {
                FOR_KEYS: "grad_scores.mT @ query"
            },
            "the gradient of the values comes from the weights, not from dS: dV = "
            "Pᵀ dO": {"weights.mT @ grad_context": "grad_scores.mT @ grad_context"},
            "the mask has no effect: hidden pairs have a weight of 0": {
                ".masked_fill(~mask, -math.inf)": ""
            },
            "the mask is inverted: True = may attend": {"~mask": "mask"},
        },
        lambda seed: [
            _tile(seed, 2, 3, 4, 5, 6, 3, keys=12),
            _tile(seed, 1, 2, 6, 3, 2, 7, keys=8),
        ],
        ["the three gradients of a tile that is part of its rows"],
        trials=[
            Trial(
                _tile(0, 1, 1, 3, 4, 5, 2, keys=4),
                ["a tile that is the whole table: the gradients of `attention`"],
                "with a tile of all keys: ",
                "the gradients differ from those of `attention`",
            ),
            Trial(
                _tile(0, 1, 2, 5, 6, 4, 3, keys=9, longer=200),
                ["large scores do no harm, seen or hidden"],
                "where scores are large: ",
                "subtract before the exponential, exp(scores − logsumexp), and hide "
                "before it: exp(200) is infinite",
                accepts=_nearly,
            ),
            Trial(
                _tile(0, 2, 1, 4, 3, 5, 6, keys=7, low=-(2.0**32)),
                ["a hidden pair counts for nothing, however low $L$ is"],
                "where a query sees nothing in this tile, and $L$ is −4·10⁹: ",
                "hidden scores are −∞, as exp(−10⁹ − L) is infinite here",
            ),
        ],
        results=GRADIENTS,
        use=_without_autograd,
        measure=lambda output, *inputs: tuple(x.detach() for x in output),
    ),
)

# ------------------------------------------------------------ 19.4 a sliding window


def _beside(value: Any, due: Tensor) -> Callable | None:
    """A picture of two grids, if there are two."""
    if not isinstance(value, Tensor) or value.shape != due.shape:
        return None
    return partial(weights_beside, value.float(), due.float())


def _window(length: int, window: int, block: int) -> Trial:
    sizes = f"length {length}, window {window}, block {block}"
    return Trial(
        (length, window, block),
        [f"{sizes}: {{due}} blocks"],
        f"{sizes}: ",
        "{yours} blocks where {due} are due: see below",
        facts=lambda value, due: {"yours": int(value.sum()), "due": int(due.sum())},
        picture=_beside,
    )


UNLIKE_ROWS = (
    "the rows have different lengths: a row needs True or False for each block of keys"
)


def _as_grid(output: Any, *inputs: Any) -> Any:
    """The answer as booleans; 0 and 1 will do. Stop if rows are unlike in length."""
    grid = plain(output)
    if isinstance(grid, tuple) and all(isinstance(x, Tensor) for x in grid):
        raise Stop(wrong(UNLIKE_ROWS))
    if isinstance(grid, Tensor) and grid.dtype != torch.bool:
        return grid != 0 if ((grid == 0) | (grid == 1)).all() else grid
    return grid


NOT_LATE, NOT_OLD = (
    "(keys <= queries + block - 1)",
    "(queries - keys - block + 1 < window)",
)
window_blocks = Exercise(
    f"""\
def my_window_blocks(length, window, block):
    starts = torch.arange(0, length, block)
    queries, keys = starts[:, None], starts[None, :]
    return {NOT_LATE} & {NOT_OLD}
""",
    Part(
        "my_window_blocks",
        {
            "the window is one too wide: a query sees itself and the window − 1 "
            "positions before it": {"+ 1 < window": "+ 1 <= window"},
            "the window is one too narrow: a query sees itself and the window − 1 "
            "positions before it": {"+ 1 < window": "+ 1 < window - 1"},
            "the window is rounded down to whole blocks: round up": {
                NOT_OLD: "((queries - keys) // block <= window // block)"
            },
            "the window is rounded to the nearest number of blocks: round up": {
                NOT_OLD: "((queries - keys) // block <= round((window - 1) / block))"
            },
            "only blocks that are seen in full are taken: one pair is enough": {
                NOT_LATE: "(keys + block - 1 <= queries)",
                NOT_OLD: "(queries + block - 1 - keys < window)",
            },
            "the future is not hidden: no query sees a later key": {
                f"{NOT_LATE} & ": ""
            },
            "the past is not cut off: the window ends it": {f" & {NOT_OLD}": ""},
            "rows and columns are swapped: a row is a block of queries": {
                "starts[:, None], starts[None, :]": "starts[None, :], starts[:, None]"
            },
            "the last, shorter block is left out": {
                "torch.arange(0, length, block)": "torch.arange(0, length // block * "
                "block, block)"
            },
            "the window is counted from the block's last query alone: its first one "
            "sees further back": {NOT_OLD: "(queries - keys < window)"},
            "the block on the diagonal is left out: each query sees itself": {
                NOT_LATE: "(keys < queries)"
            },
        },
        trials=[
            _window(16, 4, 4),
            _window(16, 7, 4),
            _window(10, 4, 2),
            _window(12, 5, 3),
            _window(16, 5, 4),
            _window(16, 6, 4),
            _window(23, 9, 4),
            _window(20, 10, 4),
            _window(20, 7, 5),
            _window(16, 2, 8),
            _window(10, 1, 2),
            _window(8, 3, 1),
            _window(9, 30, 2),
        ],
        measure=_as_grid,
    ),
)
