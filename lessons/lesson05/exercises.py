"""The exercises of lesson 05: feed-forward, layer norm, residual; their mistakes."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from helpers import layers as course
from helpers.exercise import Exercise, Probe
from helpers.in_training import InTraining


def _vectors(*shape: int, spread: float = 1.0) -> Tensor:
    """Random vectors (…, d_model), off their mean."""
    chance = torch.Generator().manual_seed(sum(shape))
    return spread * (0.5 + torch.randn(shape, generator=chance))


def _with_forward(component: type, forward: Callable) -> type:
    """The component with another `forward`."""
    return type("Wrong", (component,), {"forward": forward})


# ------------------------------------------------------------ 05.1 feed-forward


def _feed_forward(*shape: int, d_ff: int, spread: float = 1.0, **said) -> Probe:
    """Vectors of this shape for a network of these sizes."""
    x = _vectors(*shape, spread=spread)
    return Probe(x, build=lambda made: made(shape[-1], d_ff), **said)


def _network(forward: Callable) -> type:
    """A FeedForward with this `forward(self, x)`."""
    return _with_forward(course.FeedForward, forward)


BETWEEN = "it stands between *expand* and *contract*, and nowhere else"
feed_forward = Exercise(
    course.FeedForward,
    [
        _feed_forward(2, 5, 8, d_ff=12, praise="the course's numbers"),
        _feed_forward(3, 1, 6, d_ff=24, when="for one token, d_model 6, d_ff 24: "),
        _feed_forward(2, 3, 4, d_ff=9, spread=50, when="for large numbers: "),
        _feed_forward(1, 4, 10, d_ff=3, training=True, when="in training: "),
    ],
    {
        f"the ReLU is missing, so two matrices are one: {BETWEEN}": _network(
            lambda self, x: self.contract(self.expand(x))
        ),
        f"the ReLU comes last, so no output is negative: {BETWEEN}": _network(
            lambda self, x: self.contract(self.expand(x)).relu()
        ),
        "x is added: that is the residual connection's work, not the network's": (
            _network(lambda self, x: x + self.contract(self.expand(x).relu()))
        ),
    },
    lesson="05",
)

# ------------------------------------------------------------ 05.2 layer norm


def _norm(formula: Callable) -> type:
    """A LayerNorm with this `formula(x, eps)` between gain and bias."""
    return _with_forward(
        course.LayerNorm,
        lambda self, x: self.gain * formula(x, self.eps) + self.bias,
    )


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def _variance(x: Tensor, correction: int = 0) -> Tensor:
    return x.var(-1, correction=correction, keepdim=True)


def _normed(*shape: int, spread: float = 3.0, eps: float = 1e-5, **said) -> Probe:
    """Vectors of this shape and spread; the first two may have equal features."""
    x = _vectors(*shape, spread=spread)
    if spread < 1:
        x[..., :2, :] = 0.5
    return Probe(x, build=lambda made: made(shape[-1], eps=eps), **said)


@torch.no_grad()
def _parts(module: nn.Module) -> str:
    """Whether gain and bias begin at 1 and 0 and are used, and no token at others."""
    for name, due in (("gain", 1), ("bias", 0)):
        if not (getattr(module, name) == due).all():
            return f"the {name} begins with every number at {due}"
    x = _vectors(3, 5, module.gain.numel())
    try:
        if not torch.allclose(module(x)[:1, :1], module(x[:1, :1]), atol=1e-4):
            return (
                "a token's numbers change with the tokens around it: each has a mean "
                "and a variance of its own, over its features, `dim=-1, keepdim=True`"
            )
        module.gain.zero_(), module.bias.fill_(3)
        if not (module(x) == 3).all():
            return "with a gain of 0 and a bias of 3, every number must be 3"
    except Exception:  # the probes say more
        return ""
    return ""


layer_norm = Exercise(
    course.LayerNorm,
    [
        _normed(2, 5, 8, praise="each token is normalised over its own features"),
        _normed(4, 4, 4, alike=True),
        _normed(3, 2, 1, 6, when="with other axes in front, (3, 2, 1): "),
        _normed(2, 3, 6, eps=0.5, when="with eps=0.5 (is `eps` used?): "),
        _normed(
            *(3, 7, 4),
            spread=0.002,
            praise="equal features do no harm",
            when="where all features of a token are equal, or nearly: ",
        ),
    ],
    {
        "the mean is not subtracted: first x - mean, then divide": _norm(
            lambda x, eps: x / (x.square().mean(-1, keepdim=True) + eps).sqrt()
        ),
        "an axis is lost, so that the numbers of other tokens meet: "
        "`dim=-1, keepdim=True`": _norm(
            lambda x, eps: (x - x.mean(-1)) / (_variance(x) + eps).sqrt()
        ),
        "the variance is divided by d_model - 1: `var` and `std` need `correction=0`": (
            _norm(lambda x, eps: _centred(x) / (_variance(x, 1) + eps).sqrt())
        ),
        "it divides by the variance: take the root of variance + eps": _norm(
            lambda x, eps: _centred(x) / (_variance(x) + eps)
        ),
        "eps stands outside the root: add it to the variance, then take the root": (
            _norm(lambda x, eps: _centred(x) / (_variance(x).sqrt() + eps))
        ),
    },
    initial=_parts,
    lesson="05",
)

# ------------------------------------------------------------ 05.3 residual


class _Around(nn.Module):
    """A layer of one sublayer, in a residual."""

    def __init__(self, residual: nn.Module):
        super().__init__()
        self.residual, self.sublayer = residual, nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.residual(x, self.sublayer)


def _joined(*shape: int, first: bool, sublayer: Callable, **said) -> Probe:
    """Vectors of this shape, a sublayer, and the norm's place."""

    def build(made: type) -> nn.Module:
        return made(shape[-1], dropout=0.5, norm_first=first)

    when = f"norm_first={first}: "
    return Probe(_vectors(*shape, spread=2.0), sublayer, build=build, when=when, **said)


def _trained(*shape: int, first: bool, share: float, praise: str = "") -> Probe:
    """Vectors of this shape, in training."""

    def build(made: type) -> nn.Module:
        layer = _Around(made(shape[-1], dropout=share, norm_first=first))
        return InTraining(layer, ["sublayer"], share)

    when = f"dropout={share} in training, norm_first={first}: "
    said = {"when": when, "praise": praise, "training": True}
    return Probe(_vectors(*shape), build=build, **said)


def _mixing(x: Tensor) -> Tensor:
    """Tokens mix, as in attention."""
    return 2 * x.mean(dim=1, keepdim=True) * x + 0.3


def _residual(last: Callable, first: Callable) -> type:
    """A Residual with these formulas of x, sublayer f and norm."""

    def forward(self: nn.Module, x: Tensor, sublayer: Callable) -> Tensor:
        formula = first if self.norm_first else last
        return formula(x, sublayer, self.norm)

    return _with_forward(course.Residual, forward)


def _norm_last(x: Tensor, f: Callable, norm: Callable) -> Tensor:
    return norm(x + f(x))


def _norm_first(x: Tensor, f: Callable, norm: Callable) -> Tensor:
    return x + f(norm(x))


residual = Exercise(
    course.Residual,
    [
        _joined(
            *(2, 5, 8),
            first=False,
            sublayer=_mixing,
            praise="norm last: norm(x + sublayer(x))",
        ),
        _joined(
            *(2, 4, 6),
            first=True,
            sublayer=_mixing,
            praise="norm first: x + sublayer(norm(x))",
        ),
        _joined(1, 3, 10, first=False, sublayer=torch.tanh),
        _joined(3, 1, 6, first=True, sublayer=torch.tanh),
        _trained(8, 9, 16, first=True, share=0.2),
        _trained(
            *(9, 8, 16),
            first=False,
            share=0.4,
            praise="in training, dropout falls on the sublayer's output alone",
        ),
    ],
    {
        "`norm_first=False` asks for norm(x + sublayer(x)): yours puts the norm "
        "first": _residual(_norm_first, _norm_first),
        "`norm_first=True` asks for x + sublayer(norm(x)): yours puts the norm "
        "last": _residual(_norm_last, _norm_last),
        "x is not added: it goes around the sublayer, `x + …`": _residual(
            lambda x, f, norm: norm(f(x)), lambda x, f, norm: f(norm(x))
        ),
        "norm last: the norm takes the whole sum, x included": _residual(
            lambda x, f, norm: x + norm(f(x)), _norm_first
        ),
        "norm first: the sublayer alone reads norm(x); what goes around it is x": (
            _residual(_norm_last, lambda x, f, norm: norm(x) + f(norm(x)))
        ),
    },
    lesson="05",
)
