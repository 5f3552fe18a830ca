"""The checks of lesson 16: conventions, whose numbers these are, small keys.

To read ORDER is to spoil exercise 16.2.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor
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
    wrong,
)
from helpers.interop import mapping
from helpers.readings.pure_attention import AttentionWithNorm

# --- 16.1: conventions ----------------------------------------------------------------


def _visible(valid_lens: Tensor, length: int) -> Tensor:
    return (torch.arange(length) < valid_lens[:, None])[:, None, None]


def _turned(hidden: Tensor) -> Tensor:
    return ~hidden[:, None]


POLARITY = "True must mean may attend; yours is True where a key is hidden"
NO_HEADS = "the axis of heads is missing: size 1 at place 1, for all heads alike"
LENGTH_MISTAKES = [
    (lambda n, k: ~_visible(n, k), POLARITY),
    (lambda n, k: _visible(n + 1, k), "one key too many: positions count from 0, so "
     "with 3 valid keys position 3 is hidden; `<`, not `<=`"),
    (lambda n, k: _visible(n - 1, k), "one key too few: the last valid one is hidden"),
    (lambda n, k: _visible(n, k)[:, 0, 0], "the axes of heads and of queries are "
     "missing: (batch, length) would meet (query_length, key_length)"),
    (lambda n, k: _visible(n, k)[:, 0], NO_HEADS),
    (lambda n, k: _visible(n, k).mT, "that hides queries; keys lie along the last "
     "axis"),
    (lambda n, k: _visible(n, k).flip(-1), "the valid keys stand on the left"),
]  # fmt: skip
HIDDEN_MISTAKES = [
    (lambda hidden: hidden[:, None], POLARITY),
    (lambda hidden: ~hidden, NO_HEADS),
    (lambda hidden: hidden, f"{POLARITY}; and {NO_HEADS}"),
    (lambda hidden: ~hidden[:, None].mT, "queries and keys have changed places: no "
     "transposition is needed"),
    (lambda hidden: ~hidden[:, :, None], "the new axis stands among the wrong ones: "
     "heads come second, (batch, heads, query_length, key_length)"),
]  # fmt: skip


@check
def masks(from_lengths: Callable, from_hidden: Callable) -> Iterator[Finding]:
    """Exercise 16.1: two functions that give the course's masks."""
    lens = torch.tensor([5, 3, 1])
    hidden = torch.rand(3, 4, 6, generator=torch.Generator().manual_seed(0)) < 0.5
    square = hidden[:, :, :4]
    for name, function, reference, probes, mistakes in (
        ("from_lengths", from_lengths, _visible, [(lens, 5), (lens, 7)],
         LENGTH_MISTAKES),
        ("from_hidden", from_hidden, _turned, [(hidden,), (square,)], HIDDEN_MISTAKES),
    ):  # fmt: skip
        try:
            for inputs in probes:
                _compare_mask(name, function, reference, inputs, mistakes)
        except Stop as stop:
            mark, text = stop.finding.mark, stop.finding.text
            yield Finding(mark, text if text.startswith(name) else f"{name}: {text}")
        else:
            yield right(f"{name}: the course's mask, boolean, in the right shape")


def _compare_mask(name, function, reference, inputs, mistakes) -> None:
    """Stop unless function(*inputs) is the reference's mask."""
    yours, due = attempt(function, *inputs), reference(*inputs)
    if not isinstance(yours, Tensor):
        raise Stop(wrong(f"{name}: return a tensor, not a {type(yours).__name__}"))
    if _alike(yours, due) and yours.dtype == torch.bool:
        return
    if _alike(yours, due):
        raise Stop(
            wrong(
                f"{name}: the right entries, but as {yours.dtype}: a mask is boolean, "
                "so that 0 and 1 cannot be read the other way round"
            )
        )
    for make, text in mistakes:
        if _alike(yours, make(*inputs)):
            raise Stop(wrong(f"{name}: {text}"))
    if yours.shape != due.shape:
        shapes = f"{tuple(yours.shape)}, not {tuple(due.shape)}"
        raise Stop(wrong(f"{name}: the mask has the shape {shapes}"))
    places = int((yours.bool() != due).sum())
    raise Stop(wrong(f"{name}: {places} of {due.numel()} entries are wrong"))


def _alike(yours: Tensor, expected: Tensor) -> bool:
    """Same shape and, as booleans, same entries."""
    return yours.shape == expected.shape and torch.equal(yours.bool(), expected)


# --- 16.2: whose numbers --------------------------------------------------------------

ORDER = "DACB"  # the memories 1 to 4
SIGNS = {
    "A": "A's stack is closed by nothing, so the variances may be anything but all 1",
    "B": "B's norm gives the whole sentence the variance 1, and each position its own",
    "C": "C divides by the unbiased deviation: `var(-1, correction=1)` is 1 everywhere",
    "D": "D divides by the biased deviation: `var(-1, correction=0)` is 1 everywhere",
}


def memories() -> dict[int, Tensor]:
    """What four untrained encoders make of six words, each (6, 32)."""
    from helpers.readings import build_reading
    from helpers.readings.d2l_blocks import blocks_model
    from helpers.transformer import TransformerConfig

    sizes = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 2, "dropout": 0.0}
    words = torch.tensor([[4, 9, 14, 19, 24, 29]])
    made = {}
    with torch.random.fork_rng(), torch.no_grad():
        for number, key in enumerate(ORDER, start=1):
            torch.manual_seed(number)
            if key == "B":  # as printed
                config = TransformerConfig(40, 40, share_embeddings=False, **sizes)
                model = blocks_model(config, norm_length=6)
            else:
                model = build_reading(key, 40, 40, **sizes)
            made[number] = model.eval().encode(words)[0]
    return made


@check
def whose(answers: dict[int, str | None]) -> Iterator[Finding]:
    """Exercise 16.2: the letter of the reading that made each memory."""
    for number, memory in memories().items():
        answer, due = answers.get(number), ORDER[number - 1]
        letter = answer.strip().upper() if isinstance(answer, str) else answer
        if answer is None or answer is Ellipsis:
            yield untried(f"{number}: not attempted yet")
        elif letter == due:
            yield right(f"{number} is {due}'s: {SIGNS[due]}")
        elif letter in list(SIGNS):
            yield wrong(f"{number} is not {letter}'s: {SIGNS[letter]}; {_seen(memory)}")
        else:
            yield wrong(f'{number}: one of "A", "B", "C", "D" is due, not {answer!r}')


def _seen(memory: Tensor) -> str:
    """The numbers that speak against a wrong answer."""
    low, high = (
        [f"{x:.3f}" for x in memory.var(-1, correction=c).aminmax()] for c in (0, 1)
    )
    whole = memory.var(correction=0)
    return (
        f"here the positions' variances run from {low[0]} to {low[1]} (biased) or from "
        f"{high[0]} to {high[1]} (unbiased), and the sentence's is {whole:.3f}"
    )


# --- 16.3: small keys -----------------------------------------------------------------


def _widened(weight: Tensor, heads: int, d_head: int) -> Tensor:
    """Rows of zeros at the end of each head."""
    by_head = weight.unflatten(0, (heads, -1))
    return F.pad(by_head, (0, 0, 0, d_head - by_head.size(1))).flatten(0, 1)


def _widened_last(weight: Tensor, heads: int, d_head: int) -> Tensor:
    return F.pad(weight, (0, 0, 0, heads * d_head - weight.size(0)))


def _widened_first(weight: Tensor, heads: int, d_head: int) -> Tensor:
    return F.pad(weight, (0, 0, heads * d_head - weight.size(0), 0))


def mapped(
    theirs: AttentionWithNorm,
    *inputs: Tensor,
    widen: Callable = _widened,
    scale: Callable = lambda ratio: (ratio, 1.0),
    order: tuple[int, int] = (0, 1),
) -> Tensor:
    """What the course's attention gives once theirs is mapped into it.

    inputs are query, key, value and mask. The exercise's steps can be done otherwise.
    """
    heads, d_model = theirs.n_heads, theirs.fc.out_features
    d_head = d_model // heads
    ratio = (d_head * heads / theirs.w_qs.out_features) ** 0.5
    ours = MultiHeadAttention(d_model, heads)
    parts = theirs.w_qs.weight, theirs.w_ks.weight
    sides = ours.query_projection, ours.key_projection
    for side, i, factor in zip(sides, order, scale(ratio), strict=True):
        side.weight.copy_(factor * widen(parts[i], heads, d_head))
        side.bias.zero_()
    mapping.copy_linear(theirs.w_vs, ours.value_projection)
    mapping.copy_linear(theirs.fc, ours.output_projection)
    return ours(*inputs)


SMALL_KEY_MISTAKES = [
    Mistake(
        "the scores are not scaled alike",
        "they divide by √d_k, your attention by √d_head: multiply the queries' weight "
        "by √(d_head / d_k)",
        {"scale": lambda ratio: (1.0, 1.0)},
    ),
    Mistake(
        "the scores grow by d_head / d_k",
        "√(d_head / d_k) is due: the root is missing, or queries and keys both have it",
        {"scale": lambda ratio: (ratio**2, 1.0)},
    ),
    Mistake(
        "the scale is upside down",
        "your attention divides by the larger number, so multiply by √(d_head / d_k)",
        {"scale": lambda ratio: (1 / ratio, 1.0)},
    ),
    Mistake(
        "all zeros come after the last head",
        "heads are cut off in runs of d_head rows, so the zeros belong at the end of "
        "each head: take the heads apart first, `weight.unflatten(0, (n_heads, d_k))`",
        {"widen": _widened_last},
    ),
    Mistake(
        "all zeros come before the first head",
        "heads are cut off in runs of d_head rows, so each head needs zeros of its own",
        {"widen": _widened_first},
    ),
    Mistake(
        "queries and keys have changed places",
        "w_qs is the queries', w_ks the keys'",
        {"order": (1, 0)},
    ),
]


@check
def small_keys(function: Callable) -> Iterator[Finding]:
    """Exercise 16.3: `function(theirs, ours)` maps the weights and returns ours."""
    for heads, d_model, d_k in ((2, 16, 3), (4, 32, 5)):
        sizes = f"{heads} heads, d_model {d_model}, d_k {d_k}"
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(d_k)
            theirs = AttentionWithNorm(heads, d_model, d_k, d_model // heads, 0.0)
            theirs.w_qs.weight.mul_(4)
            theirs.eval()
            inputs = (
                *torch.randn(3, 2, 6, d_model),
                torch.ones(1, 1, 6, 6).bool().tril(),
            )
            ours = MultiHeadAttention(d_model, heads)
            before = {name: p.clone() for name, p in ours.named_parameters()}
            kept = [p.clone() for p in theirs.parameters()]
            output = attempt(function, theirs, ours)
            _demand_same_module(output, ours, theirs, kept)
            _demand_shapes(ours, before)
            given = ours(*inputs)
            if not same(given, mapped(theirs, *inputs)):
                raise Stop(wrong(_small_keys_fault(ours, theirs, before, inputs)))
        yield right(f"{sizes}: your attention gives what theirs gives")


def _demand_same_module(output, ours, theirs, kept) -> None:
    if output is not ours:
        text = f"return `ours`, not another {type(output).__name__}"
        raise Stop(wrong(text))
    if not all(map(torch.equal, kept, theirs.parameters())):
        raise Stop(wrong("the weights of `theirs` have changed: copy, and then scale"))


def _demand_shapes(ours, before) -> None:
    for name, parameter in ours.named_parameters():
        if parameter.shape != before[name].shape:
            shapes = f"{tuple(parameter.shape)}, not {tuple(before[name].shape)}"
            raise Stop(wrong(f"{name} has now the shape {shapes}"))


def _small_keys_fault(ours, theirs, before, inputs) -> str:
    kept = [n for n, p in ours.named_parameters() if torch.equal(p, before[n])]
    if len(kept) == len(before):
        return "no weight of `ours` has changed: write with `weight.copy_(…)`"
    biases = {
        name: bias for name, bias in ours.named_parameters() if name.endswith("bias")
    }
    left = [name for name, bias in biases.items() if bias.any()]
    saved = [bias.clone() for bias in biases.values()]
    for bias in biases.values():
        bias.zero_()
    given = ours(*inputs)
    for bias, value in zip(biases.values(), saved, strict=True):
        bias.copy_(value)
    if left and same(given, mapped(theirs, *inputs)):
        return f"{', '.join(left)} kept numbers: they have no biases, so set it to zero"
    if made := recognise(given, mapped, SMALL_KEY_MISTAKES, (theirs, *inputs)):
        text = "; and ".join(f"{m.name}: {m.hint}" for m in made)
        return text + ("; and a bias is not zero" if left else "")
    names = ("value_projection", "w_vs"), ("output_projection", "fc")
    for mine, name in names:
        part = getattr(ours, mine).weight
        if not torch.equal(part, getattr(theirs, name).weight):
            return f"{mine}.weight is not {name}.weight, which fits as it is"
    for name in kept:
        if name.endswith("weight"):
            return f"{name} still holds what it started with"
    if ours.query_projection.weight.any(dim=1).all():
        return (
            "no row of query_projection.weight is zero: the rest of each head still "
            "holds what yours started with"
        )
    return (
        "query_projection or key_projection differ from theirs in another way: compare "
        "the scores of one head with theirs"
    )
