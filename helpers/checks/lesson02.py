"""Checks for the exercises of lesson 02, attention."""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch
from torch import Tensor

from helpers.checks.core import (
    Finding,
    Mistake,
    Stop,
    attempt,
    check,
    recognise,
    right,
    same,
    untried,
    weights_beside,
    wrong,
)


def version(query, key, value, mask=None, **steps):
    """Attention with some of its STEPS done in another way.

    Shapes as in `helpers.attention.attention`; without `steps` it returns the same.
    """
    steps = STEPS | steps
    scores = steps["scale"](steps["score"](query, key), query)
    scores = steps["before"](scores, mask)
    weights = steps["after"](steps["normalise"](scores), mask, query)
    context = steps["mix"](weights, scores, key, value)
    return steps["give"](context, weights, scores)


def _hide_scores(scores, mask):
    return scores if mask is None else scores.masked_fill(~mask, -math.inf)


def _hide_weights(weights, mask, query):
    return weights if mask is None else weights.masked_fill(~mask, 0.0)


# A mistake is another way to do one of these, or two.
STEPS = {
    "score": lambda query, key: query @ key.mT,
    "scale": lambda scores, query: scores / math.sqrt(query.size(-1)),
    "before": _hide_scores,
    "normalise": lambda scores: scores.softmax(-1),
    "after": _hide_weights,
    "mix": lambda weights, scores, key, value: weights @ value,
    "give": lambda context, weights, scores: (context, weights),
}


def _score_with(turn):
    return {"score": lambda query, key: query @ turn(key)}


TURN = "turn the last two axes of the key and no others: `key.transpose(-2, -1)`"
SCORE_MISTAKES = [
    Mistake(
        "the scale is forgotten",
        "divide the scores by the square root of d_head, `query.size(-1)`",
        {"scale": lambda scores, query: scores},
    ),
    Mistake(
        "the scores are divided by d_head instead of its square root",
        "take `math.sqrt(query.size(-1))`",
        {"scale": lambda scores, query: scores / query.size(-1)},
    ),
    Mistake(
        "the scores are multiplied by the square root of d_head",
        "divide: the scale makes the scores smaller",
        {"scale": lambda scores, query: scores * math.sqrt(query.size(-1))},
    ),
    Mistake(
        "the scale is taken from the number of keys",
        "take it from d_head, the last axis: `query.size(-1)`",
        {"scale": lambda scores, query: scores / math.sqrt(scores.size(-1))},
    ),
    Mistake(
        "the scale comes after the softmax",
        "divide the scores, not the weights: a row of weights must sum to 1",
        {
            "scale": lambda scores, query: scores,
            "after": lambda weights, mask, query: (
                _hide_weights(weights, mask, query) / math.sqrt(query.size(-1))
            ),
        },
    ),
    Mistake("the key is not transposed", TURN, _score_with(lambda key: key)),
    Mistake(
        "the batch axis of the key is transposed",
        TURN,
        _score_with(lambda key: key.transpose(0, 1)),
    ),
    Mistake(
        "the heads axis of the key is transposed",
        TURN,
        _score_with(lambda key: key.transpose(1, 2)),
    ),
    Mistake(
        "all axes of the key are reversed, which is what `key.T` does",
        TURN,
        _score_with(lambda key: key.permute(*reversed(range(key.dim())))),
    ),
]

OVER_KEYS = "each query shares out a weight of 1 among the keys: `softmax(dim=-1)`"
SOFTMAX_MISTAKES = [
    Mistake(
        f"the softmax runs over the {axis}",
        OVER_KEYS,
        {"normalise": partial(torch.softmax, dim=dim)},
    )
    for axis, dim in (("queries", -2), ("batch", 0), ("heads", 1))
] + [
    Mistake(
        "the softmax is missing",
        "weights are `scores.softmax(dim=-1)`",
        {"normalise": lambda scores: scores},
    ),
    Mistake(
        "log_softmax stands where softmax belongs",
        "weights are positive and sum to 1, their logarithms do not",
        {"normalise": partial(torch.log_softmax, dim=-1)},
    ),
]

BOTH = "`return context, weights`, in this order"
OUTPUT_MISTAKES = [
    Mistake(
        "the weights are applied to the key",
        "the key says where to look, the value what is found: `weights @ value`",
        {"mix": lambda weights, scores, key, value: weights @ key},
    ),
    Mistake(
        "the scores are applied to the value",
        "mix the values by what comes out of the softmax: `weights @ value`",
        {"mix": lambda weights, scores, key, value: scores @ value},
    ),
    Mistake(
        "only the context is returned",
        BOTH,
        {"give": lambda context, weights, scores: context},
    ),
    Mistake(
        "only the weights are returned",
        BOTH,
        {"give": lambda context, weights, scores: weights},
    ),
    Mistake(
        "context and weights are swapped",
        BOTH,
        {"give": lambda context, weights, scores: (weights, context)},
    ),
    Mistake(
        "the scores are returned in place of the weights",
        "the second result is what comes out of the softmax",
        {"give": lambda context, weights, scores: (context, scores)},
    ),
]


def _mask_mistake(name, hint, before, after=lambda weights, mask, query: weights):
    return Mistake(name, hint, {"before": before, "after": after})


MASK_MISTAKES = [
    _mask_mistake(
        "the mask has no effect",
        "`scores.masked_fill(…)` returns a new tensor: is its result thrown away? "
        "Write `scores = scores.masked_fill(…)`",
        lambda scores, mask: scores,
    ),
    _mask_mistake(
        "the mask is inverted",
        "True = may attend, so hide where it is False: `masked_fill(~mask, …)`",
        lambda scores, mask: scores.masked_fill(mask, -math.inf),
    ),
    _mask_mistake(
        "the mask comes after the softmax",
        "hidden keys then keep their share and the rows no longer sum to 1: hide the "
        "scores, before the softmax",
        lambda scores, mask: scores,
        _hide_weights,
    ),
    _mask_mistake(
        "hidden scores are set to 0",
        "exp(0) is 1, so they still count; fill with `-math.inf` (or -1e9; 1e-9 is 0)",
        lambda scores, mask: scores.masked_fill(~mask, 0.0),
    ),
    _mask_mistake(
        "hidden scores are set to +∞",
        "the sign: fill with `-math.inf`",
        lambda scores, mask: scores.masked_fill(~mask, math.inf),
    ),
    _mask_mistake(
        "the mask is added to the scores as 0 and 1",
        "that only favours what may be seen; hide the rest: `masked_fill(~mask, …)`",
        lambda scores, mask: scores + mask,
    ),
]
MISTAKES = SCORE_MISTAKES + SOFTMAX_MISTAKES + OUTPUT_MISTAKES
MASKED_MISTAKES = MASK_MISTAKES + MISTAKES


def _probe(seed, batch, heads, queries, keys, d_head, d_value):
    """Random query, key and value of these sizes."""
    generator = torch.Generator().manual_seed(seed)
    sizes = (queries, d_head), (keys, d_head), (keys, d_value)
    return [torch.randn(batch, heads, *size, generator=generator) for size in sizes]


def _mask(batch, heads, queries, keys):
    """Hides a third; every line along any axis keeps something to see."""
    steps = [torch.arange(size) for size in (batch, heads, queries, keys)]
    return sum(torch.meshgrid(*steps, indexing="ij")) % 3 != 0


# batch, heads, query_length, key_length, d_head, d_value: all different, so that no two
# axes can be taken for each other; and all alike, so that what is mixed up still runs.
SIZES, SQUARE, OTHER = (2, 3, 4, 5, 6, 7), (4, 4, 4, 4, 4, 4), (3, 1, 2, 4, 9, 5)


@check
def scaled_attention(function: Callable, *, seed: int = 0) -> Iterator[Finding]:
    """Exercise 02.1: `function(query, key, value)` returns (context, weights).

    Shapes: query (batch, heads, query_length, d_head), key and value
    (batch, heads, key_length, d_head or d_value).
    """
    probes = [_probe(seed, *sizes) for sizes in (SIZES, SQUARE, OTHER)]
    yield from _compare(function, MISTAKES, *probes)
    yield from _demand_gradients(function, probes[0])


@check
def masked_attention(function: Callable, *, seed: int = 0) -> Iterator[Finding]:
    """Exercise 02.3: `function(query, key, value, mask)` returns (context, weights).

    Shapes as in 02.1; the mask broadcasts to (batch, heads, query_length, key_length).
    """
    probes = [
        [*_probe(seed, *sizes), _mask(*sizes[:4])] for sizes in (SIZES, SQUARE, OTHER)
    ]
    probes[2][3] = probes[2][3][:, :1, :1]  # one row of the mask serves all queries
    yield from _compare(function, MASKED_MISTAKES, *probes)
    yield from _demand_gradients(function, probes[0])
    yield _loud_hidden_key(function, seed)
    yield _nothing_to_see(function, seed)


def _compare(function, mistakes, ordinary, square, other) -> Iterator[Finding]:
    _run(function, mistakes, ordinary, square)
    yield right("weights: one row per query, summing to 1, equal to the expected ones")
    yield right("context: the values, mixed by these weights")
    try:
        _run(function, mistakes, other, square)
    except Stop as stop:
        sizes = f"query {tuple(other[0].shape)} and key {tuple(other[1].shape)}"
        text = f"with {sizes} it goes wrong: is a size written as a number"
        text += ", or the mask not broadcast? " if len(other) == 4 else "? "
        raise Stop(wrong(text + stop.finding.text)) from None
    yield right("other sizes work too")


def _run(function, mistakes, probe, square) -> None:
    """Stop with a finding unless the function is right on the probe."""
    output = _output(function, probe, mistakes, square)
    expected = version(*probe)
    if not same(output, _output(function, probe, mistakes, square)):
        raise Stop(
            wrong(
                "two calls with the same inputs differ: something random (dropout?) is "
                "left in"
            )
        )
    if same(output, expected):
        return
    made = recognise(output, version, mistakes, probe)
    text = _named(made) if made else _unnamed(output, expected)
    raise Stop(wrong(text, _picture(output, expected)))


def _output(function, probe, mistakes, square) -> Tensor | tuple[Tensor, Tensor]:
    """What the function returns; Stop if that is not a tensor or two."""
    try:
        output = attempt(function, *probe)
    except Stop as stop:
        if stop.finding.mark == "✗":
            _name_failure(stop, function, mistakes, square)
        raise
    output = _as_tuple(output)
    if isinstance(output, Tensor):
        return output
    parts = output if isinstance(output, tuple) else (output,)
    if len(parts) != 2 or not all(isinstance(part, Tensor) for part in parts):
        kinds = ", ".join(type(part).__name__ for part in parts)
        raise Stop(wrong(f"return two tensors, context and weights, not: {kinds}"))
    return output


def _as_tuple(output):
    return tuple(output) if isinstance(output, list) else output


def _name_failure(stop, function, mistakes, square) -> None:
    """Name the mistake that made the code stop: sizes that are all alike let it run."""
    output = _as_tuple(attempt(function, *square))
    text = ""
    if same(output, version(*square)):
        text = "it is right only where all axes have the same size: two are mixed up"
    elif made := recognise(output, version, mistakes, square):
        text = _named(made)
    if text:
        raise Stop(wrong(f"{text} ({stop.finding.text})")) from None


def _named(made: Iterable[Mistake]) -> str:
    return "; and ".join(f"{mistake.name}: {mistake.hint}" for mistake in made)


def _unnamed(output, expected) -> str:
    """What can be said of a wrong output that no known mistake gives."""
    if isinstance(output, Tensor):
        return f"one tensor of shape {tuple(output.shape)}, where two are due: {BOTH}"
    for name, yours, due in zip(("context", "weights"), output, expected, strict=True):
        if yours.shape != due.shape:
            return f"{name} has shape {tuple(yours.shape)}, not {tuple(due.shape)}"
        if not yours.isfinite().all():
            return f"{name} holds NaN or infinity: print the scores before the softmax"
    (context, weights), (_, due) = output, expected
    if same(weights, due):
        return "the weights are right but the context is not: it is `weights @ value`"
    if same(context, expected[0]):
        return "the context is right but the second result is not its weights"
    sums = weights.double().sum(-1)
    if not torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        return (
            f"a row of weights sums to {sums.flatten()[0]:.3f}, not to 1: {OVER_KEYS}"
        )
    return "the rows sum to 1, but the weights differ from the expected ones: see below"


def _picture(output, expected):
    """A picture of the first head's weights, if the learner's have the right shape."""
    if isinstance(output, Tensor) or output[1].shape != expected[1].shape:
        return None
    return partial(weights_beside, output[1][0, 0], expected[1][0, 0])


def _demand_gradients(function, probe) -> Iterator[Finding]:
    inputs = [x.clone().requires_grad_() for x in probe[:3]]
    context = attempt(function, *inputs, *probe[3:])[0]
    reached = [None] * 3
    if context.requires_grad:
        reached = torch.autograd.grad(context.square().sum(), inputs, allow_unused=True)
    lost = [
        name
        for name, gradient in zip(("query", "key", "value"), reached, strict=True)
        if gradient is None or not gradient.any()
    ]
    if lost:
        yield wrong(
            f"no gradient reaches {', '.join(lost)}, so nothing could be learnt: no "
            "`detach`, `no_grad`, `.data`, numpy or `torch.tensor(…)` on the way"
        )
    else:
        yield right("gradients reach query, key and value")


def _loud_hidden_key(function, seed) -> Finding:
    """Renormalising after the softmax looks right until a hidden score is large."""
    query, key, value = _probe(seed, *SIZES)
    query[..., 0], key[..., -1, 0] = 10.0, 1000.0
    mask = torch.ones(key.size(-2), dtype=torch.bool)
    mask[-1] = False
    inputs = query, key, value, mask.expand(2, 1, 1, -1)
    if same(tuple(attempt(function, *inputs)), version(*inputs)):
        return right("a hidden key does no harm, however large its score")
    return wrong(
        "a hidden key with a large score still does harm: the mask comes after the "
        "softmax, with the rows renormalised; hide the scores, before the softmax"
    )


def _nothing_to_see(function, seed) -> Finding:
    """All keys hidden from one query: zeros are best, anything finite will do."""
    inputs = *_probe(seed, *SIZES), _mask(*SIZES[:4])
    inputs[3][0, 0, 0] = False
    context, weights = attempt(function, *inputs)
    if not (context.isfinite().all() and weights.isfinite().all()):
        return wrong(
            "a query that may attend to nothing gets NaN (a row of -∞ goes into the "
            "softmax): set hidden weights to 0 after the softmax, too"
        )
    if weights[0, 0, 0].any():
        return right(
            "a query that may attend to nothing gets no NaN (but hidden values)"
        )
    return right("a query that may attend to nothing gets zeros, not NaN")


# Exercise 02.2: what to read off, the right answers, and wrong ones with their reason.
SHAPE_ANSWERS = {
    "weights_shape": (
        [(32, 8, 7, 9)],
        {
            (32, 8, 9, 7): "queries come before keys: who asks? The French words",
            (32, 7, 9): "each of the 8 heads has its own weights",
            (8, 7, 9): "each of the 32 pairs has its own weights",
            (32, 8, 7, 7): "the keys are the English words",
            (32, 8, 9, 9): "the queries are the French words",
            (32, 8, 7, 64): "a weight for each key, not for each feature",
        },
    ),
    "context_shape": (
        [(32, 8, 7, 48)],
        {
            (32, 8, 7, 64): "the context is made of values, whose size is d_value",
            (32, 8, 9, 48): "one context for each query: who asks? The French words",
            (32, 8, 9, 64): "one context for each query, made of values",
            (32, 8, 48, 7): "features stay in the last axis",
            (32, 7, 48): "each of the 8 heads has its own context",
        },
    ),
    "sum_axis": (
        [-1, 3],
        {
            -2: "along -2 lie the queries, and they do not share a weight of 1",
            2: "along 2 lie the queries, and they do not share a weight of 1",
            1: "along 1 lie the heads: each has weights of its own",
            0: "along 0 lie the sentence pairs: they know nothing of each other",
        },
    ),
    "mask_shape": (
        [(32, 1, 1, 9)],
        {
            (
                32,
                8,
                7,
                9,
            ): "right but not the smallest: what do heads and queries share?",
            (32, 1, 7, 9): "right but not the smallest: all queries share it",
            (32, 8, 1, 9): "right but not the smallest: all heads share it",
            (32, 1, 1, 7): "padding among the keys is hidden: the English words",
            (32, 1, 7, 1): "that hides queries; padding among the keys is to be hidden",
            (32, 1, 9, 1): "keys lie along the last axis",
            (1, 1, 1, 9): "every sentence has padding of its own length",
            (32, 9): "broadcasting starts at the right: 32 would meet the 7 queries",
        },
    ),
}


@check
def shapes(**answers) -> Iterator[Finding]:
    """Exercise 02.2: weights_shape, context_shape, sum_axis and mask_shape."""
    for name, (due, mistakes) in SHAPE_ANSWERS.items():
        answer = answers.get(name)
        answer = tuple(answer) if isinstance(answer, list | tuple) else answer
        # Compared one by one: an answer may be anything, and need not be hashable.
        known = isinstance(answer, int | tuple)
        reasons = [why for bad, why in mistakes.items() if known and bad == answer]
        if answer is None or answer is Ellipsis:
            yield untried(f"{name}: not attempted yet")
        elif known and answer in due:
            yield right(f"{name} = {answer}")
        elif reasons:
            yield wrong(f"{name} = {answer}: {reasons[0]}")
        else:
            kind = (
                "the number of an axis"
                if name == "sum_axis"
                else "a tuple of four sizes"
            )
            yield wrong(f"{name} = {answer!r:.60}: {kind} is due, see the text")


@check
def one_place_back(function: Callable) -> Iterator[Finding]:
    """Exercise 02.4: `function(length)` returns query and key (length, d_head)."""
    for length in (5, 2, 12):
        weights = _weights_of(attempt(function, length), length)
        due = torch.eye(length).roll(-1, dims=1).tril()
        due[0, 0] = 1.0
        due[-1, 0] = float(length == 2)
        _demand_weights(weights, due)
        yield right(
            f"length {length}: the right key gets at least {_share(weights, due):.2f}"
        )


def _share(weights: Tensor, due: Tensor) -> float:
    return weights[due.bool()].min().item()


def _weights_of(output, length) -> Tensor:
    """The attention weights that a learner's query and key give."""
    pair = tuple(output) if isinstance(output, list | tuple) else ()
    if len(pair) != 2 or not all(isinstance(part, Tensor) for part in pair):
        raise Stop(wrong(f"return two tensors, query and key, not {output!r:.60}"))
    query, key = pair
    if query.dim() != 2 or query.shape != key.shape or len(query) != length:
        found = tuple(query.shape), tuple(key.shape)
        raise Stop(
            wrong(
                f"length {length}: query and key are both to have the shape "
                f"({length}, d_head), not {found[0]} and {found[1]}"
            )
        )
    value = torch.zeros(length, 1)
    return version(query.detach().float(), key.detach().float(), value)[1]


def _demand_weights(weights: Tensor, due: Tensor) -> None:
    """Stop unless at least 0.9 of each row's weight is where it is due."""
    if not weights.isfinite().all():
        raise Stop(wrong("the weights hold NaN: query or key hold NaN or infinity"))
    if _share(weights, due) < 0.9:
        text = f"length {len(due)}: {_misplaced(weights, due)}"
        raise Stop(wrong(text, partial(weights_beside, weights, due)))


def _misplaced(weights: Tensor, due: Tensor) -> str:
    """Where the weights go instead."""
    here = torch.arange(len(due))
    found, wanted = weights.argmax(-1), due.argmax(-1)
    if (weights.amax(-1) - weights.amin(-1)).max() < 1e-3:
        return "every key gets the same weight: query and key do not tell places apart"
    if torch.equal(found, wanted):
        return (
            f"the right keys win, but one gets only {_share(weights, due):.2f}: larger "
            "scores make the look-up harder, and √d_head makes yours smaller"
        )
    if torch.equal(found, here):
        return "every token looks at itself: shift the query, or the key, by one place"
    if torch.equal(found[1:-1], here[2:]):
        return "every token looks ahead: query and key are swapped, or the shift is"
    if torch.equal(found[1:], wanted[1:]):
        return "only the first token is wrong: nothing is before it, so itself is due"
    return "the largest weights are not one place back: compare the pictures"
