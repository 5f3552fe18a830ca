"""Checks for the exercises of lesson 05, feed-forward, residual and norm."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch
from matplotlib import pyplot as plt
from torch import Tensor, nn

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
from helpers.layers import FeedForward, LayerNorm
from helpers.plots import COLOURS

EPS = 1e-5


def version(x, gain, bias, **steps):
    """Layer normalisation with some of its STEPS done in another way.

    x (batch, length, d_model); without `steps` it returns the right answer.
    """
    steps = STEPS | steps
    axes = steps["axes"]()
    centred = steps["centre"](x, axes)
    return steps["scale"](centred / steps["spread"](x, axes), gain, bias)


def _variance(x, axes, correction=0):
    return x.var(axes, correction=correction, keepdim=True)


# A mistake is another way to do one of these, or two.
STEPS = {
    "axes": lambda: -1,
    "centre": lambda x, axes: x - x.mean(axes, keepdim=True),
    "spread": lambda x, axes: (_variance(x, axes) + EPS).sqrt(),
    "scale": lambda normal, gain, bias: gain * normal + bias,
}

FEATURES = "each position is normalised over its own features: `dim=-1, keepdim=True`"
NORM_MISTAKES = [
    Mistake(
        f"mean and variance are taken over the {name}",
        FEATURES,
        {"axes": lambda a=a: a},
    )
    for name, a in (
        ("positions", -2),
        ("sentences", 0),
        ("positions and features together", (-2, -1)),
        ("sentences and positions, as in batch normalisation", (0, 1)),
        ("whole batch", (0, 1, 2)),
    )
] + [
    Mistake(
        "the mean is not subtracted",
        "take `x.mean(dim=-1, keepdim=True)` away from x first",
        {"centre": lambda x, axes: x},
    ),
    Mistake(
        "the variance is the unbiased one, divided by d_model - 1",
        "divide by d_model: `x.var(dim=-1, correction=0, keepdim=True)`, or the mean "
        "of the squared deviations (`var` and `std` are unbiased by default)",
        {"spread": lambda x, axes: (_variance(x, axes, 1) + EPS).sqrt()},
    ),
    Mistake(
        "it divides by the variance instead of its root",
        "take the square root of variance + eps",
        {"spread": lambda x, axes: _variance(x, axes) + EPS},
    ),
    Mistake(
        "nothing divides by the standard deviation",
        "divide the deviations by the root of variance + eps",
        {"spread": lambda x, axes: torch.ones(())},
    ),
    Mistake(
        "it divides by the length of the vector",
        "the variance is the *mean* of the squared deviations, not their sum",
        {"spread": lambda x, axes: (_variance(x, axes) * x.size(-1) + EPS).sqrt()},
    ),
    Mistake(
        "it divides by the mean of the absolute deviations",
        "take the root of the mean of the squares",
        {
            "spread": lambda x, axes: (
                (x - x.mean(axes, keepdim=True)).abs().mean(axes, keepdim=True)
            )
        },
    ),
    Mistake(
        "the squares are those of x, not of its deviations from the mean",
        "the variance is the mean of `(x - mean) ** 2`",
        {"spread": lambda x, axes: (x.square().mean(axes, keepdim=True) + EPS).sqrt()},
    ),
    Mistake(
        "gain and bias are forgotten",
        "the last step is `gain * normalised + bias`",
        {"scale": lambda normal, gain, bias: normal},
    ),
    Mistake(
        "the bias is forgotten",
        "the last step is `gain * normalised + bias`",
        {"scale": lambda normal, gain, bias: gain * normal},
    ),
    Mistake(
        "the gain is forgotten",
        "the last step is `gain * normalised + bias`",
        {"scale": lambda normal, gain, bias: normal + bias},
    ),
    Mistake(
        "gain and bias are swapped",
        "the gain multiplies, the bias is added",
        {"scale": lambda normal, gain, bias: bias * normal + gain},
    ),
    Mistake(
        "the bias is added before the gain multiplies",
        "`gain * normalised + bias`: the bias is not multiplied",
        {"scale": lambda normal, gain, bias: gain * (normal + bias)},
    ),
]
# Most of these are seen only where the variance is as small as eps.
EPS_MISTAKES = [
    *(
        Mistake(
            "eps stands outside the root",
            "`(variance + eps).sqrt()`: the sum first, then the root",
            {"spread": lambda x, axes, eps=eps: _variance(x, axes).sqrt() + eps},
        )
        for eps in (1e-5, 1e-6)
    ),
    Mistake(
        "eps is missing, or far too small",
        "`(variance + eps).sqrt()` with eps = 1e-5",
        {"spread": lambda x, axes: _variance(x, axes).sqrt()},
    ),
    *(
        Mistake(
            f"eps is {eps:g}, not 1e-5",
            "PyTorch's default is 1e-5",
            {"spread": lambda x, axes, eps=eps: (_variance(x, axes) + eps).sqrt()},
        )
        for eps in (1e-6, 1e-8, 1e-3)
    ),
]
MISTAKES = NORM_MISTAKES + EPS_MISTAKES


def _probe(seed: int, *sizes: int, spread: float = 2.0) -> list[Tensor]:
    """Random x of these sizes, gain and bias; every feature with a mean of its own."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(sizes, generator=generator) + torch.arange(sizes[-1]) / 3
    gain, bias = 1 + torch.rand(2, sizes[-1], generator=generator)
    return [spread * (x + 0.5), gain, bias - 3]


@check
def layer_norm(function: Callable, *, seed: int = 0) -> Iterator[Finding]:
    """Exercise 05.1: `function(x, gain, bias)` is layer normalisation, eps 1e-5.

    x (batch, length, d_model), gain and bias (d_model,).
    """
    probe, square = _probe(seed, 2, 3, 5), _probe(seed, 4, 4, 4)
    _demand(function, probe, MISTAKES, square)
    yield right("each position has mean 0 and variance 1 before gain and bias")
    _demand(function, _probe(seed, 3, 1, 16), MISTAKES, square, "with d_model 16, ")
    yield right("other sizes work too")
    flat = _probe(seed, 2, 3, 5, spread=1e-3)
    _demand(function, flat, EPS_MISTAKES, square, "where all features nearly agree, ")
    yield right("features that nearly agree are not blown up: eps is inside the root")
    yield _gradient_at_zero_variance(function, probe)


def _demand(function, probe, mistakes, square, where="") -> None:
    """Stop with a finding unless the function is right on the probe."""
    try:
        output = attempt(function, *probe)
    except Stop as stop:
        if stop.finding.mark == "✗" and _lost_axis(function, square):
            text = "the axis of mean or variance is lost: keep it with `keepdim=True` "
            raise Stop(wrong(f"{text}({stop.finding.text})")) from None
        raise
    if not isinstance(output, Tensor):
        raise Stop(wrong(f"return one tensor, not a {type(output).__name__}"))
    expected = version(*probe)
    if same(output, expected):
        return
    if output.shape != expected.shape:
        shapes = f"{tuple(output.shape)}, not {tuple(expected.shape)}"
        raise Stop(wrong(f"{where}the shape is {shapes}: every number keeps its place"))
    made = recognise(output, version, mistakes, probe)
    if made:
        raise Stop(wrong(where + _named(made)))
    raise Stop(wrong(where + _unnamed(output, expected, probe)))


def _lost_axis(function, square) -> bool:
    """Whether the code that stopped runs on sizes that are all alike."""
    try:
        attempt(function, *square)
    except Stop:
        return False
    return True


def _named(made: Iterable[Mistake]) -> str:
    return "; and ".join(f"{mistake.name}: {mistake.hint}" for mistake in made)


def _unnamed(output, expected, probe) -> str:
    """What can be said of a wrong output that no known mistake gives."""
    _, gain, bias = probe
    if not output.isfinite().all():
        return "the result holds NaN or infinity: is eps inside the root?"
    found, due = (_first_position((y - bias) / gain) for y in (output, expected))
    if found == due:
        return "the numbers are not those of `F.layer_norm`: compare one by one"
    return (
        f"before gain and bias, the first position has {found}; expected is {due}: "
        "print both after each step"
    )


def _first_position(normal: Tensor) -> str:
    row = normal.detach()[0, 0]
    mean, variance = round(row.mean().item(), 2), row.var(correction=0).item()
    return f"mean {mean + 0.0:.2f} and variance {variance:.2f}"


def _gradient_at_zero_variance(function, probe) -> Finding:
    """All features equal, as in a row of zeros: the gradient must stay finite."""
    _, gain, bias = probe
    x = torch.zeros(1, 1, len(gain), requires_grad=True)
    output = attempt(function, x, gain, bias)
    if not (isinstance(output, Tensor) and output.requires_grad):
        return wrong("no gradient reaches x: no `detach`, `no_grad`, `.data` or numpy")
    (gradient,) = torch.autograd.grad((output * bias).sum(), x)
    if gradient.isfinite().all():
        return right("and where they all agree, the gradient is finite")
    return wrong(
        "where all features agree, the gradient is NaN: the slope of a root is "
        "infinite at 0, so eps must be added before the root is taken"
    )


# Exercise 05.2: what each arrangement does, step by step.
LAST = {
    "into": lambda x, norm: x,
    "branch": lambda y, norm, dropout: dropout(y),
    "skip": lambda x, norm, y: x,
    "after": lambda total, norm, dropout: norm(total),
}
FIRST = {
    **LAST,
    "into": lambda x, norm: norm(x),
    "after": lambda total, norm, dropout: total,
}


def residual_version(order, x, sublayer, norm, dropout, **steps):
    """A residual connection, LAST or FIRST, with some steps done in another way."""
    steps = order | steps
    y = sublayer(steps["into"](x, norm))
    branch = steps["branch"](y, norm, dropout)
    return steps["after"](steps["skip"](x, norm, y) + branch, norm, dropout)


RULES = {
    "norm last": "norm(x + dropout(sublayer(x)))",
    "norm first": "x + dropout(sublayer(norm(x)))",
}

BRANCH_MISTAKES = [
    Mistake(
        "the skip is missing",
        "the input is remembered but never added: the sum has two parts, the input and "
        "what the sublayer made of it",
        {"skip": lambda x, norm, y: torch.zeros_like(x)},
    ),
    Mistake(
        "the sublayer's output is added to itself",
        "x was overwritten: give the output a name of its own and add x as it came in",
        {"skip": lambda x, norm, y: y},
    ),
    Mistake(
        "dropout is forgotten",
        "it works on the sublayer's output, before that is added (section 5.4)",
        {"branch": lambda y, norm, dropout: y},
    ),
    *(
        Mistake(
            "the norm is applied to the sublayer's output alone",
            "what is normalised is the sum (norm last) or the sublayer's input (norm "
            "first)",
            {"branch": branch},
        )
        for branch in (
            lambda y, norm, dropout: norm(dropout(y)),
            lambda y, norm, dropout: dropout(norm(y)),
        )
    ),
]
LAST_MISTAKES = [
    *BRANCH_MISTAKES,
    Mistake(
        "nothing is normalised after the sum",
        "norm last is `norm(…)` of the whole sum",
        {"after": lambda total, norm, dropout: total},
    ),
    Mistake(
        "the sublayer reads the normalised input",
        "that is norm first; with norm last the sublayer gets x itself",
        {"into": lambda x, norm: norm(x)},
    ),
    Mistake(
        "the skip carries the normalised input",
        "with norm last x itself is added, and the sum is normalised",
        {"skip": lambda x, norm, y: norm(x)},
    ),
    Mistake(
        "dropout is applied to the sum",
        "it would drop the input as well: apply it to the sublayer's output alone",
        {
            "branch": lambda y, norm, dropout: y,
            "after": lambda total, norm, dropout: norm(dropout(total)),
        },
    ),
    Mistake(
        "dropout comes after the norm",
        "apply it to the sublayer's output, before that is added",
        {
            "branch": lambda y, norm, dropout: y,
            "after": lambda total, norm, dropout: dropout(norm(total)),
        },
    ),
]
FIRST_MISTAKES = [
    *BRANCH_MISTAKES,
    Mistake(
        "the skip carries the normalised input",
        "x was overwritten by norm(x): the way around must carry x as it came in",
        {"skip": lambda x, norm, y: norm(x)},
    ),
    Mistake(
        "the sublayer reads x without the norm",
        "norm first: the sublayer reads `norm(x)`",
        {"into": lambda x, norm: x},
    ),
    Mistake(
        "the sum is normalised",
        "that belongs to norm last; here nothing may touch the sum",
        {"after": lambda total, norm, dropout: norm(total)},
    ),
    Mistake(
        "dropout is applied to the sum",
        "it would drop the input as well: apply it to the sublayer's output alone",
        {
            "branch": lambda y, norm, dropout: y,
            "after": lambda total, norm, dropout: dropout(total),
        },
    ),
]


class _Drop:
    """A dropout that always drops the same features, so that its place can be seen."""

    def __call__(self, y: Tensor) -> Tensor:
        kept = torch.arange(y.size(-1)) % 3 != 1
        return torch.where(kept, 1.5 * y, 0.0)


def _residual_probe(seed: int) -> list:
    """x (2, 3, 7), a sublayer, a norm with gain and bias, a dropout."""
    generator = torch.Generator().manual_seed(seed)
    x = 2 * torch.randn(2, 3, 7, generator=generator) + 1
    weight = torch.randn(7, 7, generator=generator)
    norm = LayerNorm(7)
    with torch.no_grad():
        norm.gain.copy_(1 + torch.rand(7, generator=generator))
        norm.bias.copy_(torch.rand(7, generator=generator))
    return [x, lambda y: (y @ weight).tanh(), norm, _Drop()]


@check
def residuals(
    norm_last: Callable, norm_first: Callable, *, seed: int = 0
) -> Iterator[Finding]:
    """Exercise 05.2: both functions take (x, sublayer, norm, dropout)."""
    for name, function, order, mistakes in (
        ("norm last", norm_last, LAST, LAST_MISTAKES),
        ("norm first", norm_first, FIRST, FIRST_MISTAKES),
    ):
        try:
            yield from _residual(name, function, order, mistakes, seed)
        except Stop as stop:
            finding = stop.finding
            yield Finding(finding.mark, f"{name}: {finding.text}", finding.draw)


def _residual(name, function, order, mistakes, seed) -> Iterator[Finding]:
    probe = _residual_probe(seed)
    output = attempt(function, *probe)
    if not isinstance(output, Tensor):
        raise Stop(wrong(f"return one tensor, not a {type(output).__name__}"))
    expected = residual_version(order, *probe)
    if same(output, expected):
        yield right(f"{name}: the sum is right, and so is what is normalised")
        yield right(f"{name}: dropout stands on the sublayer's output")
        return
    if output.shape != expected.shape:
        raise Stop(wrong(f"the shape is {tuple(output.shape)}, x's is (2, 3, 7)"))
    made = recognise(output, partial(residual_version, order), mistakes, probe)
    if made:
        raise Stop(wrong(_named(made)))
    x, sublayer, norm, dropout = probe
    for text, answer in (
        (
            "dropout is applied to the sublayer's input: it belongs to its output",
            residual_version(
                order, x, lambda y: sublayer(dropout(y)), norm, lambda y: y
            ),
        ),
        ("x is returned unchanged: where is the sublayer?", x),
        ("the sublayer is missing: only the input is normalised", norm(x)),
        ("the two are multiplied: add them", x * dropout(sublayer(x))),
    ):
        if same(output, answer):
            raise Stop(wrong(text))
    raise Stop(wrong(f"the result is not `{RULES[name]}`: compare term by term"))


# Exercise 05.3: a stack's wiring, what becomes of its gradient, and why.
WIRINGS = {
    "a": (
        lambda x, sublayer, norm: (x + sublayer(x)) / 2,
        "vanishes",
        "every one of the 48 sublayers halves the way around, 2 to the power -48",
    ),
    "b": (
        lambda x, sublayer, norm: norm(x) + sublayer(norm(x)),
        "stays",
        "this is norm last in disguise: what one sublayer adds up, the next one "
        "normalises before it does anything else",
    ),
    "c": (
        lambda x, sublayer, norm: 1.1 * x + sublayer(norm(x)),
        "explodes",
        "the way around is multiplied 48 times, and 1.1 to the power 48 is 97",
    ),
}
FATES = ("vanishes", "stays", "explodes")


@check
def stacks(**answers) -> Iterator[Finding]:
    """Exercise 05.3: a, b and c, each "vanishes", "stays" or "explodes".

    Measures all three stacks as soon as one answer is given, and draws the gradients
    when all are right.
    """
    measured = {}
    for name, (wiring, due, why) in WIRINGS.items():
        answer = answers.get(name)
        if answer is None or answer is Ellipsis:
            yield untried(f"{name}: not attempted yet")
            continue
        if not isinstance(answer, str) or answer.strip().lower() not in FATES:
            fates = ", ".join(FATES)
            yield wrong(f"{name} = {answer!r:.40}: answer with one of {fates}")
            continue
        norms = gradient_norms(wiring)
        seen = f"the gradient of layer 1 is {norms[0] / norms[-1]:.0e} times layer 24's"
        if answer.strip().lower() != due:
            yield wrong(f"{name} does something else: {seen}. {THINK[name]}")
            continue
        measured[name] = norms
        complete = len(measured) == len(WIRINGS)
        draw = partial(_draw_gradients, measured) if complete else None
        yield Finding("✓", f"{name} {due}: {seen}; {why}", draw)


THINK = {
    "a": "Follow x alone through all 48 sublayers: what is left of it?",
    "b": "Where is a norm on the way from one sum to the next? Compare norm last",
    "c": "Follow x alone through all 48 sublayers: what does it become?",
}


def gradient_norms(wiring: Callable, *, n_layers: int = 24, seed: int = 0) -> list:
    """The gradient's norm at each layer's output in a stack that is wired so."""
    generator_state = torch.get_rng_state()
    torch.manual_seed(seed)
    try:
        return _gradient_norms(wiring, n_layers, d_model=64)
    finally:
        torch.set_rng_state(generator_state)


def _gradient_norms(wiring, n_layers, d_model) -> list[float]:
    x, outputs = torch.randn(16, 20, d_model), []
    for _ in range(n_layers):
        attention, norms = MultiHeadAttention(d_model, 4), nn.LayerNorm(d_model)
        feed_forward = FeedForward(d_model, 2 * d_model)
        for part in [*attention.modules(), *feed_forward.modules()]:
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                nn.init.zeros_(part.bias)
        x = wiring(x, lambda y, attend=attention: attend(y, y, y), norms)
        x = wiring(x, feed_forward, norms)
        outputs.append(x)
    loss = (nn.functional.layer_norm(x, (d_model,)) * torch.randn(x.shape)).sum()
    return [gradient.norm().item() for gradient in torch.autograd.grad(loss, outputs)]


def _draw_gradients(measured: dict[str, list[float]]) -> None:
    """The three stacks' gradients by layer, each in units of the last layer's."""
    _, ax = plt.subplots(figsize=(5.4, 3.2))
    for (name, norms), colour in zip(measured.items(), COLOURS, strict=False):
        layers = range(1, len(norms) + 1)
        relative = [norm / norms[-1] for norm in norms]
        ax.semilogy(layers, relative, "o-", ms=3, color=colour, label=f"stack {name}")
    ax.set(xlabel="layer", ylabel="gradient at its output,\ntimes that of layer 24")
    ax.set_title("A factor at every sublayer is a power at the bottom")
    ax.legend(frameon=False)
    plt.show()
