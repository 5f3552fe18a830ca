"""The exercises of lesson 01: the table of positions, and the two input layers."""

import copy
import math
from functools import partial

import torch
from matplotlib import pyplot as plt
from torch import Tensor, nn

from helpers import positions as course
from helpers.exercise import Exercise, Probe, Wrong, listed
from helpers.plots import heatmap

# ------------------------------------------------------------------ 01.1 the table


def _beside(yours: Tensor, due: Tensor) -> None:
    """Draw the learner's table beside the one expected."""
    _, axes = plt.subplots(1, 2, figsize=(6, 3.2), sharey=True)
    for ax, numbers, title in zip(
        axes, (yours, due), ("yours", "expected"), strict=True
    ):
        labels = (range(size) for size in numbers.shape)
        look = {"signed": True, "colour_bar": False, "label": ""}
        heatmap(numbers.detach(), *labels, title=title, ax=ax, **look)
        ax.set(xlabel="feature", ylabel="")
    axes[0].set_ylabel("position")
    plt.show()


def _table(
    length: int,
    d_model: int,
    *,
    two: float = 2.0,
    divisor: float | None = None,
    sign: int = -1,
    swapped: bool = False,
    halves: bool = False,
    alone: bool = False,
    late: bool = False,
) -> Tensor:
    """The table, and with other options what is wrong with it."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    pair = torch.arange(d_model // 2, dtype=torch.float64)
    exponent = two * pair / (divisor or d_model)
    angle = position * 10000 ** (sign * exponent)
    if late:
        angle = position / (10000 ** (two * pair) / d_model)
    waves = [angle.sin(), angle.cos()]
    if alone:
        own = torch.arange(d_model, dtype=torch.float64) / d_model
        angle = position / 10000**own
        waves = [angle[:, 0::2].sin(), angle[:, 1::2].cos()]
    waves = waves[::-1] if swapped else waves
    table = torch.cat(waves, 1) if halves else torch.stack(waves, -1).flatten(1)
    return table.float()


PAIR = "features 2i and 2i + 1 share one angle, with the exponent 2i / d_model"
positional_encoding = Exercise(
    course.positional_encoding,
    [
        Probe(12, 16, praise="12 positions, d_model 16: every number is right"),
        Probe(7, 6, when="7 positions, d_model 6: "),
        Probe(41, 22, praise="other sizes work too", when="41 positions, d_model 22: "),
    ],
    {
        f"the 2 of 2i is missing, or the base is 100: {PAIR}": partial(_table, two=1.0),
        "the 2 is counted twice: `torch.arange(0, d_model, 2)` is 2i already": partial(
            _table, two=4.0
        ),
        f"each feature has an angle of its own: {PAIR}": partial(_table, alone=True),
        f"the exponent is not divided by d_model: {PAIR}": partial(_table, divisor=1.0),
        "`10000 ** a / d` is `(10000 ** a) / d`: put the exponent in parentheses": (
            partial(_table, late=True)
        ),
        "the angle is multiplied by 10000^(2i / d_model): divide, so that each pair "
        "turns more slowly than the one before": partial(_table, sign=1),
        "sine and cosine are swapped: sine in the even features, 0, 2, …": partial(
            _table, swapped=True
        ),
        "all sines come first: sine and cosine of a pair stand side by side": partial(
            _table, halves=True
        ),
    },
    picture=_beside,
    lesson="01",
)

# ------------------------------------------------------------------ 01.2 the words


def _tokens(vocab_size: int, d_model: int, *shape: int, **said: str) -> Probe:
    """Random ids of this shape, for an embedding of these sizes."""
    chance = torch.Generator().manual_seed(sum(shape))
    tokens = torch.randint(vocab_size, shape, generator=chance)
    tokens[0, 0] = 0  # an id like any other here
    return Probe(tokens, build=lambda made: made(vocab_size, d_model), **said)


def _initial_scale(module: nn.Module) -> str:
    """Whether the initial weights have mean 0 and standard deviation d_model^-0.5."""
    if getattr(module, "padding_idx", None) is not None:
        return "with a `padding_idx`, one row is never trained: leave it out"
    weight = module.weight.detach()
    due, found, mean = weight.size(1) ** -0.5, weight.std().item(), weight.mean().item()
    if abs(found / due - 1) < 0.1 and abs(mean) < 0.1 * due:
        return ""
    if abs(found / due - 1) < 0.1:
        return f"the initial weights have the mean {mean:.2g}, not 0"
    return (
        f"the initial weights have the standard deviation {found:.2g}, not "
        f"d_model^-0.5 = {due:.2g}: `nn.init.normal_(self.weight, std=d_model**-0.5)`"
    )


class _Scaled(course.TokenEmbedding):
    """A factor that is not √d_model."""

    def forward(self, tokens: Tensor) -> Tensor:
        vocab_size, d_model = self.weight.shape
        return self.weight[tokens] * self.factor(vocab_size, d_model)


def _scaled(factor) -> type:
    return type("Scaled", (_Scaled,), {"factor": staticmethod(factor)})


token_embedding = Exercise(
    course.TokenEmbedding,
    [
        _tokens(200, 16, 3, 7, praise="each id gets its row, times √d_model"),
        _tokens(90, 50, 2, 4, praise="the initial weights have the right size"),
    ],
    {
        "the rows are not multiplied by √d_model": _scaled(lambda v, d: 1),
        "the factor is √d_model, not d_model": _scaled(lambda v, d: d),
        "the rows are divided by √d_model: multiply": _scaled(lambda v, d: d**-0.5),
        "the factor is the root of d_model, not of vocab_size": _scaled(
            lambda v, d: v**0.5
        ),
    },
    initial=_initial_scale,
    lesson="01",
)

# ------------------------------------------------------------------ 01.3 the sum


def _added(
    *shape: int, longest: int, start: int | None = None, share: float = 0.25, **said
) -> Probe:
    """Random vectors (batch, length, d_model), where positions begin at `start`."""
    embedded = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))
    named = {} if start is None else {"start": start}

    def build(made: type) -> nn.Module:
        module = made(shape[-1], dropout=share, max_length=longest)
        if names := [name for name, _ in module.named_parameters()]:
            raise Wrong(
                f"{listed(names)} would be trained or stored as an `nn.Parameter`: "
                "keep the table with `self.register_buffer`"
            )
        module.tried = torch.full((64, 3, shape[-1]), 9.0), longest, share
        return module

    return Probe(embedded, build=build, **named, **said)


def _dropout_and_table(module: nn.Module) -> str:
    """What is wrong with dropout, or with the way in which the table is kept."""
    words, longest, share = module.tried  # a sum of theirs is never 0
    table = course.positional_encoding(*words.shape[1:])
    due = words + table
    try:
        still, again = (module.eval()(words.clone()) for _ in range(2))
        if not torch.equal(still, again):
            return (
                "dropout acts in evaluation, too: use `nn.Dropout`, or `F.dropout` "
                "with `training=self.training`"
            )
        if not torch.allclose(still, due, atol=1e-4):
            return ""  # the probes say more
        dropped = module.train()(words.clone())
    except Exception:
        return ""
    zero, moved = dropped == 0, ~torch.isclose(dropped, due, atol=1e-3)
    found = zero.float().mean().item()
    alone = [torch.isclose(dropped, x.expand_as(due)) & moved for x in (words, table)]
    if any(part.float().mean() > share / 2 for part in alone):
        return "in training, add first and drop then: `self.dropout(word + position)`"
    if abs(found - share) > 0.06:
        return (
            f"with dropout={share}, training must set a share of {share} of the sums "
            f"to 0: yours sets {found:.2f} of them"
        )
    if not torch.allclose(dropped[~zero], due[~zero] / (1 - share), atol=1e-3):
        return "dropout divides what it keeps by 1 - dropout: use `nn.Dropout`, last"
    if any((zero.all(axis) == zero.any(axis)).all() for axis in (1, 2)):
        return "it drops whole words or features: `nn.Dropout` drops single numbers"
    if module.state_dict():
        return (
            "the table would be stored with the weights, and the course's stored ones "
            "would not fit: register it with `persistent=False`"
        )
    if (sizes := [x.shape for x in module.buffers()]) and not any(
        longest in size for size in sizes
    ):
        return f"the table must have max_length rows, here {longest}"
    try:
        copy.deepcopy(module).to("meta")(words.to("meta"))
    except RuntimeError as error:
        if "device" in str(error):
            return (
                "the table stays on the CPU when the layer moves to a GPU: keep it "
                "with `self.register_buffer`"
            )
    except Exception:
        return ""
    return ""


class _Added(course.PositionalEncoding):
    """Rows of the table, and a way of putting them to the words; both may be wrong."""

    def forward(self, embedded: Tensor, *, start: int = 0) -> Tensor:
        return self.dropout(self.put(embedded, self.rows(embedded, start)))

    def rows(self, embedded: Tensor, start: int) -> Tensor:
        return self.table[start : start + embedded.size(1)]

    def put(self, embedded: Tensor, rows: Tensor) -> Tensor:
        return embedded + rows


class _FromTheFirst(_Added):
    def rows(self, embedded: Tensor, start: int) -> Tensor:
        return self.table[: embedded.size(1)]


class _ToTheLength(_Added):
    def rows(self, embedded: Tensor, start: int) -> Tensor:
        return self.table[start : embedded.size(1)]


class _Multiplied(_Added):
    def put(self, embedded: Tensor, rows: Tensor) -> Tensor:
        return embedded * rows


class _ScaledTwice(_Added):
    def put(self, embedded: Tensor, rows: Tensor) -> Tensor:
        return embedded * math.sqrt(embedded.size(2)) + rows


class _OfTheBatch(_Added):
    def rows(self, embedded: Tensor, start: int) -> Tensor:
        return self.table[start : start + embedded.size(0)][:, None]


positional_encoding_layer = Exercise(
    course.PositionalEncoding,
    [
        _added(2, 5, 16, longest=9, praise="word + position is right"),
        _added(3, 8, 10, longest=8, when="where the sentence has max_length tokens: "),
        _added(4, 4, 4, longest=4, alike=True),
        _added(
            2, 3, 6, longest=20, start=11, share=0.5, praise="a later start is right"
        ),
        _added(1, 1, 8, longest=7, start=6, praise="dropout acts in training alone"),
    ],
    {
        "`start` is not used: the first word has the position `start`": _FromTheFirst,
        "the rows are those from `start` to `start + length`, without the last: "
        "`table[start : start + length]`": _ToTheLength,
        "positions are added, not multiplied": _Multiplied,
        "the words come in multiplied by √d_model already": _ScaledTwice,
        "`size(0)` is the batch: positions go along axis 1, the length": _OfTheBatch,
    },
    initial=_dropout_and_table,
    lesson="01",
)
