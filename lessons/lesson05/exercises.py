"""The exercises of lesson 05: feed-forward, layer norm, residual; their mistakes."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from helpers import layers as course
from helpers.exercise import Exercise, Probe, Wrong


def _vectors(*shape: int, spread: float = 1.0) -> Tensor:
    """Random vectors (…, d_model), off their mean."""
    chance = torch.Generator().manual_seed(sum(shape))
    return spread * (0.5 + torch.randn(shape, generator=chance))


# ------------------------------------------------------------ 05.1 feed-forward


def _feed_forward(*shape: int, d_ff: int, spread: float = 1.0, **said) -> Probe:
    """Vectors of this shape for a network of these sizes."""
    x = _vectors(*shape, spread=spread)
    return Probe(x, build=lambda made: made(shape[-1], d_ff), **said)


class _NoReLU(course.FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.expand(x))


class _ReLUAtTheEnd(course.FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.expand(x)).relu()


class _ReLUTwice(course.FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).relu()


class _ReLUFirst(course.FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return self.contract(self.expand(x.relu()))


class _WithTheSum(course.FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


BETWEEN = "it stands between *expand* and *contract*, and nowhere else"
feed_forward = Exercise(
    course.FeedForward,
    [
        _feed_forward(2, 5, 8, d_ff=12, praise="the course's numbers"),
        _feed_forward(3, 1, 6, d_ff=24, when="for one token, d_model 6, d_ff 24: "),
        _feed_forward(1, 4, 10, d_ff=3, when="where d_ff is smaller than d_model: "),
        _feed_forward(2, 3, 4, d_ff=9, spread=50, when="for large numbers: "),
        _feed_forward(2, 4, 6, d_ff=8, training=True, when="in training: "),
    ],
    {
        f"the ReLU is missing, so two matrices are one: {BETWEEN}": _NoReLU,
        f"the ReLU comes last, so no output is negative: {BETWEEN}": _ReLUAtTheEnd,
        f"there is a second ReLU at the end: {BETWEEN}": _ReLUTwice,
        f"the ReLU comes first: {BETWEEN}": _ReLUFirst,
        "x is added: that is the residual connection's work, not the network's": (
            _WithTheSum
        ),
    },
    lesson="05",
)

# ------------------------------------------------------------ 05.2 layer norm


class _Norm(course.LayerNorm):
    """The formula in steps, each of which a mistake replaces."""

    over, keepdim, correction = -1, True, 0

    def forward(self, x: Tensor) -> Tensor:
        deviations = x - x.mean(self.over, keepdim=self.keepdim)
        return self.gain * deviations / self.deviation(x) + self.bias

    def variance(self, x: Tensor) -> Tensor:
        return x.var(self.over, correction=self.correction, keepdim=self.keepdim)

    def deviation(self, x: Tensor) -> Tensor:
        return (self.variance(x) + self.eps).sqrt()


class _AxisLost(_Norm):
    keepdim = False


class _Unbiased(_Norm):
    correction = 1


class _NoMean(_Norm):
    def forward(self, x: Tensor) -> Tensor:
        return self.gain * x / (x.square().mean(-1, True) + self.eps).sqrt() + self.bias


class _NoRoot(_Norm):
    def deviation(self, x: Tensor) -> Tensor:
        return self.variance(x) + self.eps


class _EpsOutside(_Norm):
    def deviation(self, x: Tensor) -> Tensor:
        return self.variance(x).sqrt() + self.eps


def _normed(*shape: int, spread: float = 3.0, eps: float | None = None, **said):
    """Vectors of this shape and spread; the first two have equal features."""
    x, options = _vectors(*shape, spread=spread), {} if eps is None else {"eps": eps}
    if spread < 1:
        x[..., :2, :] = 0.5
    return Probe(x, build=lambda made: made(shape[-1], **options), **said)


FEATURES = "each token has a mean and a variance of its own, over its features"


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
                f"a token's numbers change with the tokens around it: {FEATURES}, "
                "`dim=-1, keepdim=True`"
            )
        module.gain.zero_()
        if module(x).any():
            return "the gain is not used: it multiplies the normalised features"
        module.bias.fill_(3)
        if not (module(x) == 3).all():
            return "the bias is not used, or not last: gain · normalised + bias"
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
        "the mean is not subtracted: first x - mean, then divide": _NoMean,
        "an axis is lost, so that the numbers of other tokens meet: "
        "`dim=-1, keepdim=True`": _AxisLost,
        "the variance is divided by d_model - 1: `var` and `std` need `correction=0`": (
            _Unbiased
        ),
        "it divides by the variance: take the root of variance + eps": _NoRoot,
        "eps stands outside the root: add it to the variance, then take the root": (
            _EpsOutside
        ),
    },
    initial=_parts,
    lesson="05",
)

# ------------------------------------------------------------ 05.3 residual


class _Trained(nn.Module):
    """Tries a Residual in training, without its norm; the sublayer gives ones."""

    def __init__(self, residual: nn.Module, share: float):
        super().__init__()
        self.residual, self.share = residual, share

    def forward(self, x: Tensor) -> str:
        """x is (batch, length, d_model), and holds no 0."""
        self.residual.train().norm, read = nn.Identity(), []

        def ones(y: Tensor) -> Tensor:
            read.append(y)
            return torch.ones_like(y)

        added = (self.residual(x, ones) - x).detach()
        if (read[0] == 0).any():
            raise Wrong(f"it falls on what the sublayer reads: {DROPPED}")
        zero, largest = added.abs() < 1e-4, added.max()
        if not (zero | ((added - largest).abs() < 1e-4)).all():
            raise Wrong(f"x loses numbers, too: {DROPPED}")
        share = zero.float().mean().item()
        if share == 0:
            raise Wrong(f"nothing is dropped: {DROPPED}")
        if abs(share - self.share) > 0.06:
            raise Wrong(f"the share that is dropped is {share:.1f}: is `dropout` used?")
        if abs(largest - 1 / (1 - self.share)) > 1e-3:
            raise Wrong("what is left is not multiplied by 1 / (1 - dropout)")
        return "dropped"


def _joined(*shape: int, first: bool, sublayer: Callable, **said) -> Probe:
    """Vectors of this shape, a sublayer, and the norm's place."""

    def build(made: type) -> nn.Module:
        return made(shape[-1], dropout=0.5, norm_first=first)

    return Probe(_vectors(*shape, spread=2.0), sublayer, build=build, **said)


def _trained(*shape: int, first: bool, share: float, **said) -> Probe:
    """Vectors of this shape, in training."""

    def build(made: type) -> nn.Module:
        return _Trained(made(shape[-1], dropout=share, norm_first=first), share)

    when = f"dropout={share} in training, norm_first={first}: "
    return Probe(_vectors(*shape), build=build, when=when, **said)


def _mixing(x: Tensor) -> Tensor:
    """Tokens mix, as in attention."""
    return 2 * x.mean(dim=1, keepdim=True) * x + 0.3


def _bent(x: Tensor) -> Tensor:
    """Each token for itself, as in the feed-forward network."""
    return torch.tanh(x).flip(-1) - 0.2 * x


class _Swapped(course.Residual):
    def forward(self, x: Tensor, sublayer: Callable) -> Tensor:
        if not self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))


class _NoSum(course.Residual):
    def forward(self, x: Tensor, sublayer: Callable) -> Tensor:
        if self.norm_first:
            return self.dropout(sublayer(self.norm(x)))
        return self.norm(self.dropout(sublayer(x)))


class _NormOfTheOutput(course.Residual):
    def forward(self, x: Tensor, sublayer: Callable) -> Tensor:
        if self.norm_first:
            return super().forward(x, sublayer)
        return x + self.norm(self.dropout(sublayer(x)))


class _NormInTheStream(course.Residual):
    def forward(self, x: Tensor, sublayer: Callable) -> Tensor:
        if self.norm_first:
            x = self.norm(x)
            return x + self.dropout(sublayer(x))
        return super().forward(x, sublayer)


class _AlwaysLast(course.Residual):
    def forward(self, x: Tensor, sublayer: Callable) -> Tensor:
        return self.norm(x + self.dropout(sublayer(x)))


DROPPED = "in training, dropout falls on the sublayer's output alone, before the sum"
residual = Exercise(
    course.Residual,
    [
        _joined(
            *(2, 5, 8),
            first=False,
            sublayer=_mixing,
            praise="norm last: norm(x + sublayer(x))",
            when="norm_first=False: ",
        ),
        _joined(3, 1, 6, first=False, sublayer=_bent, when="norm_first=False: "),
        _joined(
            *(2, 4, 6),
            first=True,
            sublayer=_mixing,
            praise="norm first: x + sublayer(norm(x))",
            when="norm_first=True: ",
        ),
        _joined(1, 3, 10, first=True, sublayer=_bent, when="norm_first=True: "),
        _trained(8, 9, 16, first=True, share=0.2),
        _trained(9, 8, 16, first=False, share=0.4, praise=DROPPED),
    ],
    {
        "`norm_first=False` asks for norm(x + sublayer(x)): yours puts the norm "
        "first": _Swapped,
        "`norm_first=True` asks for x + sublayer(norm(x)): yours puts the norm "
        "last": _AlwaysLast,
        "x is not added: it goes around the sublayer, `x + …`": _NoSum,
        "norm last: the norm takes the whole sum, x included": _NormOfTheOutput,
        "norm first: the sublayer alone reads norm(x); what goes around it is x": (
            _NormInTheStream
        ),
    },
    lesson="05",
)
