"""Checks for the exercises of lesson 01, embeddings and positions."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from numbers import Real

import torch
from matplotlib import pyplot as plt
from torch import Tensor, nn

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
from helpers.plots import heatmap

# ---------------------------------------------------------------------- 01.1 sinusoids


def version(length, d_model, **steps):
    """The positional encoding with some of its STEPS done in another way.

    Without `steps` it returns the same as `helpers.positions.positional_encoding`.
    """
    steps = STEPS | steps
    feature = torch.arange(d_model, dtype=torch.float64)
    exponent = steps["exponent"](feature, d_model)  # (d_model,)
    position = steps["count"](torch.arange(length, dtype=torch.float64))[:, None]
    table = steps["wave"](steps["angle"](position, exponent))
    return steps["give"](table).float()


def _alternate(angle):
    """Sine in the even features, cosine in the odd ones."""
    even = torch.arange(angle.size(1)) % 2 == 0
    return torch.where(even, angle.sin(), angle.cos())


# A mistake is another way to do one of these. `feature` is the number of the feature,
# of which 2i is the even one of its pair: feature // 2 * 2.
STEPS = {
    "exponent": lambda feature, d_model: feature // 2 * 2 / d_model,
    "count": lambda position: position,
    "angle": lambda position, exponent: position / 10000**exponent,
    "wave": _alternate,
    "give": lambda table: table,
}


def _faster(angle):
    return Mistake(
        "the angle is multiplied by 10000^(2i / d_model)",
        "divide: every pair turns more slowly than the one before",
        {"angle": angle},
    )


PAIR = "features 2i and 2i + 1 share one wave: the exponent is 2i / d_model for both"
TABLE_MISTAKES = [
    Mistake(
        "each feature has a wave of its own",
        PAIR + ", such as `torch.arange(0, d_model, 2) / d_model`",
        {"exponent": lambda feature, d_model: feature / d_model},
    ),
    Mistake(
        "i counts the features",
        "i is the number of the pair, so the exponents end below 1; yours reach 2",
        {"exponent": lambda feature, d_model: 2 * feature / d_model},
    ),
    Mistake(
        "the 2 of 2i is there twice",
        "`torch.arange(0, d_model, 2)` is 2i already, so the exponents end below 1",
        {"exponent": lambda feature, d_model: feature // 2 * 4 / d_model},
    ),
    Mistake(
        "the 2 of 2i is missing",
        "the exponent is 2i / d_model, with i the number of the pair: the last one is "
        "nearly 1, yours nearly ½",
        {"exponent": lambda feature, d_model: feature // 2 / d_model},
    ),
    Mistake(
        "the exponent is not divided by d_model",
        "it is 2i / d_model and stays below 1",
        {"exponent": lambda feature, d_model: feature // 2 * 2},
    ),
    Mistake(
        "the pairs are counted from 1",
        "i starts at 0: the first pair divides by 10000⁰ = 1",
        {"exponent": lambda feature, d_model: (feature // 2 * 2 + 2) / d_model},
    ),
    Mistake(
        "the last pair divides by 10000 itself",
        "the exponent is 2i / d_model, which never reaches 1: no `linspace` to 1",
        {"exponent": lambda feature, d_model: feature // 2 * 2 / max(d_model - 2, 1)},
    ),
    Mistake(
        "the positions are counted from 1",
        "they start at 0: the first row is 0, 1, 0, 1, …",
        {"count": lambda position: position + 1},
    ),
    _faster(lambda position, exponent: position * 10000**exponent),
    # In single precision the sine of so large an angle is another number.
    _faster(lambda position, exponent: position.float() * 10000 ** exponent.float()),
    Mistake(
        "the division is one of whole numbers",
        "`//` drops what is behind the point; an angle is divided with `/`",
        {"angle": lambda position, exponent: position // 10000**exponent},
    ),
    Mistake(
        "e stands where 10000 belongs",
        "the base is 10000: `10000 ** exponent`, or `exp(exponent * log(10000))`",
        {"angle": lambda position, exponent: position / exponent.exp()},
    ),
    Mistake(
        "the base is 1000",
        "it is 10000, with four zeros",
        {"angle": lambda position, exponent: position / 1000**exponent},
    ),
    Mistake(
        "there is a factor of 2π in the angle",
        "the angle is p / 10000^(2i / d_model) itself, in radians",
        {"angle": lambda position, exponent: 2 * math.pi * position / 10000**exponent},
    ),
    Mistake(
        "sine and cosine are swapped",
        "the sine has the even features, 2i, and the cosine the odd ones, 2i + 1",
        {"wave": lambda angle: _alternate(math.pi / 2 - angle)},
    ),
    Mistake(
        "all sines come first, then all cosines",
        "they alternate: sine in 2i, cosine in 2i + 1, such as `table[:, 0::2] = …` "
        "and `table[:, 1::2] = …`",
        {
            "wave": lambda angle: torch.cat(
                [angle[:, 0::2].sin(), angle[:, 1::2].cos()], dim=1
            )
        },
    ),
    Mistake(
        "every feature is a sine",
        "the odd features, 2i + 1, have the cosine",
        {"wave": torch.sin},
    ),
    Mistake(
        "every feature is a cosine",
        "the even features, 2i, have the sine",
        {"wave": torch.cos},
    ),
    Mistake(
        "the odd features are left at 0",
        "they have the cosine: `table[:, 1::2] = …`",
        {
            "wave": lambda angle: torch.where(
                torch.arange(angle.size(1)) % 2 == 0, angle.sin(), 0.0
            )
        },
    ),
    Mistake(
        "the angles themselves are returned",
        "take their sine and cosine",
        {"wave": lambda angle: angle},
    ),
    Mistake(
        "rows and columns are swapped",
        "a row is a position, a column a feature: (length, d_model)",
        {"give": lambda table: table.T},
    ),
    Mistake(
        "there is an axis too many in front",
        "(length, d_model) is due; the batch comes later, by broadcasting",
        {"give": lambda table: table[None]},
    ),
]


@check
def sinusoids(function: Callable) -> Iterator[Finding]:
    """Exercise 01.1: `function(length, d_model)` returns (length, d_model)."""
    _demand_table(function, (9, 10))
    yield right("a row per position, a column per feature, in pairs of sine and cosine")
    first = "other sizes go wrong, is a size written as a number? "
    for sizes in ((4, 6), (1, 2), (6, 6), (120, 64)):
        try:
            _demand_table(function, sizes)
        except Stop as stop:
            text = f"{first}With length {sizes[0]} and d_model {sizes[1]}: "
            raise Stop(wrong(text + stop.finding.text, stop.finding.draw)) from None
    yield right("other sizes work too")


def _demand_table(function, sizes) -> None:
    """Stop with a finding unless the function gives the right table."""
    hint = "; positions run down and features across, so give the positions an axis of "
    output = _hinted(hint + "their own: `position[:, None]`", function, *sizes)
    if not isinstance(output, Tensor):
        kind = type(output).__name__
        raise Stop(wrong(f"return a tensor, not a {kind}: `torch.tensor(…)` makes one"))
    expected = version(*sizes)
    if same(output, expected):
        return
    draw = None
    if output.shape == expected.shape:
        draw = partial(matrices_beside, output, expected, "feature", "position")
    if output.numel() and output.dim() == 2 and bool((output == output[:1]).all()):
        text = "every position has the same row: is the table filled, and does the "
        raise Stop(wrong(text + "position enter the angle?", draw))
    if made := recognise(output, version, TABLE_MISTAKES, sizes):
        named = "; and ".join(f"{mistake.name}: {mistake.hint}" for mistake in made)
        raise Stop(wrong(named, draw))
    raise Stop(wrong(_unlike(output, expected), draw))


def _hinted(hint: str, function: Callable, *inputs):
    """As `attempt`, with a hint where two tensors do not fit together."""
    try:
        return attempt(function, *inputs)
    except Stop as stop:
        if "must match the size of tensor" not in stop.finding.text:
            raise
        raise Stop(wrong(stop.finding.text + hint)) from None


def _unlike(output, expected) -> str:
    """What can be said of a wrong table that no known mistake gives."""
    if output.shape != expected.shape:
        return f"the shape is {tuple(output.shape)}, not {tuple(expected.shape)}"
    if not output.isfinite().all():
        return "the table holds NaN or infinity"
    if output.abs().max() > 1.001:
        return "values lie beyond -1 and 1: is every one a sine or a cosine?"
    row = ", ".join(f"{number:.3f}" for number in expected[1, :4].tolist())
    wrong_at = [
        place
        for place in range(expected.size(1))
        if not same(output[:, place], expected[:, place])
    ]
    return (
        f"wrong in the features {wrong_at[:8]}; row 1 is to begin {row}. Has the "
        "exponent its brackets, `10000 ** (2 * i / d_model)`?"
    )


def matrices_beside(yours: Tensor, expected: Tensor, xlabel: str, ylabel: str) -> None:
    """Draw the learner's matrix beside the expected one, in one colour scale."""
    options = {"highest": expected.abs().max().item(), "signed": True}
    rows, columns = map(range, expected.shape)
    figure, axes = plt.subplots(1, 2, figsize=(7, 3), sharey=True)
    for ax, matrix, whose in zip(
        axes, (yours, expected), ("yours", "expected"), strict=True
    ):
        heatmap(matrix, rows, columns, title=whose, ax=ax, colour_bar=False, **options)
        ax.set(xlabel=xlabel, ylabel="")
    axes[0].set_ylabel(ylabel)
    figure.colorbar(axes[0].collections[0], ax=axes, label="value")
    plt.show()


# -------------------------------------------------------------------------- 01.2 waves

# What is asked: the right number, how far off it may be, and wrong numbers with reason.
WAVE_ANSWERS = {
    "different_wavelengths": (
        256,
        0,
        {
            512: "sine and cosine of a pair share theirs",
            255: "pairs are counted from 0 to 255",
            257: "pairs are counted from 0 to 255",
        },
    ),
    "longest_wave": (
        200 * math.pi,
        0.6,
        {
            20000 * math.pi: "that is the length no wave reaches; with d_model 4 the "
            "last exponent is 2/4",
            10000: "with d_model 4 the last exponent is 2/4, and a turn takes 2π",
            100: "that is how many positions one radian takes; a full turn has 2π",
            2 * math.pi: "that is the shortest, of pair 0",
            200: "a full turn has 2π radians, not 2",
            180: "a full turn has 2π radians",
            100 * math.pi: "a full turn has 2π radians, not π",
        },
    ),
    "lookalike": (44, 0, {}),  # see _hand_at
    "sum_of_squares": (
        256,
        0.5,
        {
            512: "each feature is at most 1, but in a pair sin² + cos² is 1, not 2",
            1: "that is one pair; there are 256 of them",
            16: "that is the root of it, the row's length",
            0.5: "that is the mean of the squares",
            128: "the mean square of a feature is ½, of 512 features",
        },
    ),
}


@check
def waves(**answers) -> Iterator[Finding]:
    """Exercise 01.2: four numbers, see WAVE_ANSWERS."""
    for name, (due, tolerance, mistakes) in WAVE_ANSWERS.items():
        answer = answers.get(name)
        if answer is None or answer is Ellipsis:
            yield untried(f"{name}: not attempted yet")
            continue
        number = _number(answer)
        if number is None:
            yield wrong(f"{name} = {answer!r:.60}: one number is due")
        elif abs(number - due) <= tolerance:
            yield right(f"{name} = {number:g}")
        else:
            reasons = [
                why
                for bad, why in mistakes.items()
                if abs(number - bad) <= max(0.002 * bad, 1e-3)
            ]
            if name == "lookalike":
                reasons = [_hand_at(number)]
            why = reasons[0] if reasons else "look again, or measure it on a table"
            yield wrong(f"{name} = {number:g}: {why}")


def _hand_at(position: float) -> str:
    """How far the fastest hand is, there, from where it stood at position 0."""
    if position not in range(1, 51):
        return "one of the positions 1 to 50 is asked for"
    off = abs(math.remainder(position, 2 * math.pi))
    return (
        f"there the hand is {off:.2f} radians from where it stood at 0, and at another "
        "position it comes nearer: a full turn has 2π radians"
    )


def _number(answer) -> float | None:
    """The answer as a number, if it is one: a tensor of one number will do."""
    if isinstance(answer, Tensor) and answer.numel() == 1 and not answer.is_complex():
        answer = answer.item()
    if isinstance(answer, bool) or not isinstance(answer, Real):
        return None
    return float(answer)


# -------------------------------------------------------------------------- 01.3 shift


def turning(k, d_model, **steps):
    """The shift matrix with some of its TURNS done in another way."""
    steps = TURNS | steps
    pair = torch.arange(d_model // 2, dtype=torch.float64)
    angle = steps["angle"](k, steps["exponent"](pair, d_model))
    blocks = steps["block"](angle.cos(), angle.sin())  # (pairs, 2, 2)
    return steps["give"](steps["place"](blocks)).float()


def _blocks(*rows):
    """Blocks (pairs, 2, 2) from two rows of two entries, each entry (pairs,)."""
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


def _in_halves(blocks):
    """Blocks for a table that has all sines first, then all cosines."""
    rows = [
        torch.cat([blocks[:, row, column].diag() for column in (0, 1)], dim=1)
        for row in (0, 1)
    ]
    return torch.cat(rows)


TURNS = {
    "exponent": lambda pair, d_model: 2 * pair / d_model,
    "angle": lambda k, exponent: k / 10000**exponent,
    "block": lambda cos, sin: _blocks((cos, sin), (-sin, cos)),
    "place": lambda blocks: torch.block_diag(*blocks),
    "give": lambda matrix: matrix,
}

SIGNS = (
    "the block of a pair, in the rows and columns 2i and 2i + 1, is cos kw, sin kw "
    "and below it -sin kw, cos kw"
)
SHIFT_MISTAKES = [
    Mistake(
        "it goes k positions back instead of on",
        "the minus stands at the other sine: " + SIGNS + ". Or did you write it for "
        "rows, `row @ matrix`? Here the matrix stands on the left",
        {"block": lambda cos, sin: _blocks((cos, -sin), (sin, cos))},
    ),
    Mistake(
        "no sine has a minus",
        SIGNS,
        {"block": lambda cos, sin: _blocks((cos, sin), (sin, cos))},
    ),
    Mistake(
        "the minus stands at a cosine",
        "that mirrors where it should turn: " + SIGNS,
        {"block": lambda cos, sin: _blocks((cos, sin), (sin, -cos))},
    ),
    Mistake(
        "sine and cosine are swapped",
        SIGNS,
        {"block": lambda cos, sin: _blocks((sin, cos), (cos, -sin))},
    ),
    Mistake(
        "sine and cosine are swapped",
        SIGNS,
        {"block": lambda cos, sin: _blocks((sin, cos), (-cos, sin))},
    ),
    Mistake(
        "only the diagonal is filled",
        "each pair needs its two sines beside the diagonal: " + SIGNS,
        {"block": lambda cos, sin: _blocks((cos, 0 * sin), (0 * sin, cos))},
    ),
    Mistake(
        "it is made for a table with all sines first",
        "sine and cosine of a pair stand side by side, so its block lies on the "
        "diagonal: rows and columns 2i and 2i + 1",
        {"place": _in_halves},
    ),
    Mistake(
        "all pairs turn by the same angle",
        "pair i turns by k / 10000^(2i / d_model)",
        {"angle": lambda k, exponent: k / 10000 ** (0 * exponent)},
    ),
    Mistake(
        "it makes one step, whatever k is",
        "the angle is k times the angle of one step",
        {"angle": lambda k, exponent: 1 / 10000**exponent},
    ),
    Mistake(
        "the angle is multiplied by 10000^(2i / d_model)",
        "divide: every pair turns more slowly than the one before",
        {"angle": lambda k, exponent: k * 10000**exponent},
    ),
    Mistake(
        "the 2 of 2i is missing",
        "pair i has the exponent 2i / d_model, with i from 0 to d_model / 2 - 1",
        {"exponent": lambda pair, d_model: pair / d_model},
    ),
    Mistake(
        "the 2 of 2i is there twice",
        "pair i has the exponent 2i / d_model; `range(0, d_model, 2)` is 2i already",
        {"exponent": lambda pair, d_model: 4 * pair / d_model},
    ),
    Mistake(
        "the exponent is not divided by d_model",
        "pair i has the exponent 2i / d_model",
        {"exponent": lambda pair, d_model: 2 * pair},
    ),
    Mistake(
        "the pairs are counted from 1",
        "i starts at 0: the first pair turns by k",
        {"exponent": lambda pair, d_model: (2 * pair + 2) / d_model},
    ),
    Mistake(
        "the blocks come without the zeros around them",
        "put them on the diagonal of a (d_model, d_model) matrix: `torch.block_diag`",
        {"place": lambda blocks: blocks},
    ),
]
FAR = 20_000  # the positions at which a shift is tried


@check
def shift(function: Callable) -> Iterator[Finding]:
    """Exercise 01.3: `function(k, d_model)` returns the matrix (d_model, d_model)."""
    _demand_shift(function, 3, 8)
    yield right("d_model 8: every position goes to the one 3 further, from 0 to 20,000")
    for k, d_model in ((1, 2), (10, 14), (0, 4), (-2, 6)):
        try:
            _demand_shift(function, k, d_model)
        except Stop as stop:
            text = f"with k = {k} and d_model {d_model}: {stop.finding.text}"
            raise Stop(wrong(text, stop.finding.draw)) from None
    yield right("other steps and sizes work too, back (k = -2) and on the spot (k = 0)")


def _demand_shift(function, k, d_model) -> None:
    """Stop with a finding unless the matrix takes every row k positions further."""
    output = attempt(function, k, d_model)
    if not isinstance(output, Tensor):
        kind = type(output).__name__
        raise Stop(wrong(f"return a tensor (d_model, d_model), not a {kind}"))
    expected = turning(k, d_model)
    fits = output.shape == expected.shape
    if fits:
        missed = _missed(output.detach().double().cpu(), k, d_model)
        if missed.amax() < 1e-3:
            return
    labels = "feature at position p", f"feature at position p + {k}"
    draw = partial(matrices_beside, output, expected, *labels) if fits else None
    if made := recognise(output, turning, SHIFT_MISTAKES, (k, d_model)):
        text = "; and ".join(f"{mistake.name}: {mistake.hint}" for mistake in made)
    elif not fits:
        text = f"the shape is {tuple(output.shape)}, not {tuple(expected.shape)}"
    elif not output.isfinite().all():
        text = "the matrix holds NaN or infinity"
    elif not output.any():
        text = "the matrix is all zeros: is it ever filled?"
    elif (_missed(output.T.detach().double().cpu(), k, d_model)[:30] < 1e-3).all():
        text = (
            "it works from the other side, `row @ matrix`, and only for the first "
            "positions: was it solved for? Write it down, pair by pair"
        )
    else:
        text = _missed_where(missed, k)
    raise Stop(wrong(text, draw))


def _missed(matrix, k, d_model) -> Tensor:
    """By how much the matrix misses, at each position from 0 to FAR."""
    start = max(0, -k)
    position = torch.arange(start, FAR, dtype=torch.float64)[:, None]
    rows, due = (_rows(place, d_model) for place in (position, position + k))
    return (rows @ matrix.T - due).abs().amax(dim=1)


def _rows(position, d_model):
    """Rows of the positional encoding at these positions (n, 1), in float64."""
    feature = torch.arange(d_model, dtype=torch.float64)
    return _alternate(position / 10000 ** STEPS["exponent"](feature, d_model))


def _missed_where(missed, k) -> str:
    """Where a matrix goes wrong that no known mistake gives."""
    hit = missed < 1e-3
    if hit[0] and hit.sum() < 10:
        return (
            "it takes one position to its place and no other: the matrix must not "
            "depend on where it starts, only on k"
        )
    if hit[:30].all():
        return (
            f"it holds for the first {int((~hit).nonzero()[0])} positions and then no "
            "longer: was it solved for? The slow waves do not move enough there to be "
            "found; write it down, pair by pair"
        )
    first = int((~hit).nonzero()[0])
    return (
        f"from position {first} it does not lead to {first + k}: off by "
        f"{missed[first]:.3f}. {SIGNS[0].upper()}{SIGNS[1:]}, with "
        "w = 1 / 10000^(2i / d_model)"
    )


# -------------------------------------------------------------------- 01.4 input layer

VOCAB, D_MODEL, LENGTH = 1000, 64, 12
# What is said of the three faults as they were handed out.
FAULTS = "indexed along the batch", "drown the positions", "would be trained"


@check
def input_layer(layer_class: type[nn.Module]) -> Iterator[Finding]:
    """Exercise 01.4: a module (vocab_size, d_model, max_length) that takes ids."""
    if layer_class is None or layer_class is Ellipsis:
        raise Stop(untried("nothing to check yet"))
    if not isinstance(layer_class, type):
        kind = type(layer_class).__name__
        raise Stop(wrong(f"hand over the class itself, not what it makes (a {kind})"))
    state = torch.get_rng_state()
    try:
        torch.manual_seed(0)
        layer = attempt(layer_class, VOCAB, D_MODEL, LENGTH)
        if not isinstance(layer, nn.Module):
            raise Stop(
                wrong("the class is to be a module: `class InputLayer(nn.Module)`")
            )
        layer.eval()
        findings = [_positions(layer), _sizes(layer), _trained(layer)]
    finally:
        torch.set_rng_state(state)
    if all(
        part in finding.text for part, finding in zip(FAULTS, findings, strict=True)
    ):
        yield untried("not attempted yet: all three faults are still there")
    else:
        yield from findings


def _forward(layer, tokens) -> Tensor:
    """What the layer gives for ids (batch, length); Stop if the shape is wrong."""
    hint = f"; the ids are {tuple(tokens.shape)}: does the table still have the axis "
    output = _hinted(hint + "in the middle that `[:, None]` made?", layer, tokens)
    due = (*tokens.shape, D_MODEL)
    if not isinstance(output, Tensor) or output.shape != due:
        found = tuple(output.shape) if isinstance(output, Tensor) else type(output)
        raise Stop(wrong(f"ids {tuple(tokens.shape)} are to give {due}, not {found}"))
    return output.detach().double()


def _positions(layer) -> Finding:
    """One word everywhere, so that rows differ by their positions alone."""
    output = _forward(layer, torch.full((3, 8), 5))
    across = (output - output[:1]).abs().max()
    along = output - output[:, :1]
    rows = _rows(torch.arange(8.0, dtype=torch.float64)[:, None], D_MODEL)
    due = rows - rows[0]
    if across < 1e-4 and torch.allclose(along, due.expand(3, -1, -1), atol=1e-4):
        return right("every position of every sentence gets its own row of the table")
    if along.abs().max() < 1e-4 and across < 1e-4:
        return wrong("a word is the same at every position: no positions are added")
    if along.abs().max() < 1e-4:
        return wrong(
            "a word is the same at every position, and differs from sentence to "
            "sentence: the table is indexed along the batch, not along the length"
        )
    if across > 1e-4:
        return wrong(
            "the same sentence gives another result in another row of the batch: "
            "along which axis is the table taken?"
        )
    if torch.allclose(along, (math.sqrt(D_MODEL) * due).expand(3, -1, -1), atol=1e-3):
        return wrong("the positions are multiplied, too: the factor is for words alone")
    return wrong("the differences between positions are not those of the sinusoids")


def _sizes(layer) -> Finding:
    """The size of a word's vector, without its position."""
    # Two batches of other words: in their difference the positions cancel out.
    tokens = torch.arange(2 * 8 * 8).view(2, 8, 8)
    size = (_forward(layer, tokens[0]) - _forward(layer, tokens[1])).std().item()
    size /= math.sqrt(2)
    if 0.85 < size < 1.15:
        return right(f"words have features of size {size:.2f}, positions of 0.71")
    root = math.sqrt(D_MODEL)
    if abs(size / root - 1) < 0.15:
        return wrong(
            f"words have features of size {size:.1f} and drown the positions, of 0.71: "
            "nn.Embedding starts with a standard deviation of 1, the factor wants "
            "1/√d_model"
        )
    if abs(size * root - 1) < 0.15:
        return wrong(
            f"words have features of size {size:.2f} and are drowned by positions, of "
            "0.71: a start of 1/√d_model wants the factor √d_model"
        )
    return wrong(f"words have features of size {size:.3g}, where about 1 is due")


def _trained(layer) -> Finding:
    """Nothing but the words is trained, and the table moves with the layer."""
    trained = sum(p.numel() for p in layer.parameters() if p.requires_grad)
    if trained < VOCAB * D_MODEL:
        return wrong(f"only {trained:,} numbers are trained, and the words have more")
    if trained > VOCAB * D_MODEL:
        extra = trained - VOCAB * D_MODEL
        return wrong(
            f"{extra:,} numbers besides the words would be trained, and the sinusoids "
            "be lost: a table that is not learnt is a buffer, `register_buffer`"
        )
    if not attempt(layer, torch.zeros(1, 1, dtype=torch.long)).requires_grad:
        return wrong("no gradient reaches the words, so they could not learn")
    moved = layer.to("meta")
    own = [*moved.parameters(), *moved.buffers()]
    if sum(tensor.numel() for tensor in own) < VOCAB * D_MODEL + LENGTH * D_MODEL:
        return wrong(
            "the table is neither parameter nor buffer, so it stays behind when the "
            "layer moves to a GPU: `register_buffer` in `__init__`"
        )
    return right("only the words are trained, and the table moves with the layer")
