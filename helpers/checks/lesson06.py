"""Checks for the exercises of lesson 06, the encoder."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers.attention import MultiHeadAttention
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
from helpers.layers import FeedForward, LayerNorm
from helpers.plots import heatmap
from helpers.probes import influence


def _short(answer) -> str:
    """The beginning of what was handed in, on one line."""
    return " ".join(repr(answer).split())[:60]


def _plain(answer):
    """A list as a tuple, and PyTorch's or numpy's number as one of Python's."""
    if isinstance(answer, list):
        return tuple(answer)
    try:
        return answer.item()
    except (AttributeError, RuntimeError, ValueError):
        return answer


# ---------------------------------------------------------------- 06.1 a layer


def version(x, mask, self_attention, feed_forward, norm_1, norm_2, **steps):
    """A norm-first encoder layer with some of its STEPS done in another way.

    Without `steps` it is `EncoderLayer(…, norm_first=True)` made of these parts.
    """
    steps = STEPS | steps
    seen = steps["hide"](mask)

    def attend(query, key, value):
        return self_attention(query, key, value, seen)

    norms = steps["norms"](norm_1, norm_2)
    return steps["whole"](x, attend, feed_forward, *norms, steps)


def _whole(x, attend, feed_forward, norm_1, norm_2, steps):
    y = steps["first"](x, lambda z: attend(z, z, z), norm_1, attend)
    return steps["second"](y, feed_forward, norm_2, x)


def _norm_first(x, sublayer, norm, *_):
    return x + sublayer(norm(x))


# A mistake is another way to do one of these, or two.
STEPS = {
    "hide": lambda mask: mask,
    "norms": lambda norm_1, norm_2: (norm_1, norm_2),
    "whole": _whole,
    "first": _norm_first,
    "second": _norm_first,
}


def _around_both(x, attend, feed_forward, norm_1, norm_2, steps):
    y = norm_1(x)
    return x + feed_forward(norm_2(attend(y, y, y)))


def _swapped(x, attend, feed_forward, norm_1, norm_2, steps):
    y = steps["second"](x, feed_forward, norm_2, x)
    return steps["first"](y, lambda z: attend(z, z, z), norm_1, attend)


def _side_by_side(x, attend, feed_forward, norm_1, norm_2, steps):
    y = norm_1(x)
    return x + attend(y, y, y) + feed_forward(norm_2(x))


def _in_half(half, sublayer):
    """The mistakes that can be made in either half."""
    ways = (
        (
            "the norm comes last",
            "that is the paper's layer; norm first leaves the sum as it is: "
            "`x + sublayer(norm(x))`",
            lambda x, f, norm, *_: norm(x + f(x)),
        ),
        (
            "there is no norm",
            f"the {sublayer} gets the normed input: `x + sublayer(norm(x))`",
            lambda x, f, norm, *_: x + f(x),
        ),
        (
            "there is no residual connection",
            f"add what the {sublayer} makes of it to the half's input: `x + …`",
            lambda x, f, norm, *_: f(norm(x)),
        ),
        (
            "the residual starts from the normed input",
            "the sum keeps the input as it came; the norm is for the sublayer alone",
            lambda x, f, norm, *_: norm(x) + f(norm(x)),
        ),
        (
            "the norm stands behind the sublayer",
            "norm what goes in, not what comes out: `x + sublayer(norm(x))`",
            lambda x, f, norm, *_: x + norm(f(x)),
        ),
        (
            "the sum is normed as well",
            "norm what goes into the sublayer, once; the sum stays as it is",
            lambda x, f, norm, *_: norm(x + f(norm(x))),
        ),
    )
    name = "first" if sublayer == "attention" else "second"
    return [Mistake(f"{half}: {text}", hint, {name: step}) for text, hint, step in ways]


NORM_ALL_THREE = (
    "query, key and value are all the normed input: `y = norm_1(x)`, then "
    "`self_attention(y, y, y, mask)`"
)

MISTAKES = [
    Mistake(
        "the mask is forgotten",
        "hand it on: `self_attention(y, y, y, mask)`; without it padding is heard",
        {"hide": lambda mask: None},
    ),
    Mistake(
        "the mask is inverted",
        "True = may attend, in the attention as in the mask: hand it on as it is",
        {"hide": lambda mask: None if mask is None else ~mask},
    ),
    Mistake(
        "both halves use norm_1",
        "each half has a norm of its own, with its own gain and bias",
        {"norms": lambda norm_1, norm_2: (norm_1, norm_1)},
    ),
    Mistake(
        "both halves use norm_2",
        "each half has a norm of its own, with its own gain and bias",
        {"norms": lambda norm_1, norm_2: (norm_2, norm_2)},
    ),
    Mistake(
        "the two norms are swapped",
        "norm_1 belongs to the attention, norm_2 to the feed-forward network",
        {"norms": lambda norm_1, norm_2: (norm_2, norm_1)},
    ),
    Mistake(
        "one residual goes around both halves",
        "there are two: the sum after the attention is the input of the second half",
        {"whole": _around_both},
    ),
    Mistake(
        "the feed-forward half comes first",
        "attention first: look around, then think",
        {"whole": _swapped},
    ),
    Mistake(
        "both halves start from x",
        "the second half starts from the sum that the first half gives",
        {"whole": _side_by_side},
    ),
    Mistake(
        "only the query is normed",
        NORM_ALL_THREE,
        {"first": lambda x, f, norm, attend: x + attend(norm(x), x, x)},
    ),
    Mistake(
        "the query is not normed",
        NORM_ALL_THREE,
        {"first": lambda x, f, norm, attend: x + attend(x, norm(x), norm(x))},
    ),
    Mistake(
        "the value is not normed",
        NORM_ALL_THREE,
        {"first": lambda x, f, norm, attend: x + attend(norm(x), norm(x), x)},
    ),
    Mistake(
        "the second half adds to x",
        "it adds to its own input, the sum that the first half gives; yours loses what "
        "the attention brought",
        {"second": lambda y, f, norm, x: x + f(norm(y))},
    ),
    Mistake(
        "the attention half is missing",
        "first half: `x = x + self_attention(y, y, y, mask)` with `y = norm_1(x)`",
        {"first": lambda x, *_: x},
    ),
    Mistake(
        "the feed-forward half is missing",
        "second half: `x + feed_forward(norm_2(x))`",
        {"second": lambda y, *_: y},
    ),
    *_in_half("first half", "attention"),
    *_in_half("second half", "feed-forward network"),
]


def _parts(seed: int, d_model: int = 8, n_heads: int = 2, d_ff: int = 12) -> list:
    """Attention, feed-forward and two norms; all weights, gains and biases random."""
    generator = torch.Generator().manual_seed(seed)
    parts = [MultiHeadAttention(d_model, n_heads), FeedForward(d_model, d_ff)]
    parts += [LayerNorm(d_model), LayerNorm(d_model)]
    with torch.no_grad():
        for name, weight in nn.ModuleList(parts).named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            centre = float(name.endswith("gain"))
            weight.copy_(centre + noise * (0.5 if weight.dim() == 1 else 0.6))
    return parts


def _probe(seed: int, batch: int, length: int, d_model: int) -> tuple[Tensor, Tensor]:
    """Random input, and a mask that hides a different number of keys in each row."""
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.randn(batch, length, d_model, generator=generator)
    real = length - 1 - torch.arange(batch) % (length - 1)
    return x, (torch.arange(length) < real[:, None])[:, None, None, :]


@check
def assembled_layer(function: Callable, *, seed: int = 0) -> Iterator[Finding]:
    """Exercise 06.1: `function(x, mask, attention, feed_forward, norm_1, norm_2)`.

    x (batch, length, d_model), mask (batch, 1, 1, length) or None; output like x.
    """
    inputs = *_probe(seed, 3, 5, 8), *_parts(seed)
    with torch.no_grad():
        _demand_layer(function, inputs)
        yield right("output: (batch, length, d_model), equal to the expected one")
        yield right("the padding stays hidden")
        _demand_layer(function, (inputs[0], None, *inputs[2:]), "without a mask")
        yield right("without a mask it works too")
        other = *_probe(seed + 1, 2, 4, 12), *_parts(seed + 1, 12, 3, 20)
        _demand_layer(function, other, "with other sizes")
        yield right("other sizes work too")
    x = inputs[0].clone().requires_grad_()
    output = attempt(function, x, *inputs[1:])
    reached = None
    if output.requires_grad:
        (reached,) = torch.autograd.grad(output.square().sum(), x, allow_unused=True)
    if reached is None or not reached.any():
        yield wrong(
            "no gradient reaches x: no `detach`, `.data` or `no_grad` in a layer"
        )
    else:
        yield right("gradients reach x")


def _demand_layer(function, inputs, when="") -> None:
    """Stop with a finding unless the function gives what the layer should give."""
    before = f"{when}: " if when else ""
    try:
        output, expected = attempt(function, *inputs), version(*inputs)
    except Stop as stop:
        if stop.finding.mark == "✗":
            raise Stop(wrong(before + stop.finding.text)) from None
        raise
    if same(output, expected):
        return
    text = _shape_fault(output, expected)
    draw = None
    if not text:
        made = recognise(output, version, MISTAKES, inputs)
        text = "; and ".join(f"{mistake.name}: {mistake.hint}" for mistake in made)
        if not made or any("mask" in mistake.name for mistake in made):
            draw = partial(_influence_beside, function, inputs)
        text = (
            text or "the numbers differ from the expected ones; below, who hears whom"
        )
    raise Stop(wrong(before + text, draw))


def _shape_fault(output, expected: Tensor) -> str:
    if not isinstance(output, Tensor):
        return f"return one tensor, not a {type(output).__name__}"
    if output.shape != expected.shape:
        return (
            f"the output has shape {tuple(output.shape)}, not {tuple(expected.shape)}"
        )
    if not output.isfinite().all():
        return "the output holds NaN or infinity: is a query left with nothing to see?"
    return ""


def _influence_beside(function, inputs) -> None:
    """Draw for the first sentence which input reaches which output, and should."""
    x, mask, *parts = inputs
    x, mask = x[:1], None if mask is None else mask[:1]
    hidden = (
        torch.zeros(x.size(1), dtype=torch.bool) if mask is None else ~mask[0, 0, 0]
    )
    labels = [f"{i + 1}{' (pad)' * int(pad)}" for i, pad in enumerate(hidden.tolist())]
    try:
        with torch.enable_grad():
            reach = [
                influence(lambda z, layer=layer: layer(z, mask, *parts), x)
                for layer in (function, version)
            ]
    except Exception:  # a picture is no reason to stop
        return
    if reach[0].shape != reach[1].shape:
        return
    top = max(part.max().item() for part in reach)
    _, axes = plt.subplots(1, 2, figsize=(7, 3.1))
    for ax, part, whose in zip(axes, reach, ("yours", "expected"), strict=True):
        options = {"title": whose, "highest": top, "colour_bar": False}
        heatmap(part, labels, labels, ax=ax, **options)
        ax.set(xlabel="input", ylabel="output")
    plt.show()


# ------------------------------------------------------- 06.2 shapes and sizes

LAYERS, D, HEADS, FF = 3, 48, 4, 96


def _layer_size(projections=4, bias=1, norms=2, copies=1):
    attention = projections * (copies * D * D + bias * D)
    return attention + 2 * D * FF + bias * (FF + D) + norms * 2 * D


def _encoder_size(last_norm=1, **options):
    return LAYERS * _layer_size(**options) + last_norm * 2 * D


ODD_SIZES = {  # ways to miscount a layer, with the reason
    "the biases are missing: each linear layer has one per output": {"bias": 0},
    "the norms are missing: a gain and a bias per feature, two norms": {"norms": 0},
    "a layer has two norms, one for each half": {"norms": 1},
    "attention has a fourth projection, for the output": {"projections": 3},
    "the heads share the projections' d_model columns: more heads, the same weights": {
        "copies": HEADS
    },
}
SIZE_ANSWERS = {
    "output_shape": (
        (5, 7, D),
        {
            (5, D): "a vector for every token, not one for the sentence",
            (5, 7, FF): "d_ff exists only inside the feed-forward network",
            (7, 5, D): "the batch comes first",
            (5, 7, 7): "these would be attention weights (of one head)",
            (5, 7): "each token has a vector, of d_model features",
            (3, 5, 7, D): "layers stand on one another; the last one's output counts",
            (5, HEADS, 7, D // HEADS): "the heads are joined again before the output",
        },
    ),
    "weights_shape": (
        (5, HEADS, 7, 7),
        {
            (5, 7, 7): "each of the 4 heads has weights of its own",
            (HEADS, 7, 7): "each of the 5 sentences has weights of its own",
            (5, 7, D): "a weight for each pair of tokens, not for each feature",
            (5, HEADS, 7, D // HEADS): "a weight for each key, not for each feature",
            (5, 7, HEADS, 7): "the heads come before the queries",
            (HEADS, 5, 7, 7): "the batch comes first, then the heads",
            (LAYERS, 5, HEADS, 7, 7): "one layer was asked for",
            (5, 1, 1, 7): "that is the mask",
            (5, HEADS, 7): "every query has weights for every key",
        },
    ),
    "layer_parameters": (
        _layer_size(),
        {_layer_size(**odd): why for why, odd in ODD_SIZES.items()}
        | {_encoder_size(): "that is the whole encoder"},
    ),
    "encoder_parameters": (
        _encoder_size(),
        {_encoder_size(**odd): why for why, odd in ODD_SIZES.items()}
        | {
            _encoder_size(last_norm=0): "with norm first one norm follows at the end",
            _layer_size(): "that is one layer",
        },
    ),
    "with_8_heads": (
        _encoder_size(),
        {
            2 * _encoder_size(): "twice the heads, each half as wide",
            _encoder_size(copies=8): "twice the heads, each half as wide",
            _encoder_size(copies=2): "twice the heads, each half as wide",
            _encoder_size(last_norm=0): "with norm first one norm follows at the end",
        },
    ),
}


AXES = {
    "output_shape": "(batch, length, d_model)",
    "weights_shape": "(batch, heads, query_length, key_length)",
}


@check
def sizes(**answers) -> Iterator[Finding]:
    """Exercise 06.2: two shapes and three numbers of parameters."""
    for name, (due, mistakes) in SIZE_ANSWERS.items():
        answer = _plain(answers.get(name))
        kind = tuple if isinstance(due, tuple) else int | float
        known = isinstance(answer, kind) and not isinstance(answer, bool)
        reasons = [why for bad, why in mistakes.items() if known and bad == answer]
        shown = f"{answer:,}" if known and kind is not tuple else answer
        if answer is None or answer is Ellipsis:
            yield untried(f"{name}: not attempted yet")
        elif known and answer == due:
            yield right(f"{name} = {shown}")
        elif reasons:
            yield wrong(f"{name} = {shown}: {reasons[0]}")
        elif not known:
            wanted = "a tuple of sizes" if kind is tuple else "a number"
            yield wrong(f"{name} = {_short(answer)}: {wanted} is due")
        elif kind is tuple:
            yield wrong(f"{name} = {shown!s:.60}: its axes are {AXES[name]}")
        else:
            hint = _size_hint(name, answer)
            yield wrong(f"{name} = {shown}: {hint}")


def _size_hint(name: str, answer: float) -> str:
    """How to count again, without giving the number away."""
    way = "too many" if answer > SIZE_ANSWERS[name][0] else "too few"
    if name == "layer_parameters":
        return f"{way}: add up four projections, two matrices, their biases, two norms"
    if name == "encoder_parameters":
        return f"{way}: three layers, and what follows them with norm first"
    return f"{way}: which sizes does the number of heads change?"


# ------------------------------------------------------------ 06.3 find a head

DECOYS = {
    "one story": "looks right in the first story alone: take the mean over the batch",
    "turned": "looks from key to query: rows are queries and columns keys, so the "
    "weight is `weights[story, head, query, right[story, query]]`",
    "last key": "looks at the last key wherever nothing is to be looked for: -1 as an "
    "index means the last one, so leave these queries out",
    "first key": "looks at the first key wherever nothing is to be looked for: -1 made "
    "into 0 is a key as well, so leave these queries out",
    "one peak": "has a single perfect query: take the mean, not the maximum",
    "sharp": "puts nearly all its weight on one key, but not on the right one",
}
NAMES = [f"encoder.layers.{layer}.self_attention" for layer in range(3)]


def hidden_head(seed: int) -> tuple[dict[str, Tensor], Tensor, dict]:
    """Maps of three layers with three heads, the right keys, and who sits where.

    The last is {(layer's name, head): "found" or a decoy's name}, seven of the nine.
    """
    generator = torch.Generator().manual_seed(seed)
    batch, heads, length = 8, 3, 6
    # Every story asks at its first query, and some queries ask for nothing.
    keys = torch.randint(length - 1, (batch, length), generator=generator)
    keys[torch.rand(batch, length, generator=generator) < 0.6] = -1
    keys[:, 0] = torch.randint(1, length - 1, (batch,), generator=generator)
    noise = torch.rand(9, batch, length, length, generator=generator)
    maps = (2 * noise).softmax(dim=-1)
    asks = (keys >= 0)[..., None]
    wanted = F.one_hot(keys.clamp(min=0), length) * asks
    story = torch.arange(batch)[:, None, None]
    query = torch.arange(length)[:, None]
    end = F.one_hot(torch.tensor(length - 1), length)
    turned = wanted.mT / wanted.mT.sum(dim=-1, keepdim=True).clamp(min=1)
    # For each head: in which rows it looks, at what, with which weight.
    looks = {
        "found": (asks, wanted, 0.6),
        "one story": (asks & (story == 0), wanted, 0.99),
        "turned": (turned.sum(dim=-1, keepdim=True) > 0, turned, 0.99),
        "last key": (~asks, end, 0.99),
        "first key": (~asks, end.flip(0), 0.99),
        "one peak": ((story == 2) & (query == 0), wanted, 0.999),
        "sharp": (asks | ~asks, F.one_hot((keys + 2) % length, length), 0.97),
    }
    places, who = torch.randperm(9, generator=generator).tolist(), {}
    for place, (name, (rows, target, weight)) in zip(
        places, looks.items(), strict=False
    ):
        mixed = (1 - weight) * maps[place] + weight * target
        maps[place] = torch.where(rows, mixed, maps[place])
        who[NAMES[place // heads], place % heads] = name
    weights = maps.unflatten(0, (3, heads)).transpose(1, 2)
    return dict(zip(NAMES, weights.contiguous(), strict=True)), keys, who


@check
def finds_head(function: Callable, *, seed: int = 0) -> Iterator[Finding]:
    """Exercise 06.3: `function(maps, right)` returns (name of the layer, head).

    maps {name: (batch, heads, query_length, key_length)}, right (batch, query_length).
    """
    for trial in range(5):
        maps, keys, who = hidden_head(10 * seed + trial)
        found = _head(attempt(function, dict(maps), keys), maps)
        (due,) = (place for place, name in who.items() if name == "found")
        if found != due:
            text = f"{found[0]}, head {found[1]}: {_misled(who.get(found))}"
            yours, expected = (maps[name][1, head] for name, head in (found, due))
            raise Stop(wrong(text, partial(weights_beside, yours, expected)))
    yield right("five times the head was found, among six decoys and two of noise")


def _head(answer, maps: Mapping[str, Tensor]) -> tuple[str, int]:
    """The learner's answer as (name, head); Stop if it is none."""
    pair = _plain(answer)
    if not isinstance(pair, tuple) or len(pair) != 2:
        text = f"return two things, the layer's name and the head, not {_short(answer)}"
        raise Stop(wrong(text))
    name, head = pair[0], _plain(pair[1])
    if not isinstance(name, str) or name not in maps:
        names = ", ".join(maps)
        raise Stop(wrong(f"the layer is one of {names}, not {_short(name)}"))
    last = maps[name].size(1) - 1
    if not isinstance(head, int | float) or head not in range(last + 1):
        text = f"the head is a number from 0 to {last}, not {_short(head)}"
        raise Stop(wrong(text))
    return name, int(head)


def _misled(decoy: str | None) -> str:
    if decoy is None:
        return (
            "there is only noise: another head has more weight on the right keys. Did "
            "you compare the heads of all layers, and count them from 0?"
        )
    return f"that head {DECOYS[decoy]}"
