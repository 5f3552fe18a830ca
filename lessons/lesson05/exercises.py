"""The exercises of lesson 05, feed-forward, residual and norm: answers and mistakes."""

import math
from collections.abc import Callable
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lessons.checking.comparing import plain
from lessons.checking.engine import NO_CHANGE, Exercise, Part, Trial
from lessons.checking.findings import Stop, wrong
from lessons.lesson05.wiring import Stack, position_difference

# ------------------------------------------------------------ 05.1 layer normalisation

MEAN = "x.mean(dim=-1, keepdim=True)"
SQUARES = "deviations.square().mean(dim=-1, keepdim=True)"
ROOT, LAST = (
    "(variance + 1e-5).sqrt()",
    "gain * deviations / (variance + 1e-5).sqrt() + bias",
)
FEATURES = "each position is normalised over its own features: `dim=-1, keepdim=True`"


def _over(axes: str) -> dict[str, str]:
    """The patch that takes mean and variance over other axes."""
    return {old: old.replace("-1", axes) for old in (MEAN, SQUARES)}


NORM_MISTAKES = {
    f"mean and variance are taken over the positions: {FEATURES}": _over("-2"),
    f"mean and variance are taken over the sentences: {FEATURES}": _over("0"),
    f"mean and variance are taken over positions and features together: {FEATURES}": (
        _over("(-2, -1)")
    ),
    "mean and variance are taken over sentences and positions, as in batch "
    f"normalisation: {FEATURES}": _over("(0, 1)"),
    f"mean and variance are taken over the whole batch: {FEATURES}": _over("(0, 1, 2)"),
    f"an axis is lost, so that the wrong numbers meet: {FEATURES}": [
        {MEAN: "x.mean(dim=-1)"},
        {SQUARES: "deviations.square().mean(dim=-1)"},
        {MEAN: "x.mean(dim=-1)", SQUARES: "deviations.square().mean(dim=-1)"},
    ],
    "the mean is not subtracted from x before the division: divide the deviations": [
        {MEAN: "0"},
        {LAST: LAST.replace("deviations", "x")},
    ],
    "the variance is the unbiased one, divided by d_model - 1: `var` and `std` need "
    "`correction=0`": {SQUARES: "x.var(dim=-1, keepdim=True)"},
    "it divides by the variance instead of its root: take `.sqrt()`": {
        ROOT: "(variance + 1e-5)"
    },
    "nothing divides by the standard deviation": {f" / {ROOT}": ""},
    "it divides by the norm of the deviations: the variance is the *mean* of their "
    "squares, not the sum": {SQUARES: SQUARES.replace("mean", "sum")},
    "it divides by the mean of the absolute deviations: take the root of the mean of "
    "their squares": {SQUARES: SQUARES.replace("square", "abs") + ".square()"},
    "gain and bias are forgotten: `gain * normalised + bias`": {
        "gain * ": "",
        " + bias": "",
    },
    "the bias is forgotten: `gain * normalised + bias`": {" + bias": ""},
    "the gain is forgotten: `gain * normalised + bias`": {"gain * ": ""},
    "gain and bias are swapped: the gain multiplies, the bias is added": {
        "gain * ": "bias * ",
        " + bias": " + gain",
    },
    "the bias is multiplied by the gain, too: `gain * normalised + bias`": {
        LAST: "gain * (deviations / (variance + 1e-5).sqrt() + bias)"
    },
    "eps is missing: where all features are equal, 0 / 0 is NaN": {
        ROOT: "variance.sqrt()"
    },
    "eps stands outside the root: the sum first, then the root, "
    "`(variance + 1e-5).sqrt()`": [
        {ROOT: "(variance.sqrt() + 1e-5)"},
        {ROOT: "(variance.sqrt() + 1e-6)"},
    ],
    "eps is not 1e-5, added to the variance: `(variance + 1e-5).sqrt()`": [
        {ROOT: f"(variance + {eps}).sqrt()"}
        for eps in ("1e-3", "1e-6", "1e-8", "1e-12")
    ],
    "the mean is taken over the positions, the variance over the features: take both "
    "over the features": {
        MEAN: MEAN.replace("-1", "-2"),
        SQUARES: "x.var(dim=-1, correction=0, keepdim=True)",
    },
    "1 is added to the gain: `gain * normalised + bias`": {"gain * ": "(gain + 1) * "},
}


def _norm_inputs(seed: int, *sizes: int, spread: float = 3) -> tuple[Tensor, ...]:
    """x (batch, length, d_model) with mean 1, and gain and bias (d_model,)."""
    generator = torch.Generator().manual_seed(seed)
    x = 1 + spread * torch.randn(sizes, generator=generator)
    gain, bias = torch.randn(2, sizes[-1], generator=generator)
    gain[0] = -gain[0].abs()
    return x, gain, bias


def _drawn(seed: int, lowest: int = 4) -> int:
    """A size that depends on the seed."""
    return lowest + int(
        torch.randint(5, (), generator=torch.Generator().manual_seed(seed))
    )


def _nearly_equal() -> tuple[Tensor, ...]:
    """Positions whose features differ by about the root of eps, or not at all."""
    x, gain, bias = _norm_inputs(9, 2, 3, 6, spread=0.002)
    x -= 1
    x[0, 0] = 0.5
    return x, gain, bias


layer_norm = Exercise(
    """\
def my_layer_norm(x, gain, bias):
    deviations = x - x.mean(dim=-1, keepdim=True)
    variance = deviations.square().mean(dim=-1, keepdim=True)
    return gain * deviations / (variance + 1e-5).sqrt() + bias
""",
    Part(
        "my_layer_norm",
        NORM_MISTAKES,
        lambda seed: [
            _norm_inputs(seed, 2, 3, 4),
            _norm_inputs(seed, 3, 2, _drawn(seed, 5)),
        ],
        ["each position is normalised, then scaled by gain and shifted by bias"],
        lenient=lambda seed: _norm_inputs(seed, 4, 4, 4),
        trials=[
            Trial(
                _nearly_equal(),
                ["eps is right where features are equal, or nearly so"],
                "where features are equal, or nearly so: ",
                gradients="the gradient is not that of the formula (NaN, where a root "
                "is taken of 0): eps stands inside the only root",
            )
        ],
    ),
)

# ------------------------------------------------------------ 05.2 the block


class _Sublayer(nn.Module):
    """Something with weights that stands for a sublayer; it may mix positions."""

    def __init__(self, d_model: int, mixes: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_model, d_model))
        self.mixes = mixes

    def forward(self, x: Tensor, *more: Tensor) -> Tensor:
        if more:
            raise Stop(wrong("`attention` and `feed_forward` take one tensor each"))
        y = torch.tanh(x @ self.weight.to(x.dtype))
        return y.cumsum(dim=1) if self.mixes else y


class _Norm(nn.Module):
    """A layer norm with random gain and bias."""

    def __init__(self, d_model: int):
        super().__init__()
        self.gain = nn.Parameter(1 + torch.randn(d_model))
        self.bias = nn.Parameter(torch.randn(d_model))

    def forward(self, x: Tensor) -> Tensor:
        y = F.layer_norm(x, x.shape[-1:])
        return self.gain.to(x.dtype) * y + self.bias.to(x.dtype)


def _block_inputs(seed: int, *sizes: int) -> tuple:
    """x, and two sublayers and two norms with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sublayers = _Sublayer(sizes[-1], mixes=True), _Sublayer(sizes[-1], mixes=False)
        norms = _Norm(sizes[-1]), _Norm(sizes[-1])
        return torch.randn(sizes), *sublayers, *norms


AROUND = "the sublayer's output is added to its input: `x + …`"
STREAM = "the way around takes x as it came, not its norm: `x + sublayer(norm(x))`"
SECOND = "the feed-forward network takes what attention has left: `x = …`, then `x`"
OWN = "each sublayer has a norm of its own: norm_1, then norm_2"
ONE_LAST, TWO_LAST = "norm_1(x + attention(x))", "norm_2(x + feed_forward(x))"
ONE_FIRST, TWO_FIRST = "x + attention(norm_1(x))", "x + feed_forward(norm_2(x))"
LAST_MISTAKES = {
    f"attention has no way around: {AROUND}": {ONE_LAST: "norm_1(attention(x))"},
    f"feed-forward has no way around: {AROUND}": {TWO_LAST: "norm_2(feed_forward(x))"},
    f"neither sublayer has a way around: {AROUND}": {
        ONE_LAST: "norm_1(attention(x))",
        TWO_LAST: "norm_2(feed_forward(x))",
    },
    "this is norm first: here the norm takes the sum, `norm(x + sublayer(x))`": {
        ONE_LAST: ONE_FIRST,
        TWO_LAST: TWO_FIRST,
    },
    "the norm takes the sublayer's output alone: it takes the sum, "
    "`norm(x + sublayer(x))`": {
        ONE_LAST: "x + norm_1(attention(x))",
        TWO_LAST: "x + norm_2(feed_forward(x))",
    },
    f"feed-forward reads the block's input: {SECOND}": {
        f"x = {ONE_LAST}": f"y = {ONE_LAST}",
        TWO_LAST: "norm_2(y + feed_forward(x))",
    },
    f"the second way around starts at the block's input: {SECOND}": {
        f"x = {ONE_LAST}": f"y = {ONE_LAST}",
        TWO_LAST: "norm_2(x + feed_forward(y))",
    },
    "there is no norm: `norm(x + sublayer(x))`": {
        ONE_LAST: "x + attention(x)",
        TWO_LAST: "x + feed_forward(x)",
    },
    "the first norm is missing": {ONE_LAST: "x + attention(x)"},
    "the second norm is missing": {TWO_LAST: "x + feed_forward(x)"},
    f"the norms are swapped: {OWN}": {
        ONE_LAST: "norm_2(x + attention(x))",
        TWO_LAST: "norm_1(x + feed_forward(x))",
    },
    f"norm_1 is used twice: {OWN}": {TWO_LAST: "norm_1(x + feed_forward(x))"},
    "the sublayers are swapped: attention comes first": {
        ONE_LAST: "norm_1(x + feed_forward(x))",
        TWO_LAST: "norm_2(x + attention(x))",
    },
}
FIRST_MISTAKES = {
    f"attention has no way around: {AROUND}": {ONE_FIRST: "attention(norm_1(x))"},
    f"feed-forward has no way around: {AROUND}": {TWO_FIRST: "feed_forward(norm_2(x))"},
    f"neither sublayer has a way around: {AROUND}": {
        ONE_FIRST: "attention(norm_1(x))",
        TWO_FIRST: "feed_forward(norm_2(x))",
    },
    "this is norm last: here the norm takes the sublayer's input alone, "
    "`x + sublayer(norm(x))`": {ONE_FIRST: ONE_LAST, TWO_FIRST: TWO_LAST},
    f"the norm is added instead of x: {STREAM}": [
        {
            ONE_FIRST: "norm_1(x) + attention(norm_1(x))",
            TWO_FIRST: "norm_2(x) + feed_forward(norm_2(x))",
        },
        {ONE_FIRST: "norm_1(x) + attention(norm_1(x))"},
        {TWO_FIRST: "norm_2(x) + feed_forward(norm_2(x))"},
    ],
    f"feed-forward reads the block's input: {SECOND}": {
        f"x = {ONE_FIRST}": f"y = {ONE_FIRST}",
        TWO_FIRST: "y + feed_forward(norm_2(x))",
    },
    f"the second way around starts at the block's input: {SECOND}": {
        f"x = {ONE_FIRST}": f"y = {ONE_FIRST}",
        TWO_FIRST: "x + feed_forward(norm_2(y))",
    },
    "there is a norm at the end: the one at the top belongs to the stack, not to "
    "each block": [
        {TWO_FIRST: f"{norm}({TWO_FIRST})"} for norm in ("norm_1", "norm_2")
    ],
    "the norm takes the sublayer's output: it takes its input, "
    "`x + sublayer(norm(x))`": {
        ONE_FIRST: "x + norm_1(attention(x))",
        TWO_FIRST: "x + norm_2(feed_forward(x))",
    },
    "there is no norm: `x + sublayer(norm(x))`": {
        ONE_FIRST: "x + attention(x)",
        TWO_FIRST: "x + feed_forward(x)",
    },
    "the first norm is missing": {ONE_FIRST: "x + attention(x)"},
    "the second norm is missing": {TWO_FIRST: "x + feed_forward(x)"},
    f"the norms are swapped: {OWN}": {
        ONE_FIRST: "x + attention(norm_2(x))",
        TWO_FIRST: "x + feed_forward(norm_1(x))",
    },
    f"norm_1 is used twice: {OWN}": {TWO_FIRST: "x + feed_forward(norm_1(x))"},
    "the sublayers are swapped: attention comes first": {
        ONE_FIRST: "x + feed_forward(norm_1(x))",
        TWO_FIRST: "x + attention(norm_2(x))",
    },
}


def _block_part(name: str, label: str, mistakes: dict, first_line: str) -> Part:
    lost = {f"x = {first_line}": f"y = {first_line}"}
    return Part(
        name,
        mistakes | {f"the second half takes the block's input: {SECOND}": lost},
        lambda seed: [
            _block_inputs(seed, 2, 3, 4),
            _block_inputs(seed, 3, 2, _drawn(seed, 5)),
        ],
        ["the sublayers, the sums and the norms stand in the right order"],
        label=label,
    )


block = Exercise(
    """\
def my_norm_last_block(x, attention, feed_forward, norm_1, norm_2):
    x = norm_1(x + attention(x))
    return norm_2(x + feed_forward(x))


def my_norm_first_block(x, attention, feed_forward, norm_1, norm_2):
    x = x + attention(norm_1(x))
    return x + feed_forward(norm_2(x))
""",
    _block_part("my_norm_last_block", "norm last", LAST_MISTAKES, ONE_LAST),
    _block_part("my_norm_first_block", "norm first", FIRST_MISTAKES, ONE_FIRST),
)

# ------------------------------------------------------------ 05.3 a wiring of your own

BLOCKS = 48


MEASURED: WeakKeyDictionary = WeakKeyDictionary()  # {wiring: {seed: what came out}}


def _stacked(wiring: Callable) -> Callable:
    """The wiring as a function: what 48 untrained blocks wired so do to a signal."""

    def function(demand: int) -> list[float]:
        known, seed = MEASURED.setdefault(wiring, {}), torch.initial_seed()
        if seed not in known:
            known[seed] = _measured(wiring)
        return known[seed]

    return function


def _measured(wiring: Callable) -> list[float]:
    """Idle sublayers, size, gradients' ratio, difference, the sublayers' share."""
    passed: list[bool] = []  # of each sublayer: whether a gradient passes through it
    silent = False

    def wire(x: Tensor, sublayer: Callable, norm: nn.Module) -> Tensor:
        read: list[Tensor] = []

        def listening(y: Tensor) -> Tensor:
            read.append(y)
            return torch.zeros_like(y) if silent else sublayer(y)

        y = plain(wiring(x, listening, norm))
        if y is None or y is ...:
            raise NotImplementedError
        if not isinstance(y, Tensor) or y.shape != x.shape:
            found = getattr(y, "shape", type(y).__name__)
            text = f"the wiring is to give a tensor of shape {tuple(x.shape)}"
            raise Stop(wrong(f"{text}, as x has, not: {found}"))
        passed.append(any(_reaches(one, x) for one in read))
        return y.to(x.dtype)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        stack = Stack(BLOCKS, 32, wire, last_norm=False).double()
        x = torch.randn(4, 12, 32, dtype=torch.double).requires_grad_()
    try:
        states = stack.states(x)
        idle = passed.count(False), *_gradients(stack, states)
        silent = True
        without = stack.states(x)[-1]
    except RuntimeError as error:
        if "inplace" not in str(error) and "in-place" not in str(error):
            raise
        raise Stop(wrong(f"no gradient can flow: {NO_CHANGE}")) from None
    top = states[-1]
    return [
        float(max(idle[:2])),
        top.square().mean().sqrt().item(),
        idle[2],
        position_difference(top),
        100 * ((top - without).norm() / top.norm()).item(),
    ]


def _reaches(y: Tensor, x: Tensor) -> bool:
    """Whether what a sublayer reads passes a gradient back to the stream x."""
    if not y.requires_grad or not x.requires_grad:
        return False
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape).square()
    (gradient,) = torch.autograd.grad(
        (y * weights).sum(), x, retain_graph=True, allow_unused=True
    )
    return gradient is not None and bool(gradient.any())


def _gradients(stack: Stack, states: list[Tensor]) -> tuple[int, float]:
    """Sublayers whose weights get no gradient, and the gradient, first / last."""
    weights = [
        part.weight
        for block in stack.blocks
        for part in (block.attention.output_projection, block.feed_forward.contract)
    ]
    top = states[-1]
    if not top.requires_grad:
        return len(weights), 0.0
    loss = (top * torch.linspace(-1, 1, 32)).square().mean()
    leaves = [states[1], top, *weights]
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
    first, last, *others = (0.0 if g is None else g.norm().item() for g in gradients)
    return others.count(0.0), first / max(last, 1e-30)


def _trial(index: int, low: float, high: float, praise: str, otherwise: str) -> Trial:
    """One demand on what is measured; the others have trials of their own."""
    return Trial(
        (index,),
        [praise],
        otherwise=otherwise,
        accepts=lambda value, due: bool(low <= value[index] <= high),
        facts=lambda value, due: {"found": float(value[index])},
    )


WIRED = "x + 0.1 * sublayer(norm(x))"
wiring = Exercise(
    """\
def my_wiring(x, sublayer, norm):
    return x + 0.1 * sublayer(norm(x))
""",
    Part(
        "my_wiring",
        {
            "the sublayers have no effect: add what they compute": [
                {WIRED: "x"},
                {WIRED: "norm(x)"},
            ],
            "the signal dies: lead x around every sublayer, at nearly its full size": [
                {WIRED: "sublayer(x)"},
                {WIRED: "(x + sublayer(x)) / 2"},
                {WIRED: "(x + sublayer(norm(x))) / 2"},
                {WIRED: "(x + sublayer(norm(x))) / 2**0.5"},
            ],
            "there is no way around, so all positions become alike": [
                {WIRED: "norm(sublayer(x))"},
                {WIRED: "sublayer(norm(x))"},
            ],
            "nothing is normalised, so the stream explodes": {WIRED: "x + sublayer(x)"},
            "this is norm last, where positions become alike at this depth": [
                {WIRED: "norm(x + sublayer(x))"},
                {WIRED: "norm(x) + sublayer(norm(x))"},
            ],
            "this is norm first without a last norm: the stream has grown too large": {
                WIRED: "x + sublayer(norm(x))"
            },
        },
        trials=[
            _trial(
                0,
                0,
                0,
                "all 96 sublayers read the stream and get a gradient",
                "{found:.0f} of 96 sublayers do not read the stream with its gradient, "
                "or get no gradient",
            ),
            _trial(
                1,
                0.5,
                2,
                "the stream keeps its size ({found:.2f})",
                "the size at the top is {found:.2g}: between 0.5 and 2 is due",
            ),
            _trial(
                2,
                0.1,
                10,
                "the gradient keeps its size (first / last {found:.2f})",
                "the gradient, first / last, is {found:.2g}: 0.1 to 10 is due",
            ),
            _trial(
                3,
                0.5,
                1,
                "positions stay apart ({found:.2f})",
                "positions differ by {found:.2g} at the top: at least 0.5 is due",
            ),
            _trial(
                4,
                2,
                math.inf,
                "the sublayers change the top by {found:.0f} %",
                "if all sublayers give 0, the top changes by {found:.2g} %: at least "
                "2 % is due",
            ),
        ],
        use=_stacked,
    ),
)
