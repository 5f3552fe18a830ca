"""The exercises of lesson 01: the table of positions, and the two input layers."""

from collections.abc import Callable
from functools import partial

import torch
from matplotlib import pyplot as plt
from torch import Tensor, nn

from helpers import positions as course
from helpers.exercise import Exercise, Probe
from helpers.plots import heatmap

# ------------------------------------------------------------------ 01.1 the table


def _beside(yours: Tensor, due: Tensor) -> None:
    """Draw the learner's table beside the one expected."""
    _, axes = plt.subplots(1, 2, figsize=(6, 3.2), sharey=True)
    for ax, table, title in zip(axes, (yours, due), ("yours", "expected"), strict=True):
        look = {"signed": True, "colour_bar": False, "title": title, "ax": ax}
        heatmap(table, *map(range, table.shape), **look)
        ax.set(xlabel="feature", ylabel="position")
        ax.label_outer()
    plt.show()


def _table(
    length: int,
    d_model: int,
    *,
    two: int = 2,
    swapped: bool = False,
    halves: bool = False,
) -> Tensor:
    """The table, and with other options what is wrong with it."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    angle = position / 10000 ** (two * torch.arange(d_model // 2) / d_model)
    waves = [angle.cos(), angle.sin()] if swapped else [angle.sin(), angle.cos()]
    table = torch.cat(waves, 1) if halves else torch.stack(waves, -1).flatten(1)
    return table.float()


def _each_its_own(length: int, d_model: int) -> Tensor:
    """An angle for each feature, not for each pair."""
    position, feature = torch.arange(length)[:, None], torch.arange(d_model)
    angle = position / 10000 ** (feature / d_model)
    return torch.where(feature % 2 == 0, angle.sin(), angle.cos())


PAIR = "features 2i and 2i + 1 share one angle, with the exponent 2i / d_model"
positional_encoding = Exercise(
    course.positional_encoding,
    [
        Probe(12, 16, praise="12 positions, d_model 16: every number is right"),
        Probe(7, 6, when="7 positions, d_model 6: "),
        Probe(41, 22, praise="other sizes work too", when="41 positions, d_model 22: "),
    ],
    {
        f"the 2 of 2i is missing, or the base is 100: {PAIR}": partial(_table, two=1),
        "the 2 is counted twice: `torch.arange(0, d_model, 2)` is 2i already": partial(
            _table, two=4
        ),
        f"each feature has an angle of its own: {PAIR}": _each_its_own,
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
    std, mean = (x.item() for x in torch.std_mean(module.weight.detach()))
    due = module.weight.size(1) ** -0.5
    if abs(std / due - 1) < 0.1 and abs(mean / due) < 0.1:
        return ""
    return (
        f"the initial weights have the mean {mean:.2g} and the standard deviation "
        f"{std:.2g}, not 0 and d_model^-0.5 = {due:.2g}: "
        "`nn.init.normal_(self.weight, std=d_model**-0.5)`"
    )


def _times(power: float) -> type:
    """The layer, with another power of d_model as its factor."""

    class Wrong(course.TokenEmbedding):
        def forward(self, tokens: Tensor) -> Tensor:
            return self.weight[tokens] * self.weight.size(1) ** power

    return Wrong


token_embedding = Exercise(
    course.TokenEmbedding,
    [
        _tokens(200, 16, 3, 7, praise="each id gets its row, times √d_model"),
        _tokens(90, 50, 2, 4, praise="the initial weights have the right size"),
    ],
    {
        "the rows are not multiplied by √d_model": _times(0),
        "the factor is √d_model, not d_model": _times(1),
    },
    initial=_initial_scale,
    lesson="01",
)

# ------------------------------------------------------------------ 01.3 the sum


def _added(
    *shape: int, longest: int, start: int = 0, device: str = "cpu", **said
) -> Probe:
    """Random vectors (batch, length, d_model), where positions begin at `start`."""
    embedded = torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))

    def build(made: type) -> nn.Module:
        return made(shape[-1], dropout=0.25, max_length=longest).to(device)

    named = {"start": start} if start else {}
    return Probe(embedded.to(device), build=build, **named, **said)


def _dropout_and_table(module: nn.Module) -> str:
    """What is wrong with dropout, or with the way in which the table is kept."""
    words = torch.full((16, 16, 16), 9.0)  # with a position, never 0
    due = words + course.positional_encoding(16, 16)
    for share in (0.25, 0.5):
        module = type(module)(16, dropout=share, max_length=17)
        if not torch.allclose(module.eval()(words.clone()), due, atol=1e-4):
            return ""  # the probes say more
        dropped = module.train()(words.clone())
        zero = dropped == 0
        found = zero.float().mean().item()
        kept = torch.isclose(dropped * (1 - share), due, atol=1e-3)
        single = [(zero.any(axis) & ~zero.all(axis)).any() for axis in (1, 2)]
        if abs(found - share) > 0.06 or not all([(zero | kept).all(), *single]):
            return (
                f"with dropout={share}, training must set single numbers of the sum to "
                f"0, a share of {share} (yours: {found:.2f}), and divide the others by "
                f"{1 - share}: `self.dropout(word + position)`, an `nn.Dropout`"
            )
    if module.state_dict():
        return (
            "the table would be stored with the weights, and the course's stored ones "
            "would not fit: register it with `persistent=False`"
        )
    sizes = {size for buffer in module.buffers() for size in buffer.shape}
    return "the table must have max_length rows" if sizes and 17 not in sizes else ""


def _adding(rows: Callable[[Tensor, Tensor, int], Tensor]) -> type:
    """The layer with other rows, rows(table, embedded, start)."""

    class Wrong(course.PositionalEncoding):
        def forward(self, embedded: Tensor, *, start: int = 0) -> Tensor:
            return self.dropout(embedded + rows(self.table, embedded, start))

    return Wrong


MOVED = "moved to another device, where `register_buffer` takes the table along: "
positional_encoding_layer = Exercise(
    course.PositionalEncoding,
    [
        _added(2, 5, 16, longest=9, praise="word + position is right"),
        _added(3, 8, 10, longest=8, when="where the sentence has max_length tokens: "),
        _added(4, 4, 4, longest=4, alike=True),
        _added(2, 3, 6, longest=20, start=11, praise="a later start is right"),
        _added(1, 1, 8, longest=7, start=6, praise="dropout acts in training alone"),
        _added(2, 3, 6, longest=9, device="meta", when=MOVED),
    ],
    {
        "`start` is not used: the first word has the position `start`": _adding(
            lambda table, embedded, start: table[: embedded.size(1)]
        ),
        "the rows are those from `start` to `start + length`, without the last: "
        "`table[start : start + length]`": _adding(
            lambda table, embedded, start: table[start : embedded.size(1)]
        ),
    },
    initial=_dropout_and_table,
    lesson="01",
)
