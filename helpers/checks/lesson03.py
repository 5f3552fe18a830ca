"""Checks for the exercises of lesson 03, masks."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from matplotlib import pyplot as plt
from torch import Tensor

from helpers import PAD
from helpers.checks.core import (
    Finding,
    Stop,
    attempt,
    check,
    right,
    untried,
    weights_beside,
    wrong,
)
from helpers.masks import causal_mask, decoder_mask, padding_mask
from helpers.plots import heatmap
from helpers.probes import influence

# Padding on the right, none, on the left; 1 to 3 are UNK, BOS and EOS. Three sentences
# of five tokens, so that no axis can be taken for another.
TOKENS = torch.tensor([[2, 6, 3, PAD, PAD], [2, 7, 1, 5, 3], [PAD, PAD, 2, 9, 3]])
BATCH, LENGTH = TOKENS.shape

FULL = (BATCH, 1, LENGTH, LENGTH)

OPPOSITE = "it is inverted: `True` means *may attend*, not *hidden*"
BROADCAST = (
    "axes are lined up from the right, so the batch would meet the queries or the "
    "heads; `[:, None, None, :]` puts axes of size 1 between"
)


# What part of PyTorch's message means, where masks are made.
REASONS = {
    "must match the size": "axes are lined up from the right: does the batch need "
    "`[:, None, None, :]`, and is the length `tokens.size(1)`?",
    "not implemented for": "`&` and `|` are for booleans, and something here is floats",
    "is only implemented on": "`~` is for booleans, and something here is floats",
}


def _run(function: Callable, *inputs) -> Tensor:
    """What the function returns; what stops code that makes masks has a reason."""
    try:
        return attempt(function, *inputs)
    except Stop as stop:
        for part, reason in REASONS.items():
            if part in stop.finding.text:
                raise Stop(wrong(f"{stop.finding.text}: {reason}")) from None
        raise


# ------------------------------------------------------- 03.1 write the three masks


def _triangle(shift: int) -> Tensor:
    """True up to `shift` places after the diagonal."""
    return torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool).tril(shift)


def _padding_mistakes() -> dict[str, Tensor]:
    real = padding_mask(TOKENS)
    count = (TOKENS != PAD).sum(1)[:, None, None, None]
    return {
        OPPOSITE: ~real,
        "it hides padded *queries* (whole rows): keys lie along the last axis, so "
        "`[:, None, None, :]`": real.mT.expand(FULL),
        "it counts the words and takes so many from the left, which is wrong where "
        "padding stands on the left: compare each token with PAD": (
            torch.arange(LENGTH) < count
        ),
        "it hides other special tokens too: only PAD is padding": (
            (TOKENS > 3)[:, None, None]
        ),
        "it hides the padded queries besides the keys: hide keys only, for a row of "
        "all False is a query with nothing to see": real & real.mT,
        "nothing is hidden": torch.ones(FULL, dtype=torch.bool),
        "it hides the future, which is the other mask's task": causal_mask(LENGTH),
    }


def _causal_mistakes() -> dict[str, Tensor]:
    past = _triangle(0)
    return {
        OPPOSITE: ~past,
        "it is upside down, so it hides the past: `tril`, not `triu`": past.mT,
        "a token does not see itself: the diagonal is due, `tril()`, not `tril(-1)`": (
            _triangle(-1)
        ),
        "each token sees the next one, the very word it is to guess: `tril()`, not "
        "`tril(1)`": _triangle(1),
        "it shows the future, and the token itself is hidden": past.mT & ~past,
        "nothing is hidden": torch.ones_like(past),
        "only the token itself is seen: the past is to be seen, too": past & past.mT,
    }


def _decoder_mistakes() -> dict[str, Tensor]:
    real, past = padding_mask(TOKENS), causal_mask(LENGTH)
    due = real & past
    return {
        OPPOSITE: ~due,
        "it shows what is a word *or* in the past: both must hold, so `&`, not `|` "
        "or `+`": real | past,
        "padding is not hidden": past,
        "the future is not hidden": real,
        "it hides padded *queries* instead of keys": real.mT & past,
        "it hides the padded queries besides the keys: hide keys only": due & real.mT,
        "the future is seen and the past is hidden": real & past.mT,
        "a token does not see itself": real & _triangle(-1),
        "each token sees the next one": real & _triangle(1),
        "both masks are inverted before they are combined": ~real & ~past,
    }


@check
def three_masks(padding: Callable, causal: Callable, decoder: Callable):
    """Exercise 03.1: the functions of the three masks, in this order."""
    for name, function, arguments, due, mistakes in (
        ("padding", padding, TOKENS, padding_mask(TOKENS), _padding_mistakes()),
        ("causal", causal, LENGTH, causal_mask(LENGTH), _causal_mistakes()),
        ("decoder", decoder, TOKENS, decoder_mask(TOKENS), _decoder_mistakes()),
    ):
        try:
            yield from _one_mask(name, _run(function, arguments), due, mistakes)
            yield _other_sizes(name, function)
        except Stop as stop:
            finding = stop.finding
            yield Finding(finding.mark, f"{name}: {finding.text}", finding.draw)


def _one_mask(name, mask, due, mistakes) -> Iterator[Finding]:
    """Whether the mask is the due one; Stop with the reason if not."""
    _demand_boolean(mask, due, mistakes)
    shape = tuple(mask.shape)
    if not _broadcasts(mask, due):
        raise Stop(wrong(_shape_fault(shape, due)))
    if not _equal(mask, due):
        raise Stop(wrong(_named(mask, mistakes), _beside(mask, due)))
    if shape == tuple(due.shape):
        yield right(f"{name}: {shape}, and every cell as it should be")
    else:
        yield right(
            f"{name}: every cell as it should be; your shape {shape} does the same as "
            f"the usual {tuple(due.shape)}"
        )


def _demand_boolean(mask, due, mistakes) -> None:
    """Stop unless the mask is a boolean tensor; say what else is wrong with it."""
    if not isinstance(mask, Tensor):
        raise Stop(wrong(f"return a tensor, not a {type(mask).__name__}"))
    if mask.dtype == torch.bool:
        return
    text = f"return booleans, not {str(mask.dtype)[6:]}"
    if mask.is_floating_point() and mask.isinf().any():
        text += ": 0 and -inf are another convention, to be added to the scores"
    elif not ((mask == 0) | (mask == 1)).all():
        text += ": a comparison such as `tokens != PAD` gives them"
    else:
        text += ": a comparison gives them, or `dtype=torch.bool`, or `.bool()`"
        if _broadcasts(mask, due) and not _equal(mask.bool(), due):
            text += f"; besides, {_named(mask.bool(), mistakes)}"
    raise Stop(wrong(text))


def _broadcasts(mask: Tensor, due: Tensor) -> bool:
    """Whether the mask fits (batch, heads, queries, keys) in the way it is meant."""
    full = FULL if due.size(0) > 1 else (1, 1, LENGTH, LENGTH)
    fits = zip(reversed(mask.shape), reversed(full), strict=False)
    # With a batch axis, all four axes must be there: see lesson 03 on coincidences.
    axes = mask.dim() == 4 if due.size(0) > 1 else 2 <= mask.dim() <= 4
    return axes and all(size in (1, wanted) for size, wanted in fits)


def _shape_fault(shape: tuple[int, ...], due: Tensor) -> str:
    wanted = tuple(due.shape)
    text = f"the shape is {shape}, expected is {wanted}"
    if due.size(0) > 1 and len(shape) < 4:
        return f"{text}: {BROADCAST}"
    return text


def _equal(mask: Tensor, due: Tensor) -> bool:
    mask, due = torch.broadcast_tensors(mask, due)
    return torch.equal(mask, due)


def _named(mask: Tensor, mistakes: Mapping[str, Tensor]) -> str:
    """The mistake that gives this mask, or how many cells differ."""
    for name, result in mistakes.items():
        if _broadcasts(mask, result) and _equal(mask, result):
            return name
    return "some cells are wrong: compare the pictures (1 = may attend)"


def _beside(mask: Tensor, due: Tensor) -> Callable[[], None]:
    """A picture of the first sentence where the two differ."""
    mask, due = (part.expand(FULL).float() for part in (mask, due))
    place = int((mask != due).flatten(1).any(1).nonzero()[0])
    return partial(weights_beside, mask[place, 0], due[place, 0])


def _other_sizes(name: str, function: Callable) -> Finding:
    """Stop unless the function is right for other sizes, too."""
    tokens = torch.tensor([[5, 6, PAD]])
    asked, given, due = {
        "padding": ("tokens of shape (1, 3)", tokens, padding_mask(tokens)),
        "causal": ("length 3", 3, causal_mask(3)),
        "decoder": ("tokens of shape (1, 3)", tokens, decoder_mask(tokens)),
    }[name]
    hard_coded = f"wrong for {asked}: is a size written as a number?"
    try:
        mask = attempt(function, given).expand(1, 1, 3, 3)
    except Stop as stop:
        raise Stop(wrong(f"{hard_coded} ({stop.finding.text})")) from None
    except RuntimeError:
        raise Stop(wrong(hard_coded)) from None
    if not _equal(mask, due):
        raise Stop(wrong(hard_coded))
    return right(f"{name}: other sizes work too")


# ------------------------------------------------------------ 03.2 predict the masks

# What to predict, its right answer, and wrong ones with their reason.
PREDICTIONS = {
    "decoder_mask_shape": (
        (32, 1, 20, 20),
        {
            (32, 1, 1, 20): "that is the padding mask; the causal one adds the queries",
            (1, 1, 20, 20): "that is the causal mask; padding differs by sentence",
            (32, 20, 20): "an axis for the heads stands between, of size 1",
            (32, 20): "each pair of query and key has an entry, and there are heads",
            (32, 8, 20, 20): "right when broadcast, but heads share it: size 1",
            (1, 32, 20, 20): "the batch comes first, then the heads",
        },
    ),
    "visible_pairs": (
        18,
        {
            21: "that is the causal triangle of 6; two columns of it are padding",
            24: "that is the padding mask for 6 queries; the future is hidden, too",
            10: "that is the words' part; the two <pad> ask as well, and see 4 words",
            16: "that is 4 by 4, without the triangle",
            15: "that is a triangle of 5: how many rows are there, how many columns?",
            36: "that is every pair",
            12: "that is the sentence in the text, with 3 words; this one has 4",
        },
    ),
    "last_pad_sees": (
        (0, 1, 2, 3),
        {
            (): "queries are not hidden, only keys: a <pad> asks, and sees the words",
            (0, 1, 2, 3, 4, 5): "padding is hidden as a key, from every query",
            (0, 1, 2, 3, 4): "the <pad> at place 4 is hidden as a key",
            (0, 1, 2, 3, 5): "as a key it is padding, so it does not even see itself",
            (5,): "as a key it is padding, so it does not even see itself",
            (4, 5): "those are the padding; hidden they are, as keys",
            (1, 2, 3, 4): "count from 0",
        },
    ),
    "empty_queries": (
        (0, 1),
        {
            (): "the first <pad> may see itself and the past, and all that is padding",
            (0,): "the second <pad> sees two keys, and both are padding",
            (0, 1, 2): "the first word sees itself",
            (2, 3, 4, 5): "those are the words; each of them sees itself",
            (4, 5): "the padding stands on the left: those are words",
            (1, 2): "count from 0",
        },
    ),
}


GRID = "draw the grid on paper, row by row"
OTHERWISE = {"decoder_mask_shape": "which two shapes meet in `&`?"}


@check
def predictions(**answers) -> Iterator[Finding]:
    """Exercise 03.2: a shape, a number of cells, and two tuples of places."""
    for name, (due, mistakes) in PREDICTIONS.items():
        answer = _plain(answers.get(name), in_order=name == "decoder_mask_shape")
        if answer is None or answer is Ellipsis:
            yield untried(f"{name}: not attempted yet")
        elif isinstance(answer, tuple) and None in answer:
            yield untried(f"{name}: {answer} is not complete")
        elif isinstance(answer, bool) or not isinstance(answer, int | float | tuple):
            yield wrong(f"{name} = {answer!r:.60}: see the text for what is due")
        elif isinstance(answer, tuple) != isinstance(due, tuple):
            kind = "a tuple" if isinstance(due, tuple) else "a number"
            yield wrong(f"{name} = {answer}: {kind} is due")
        elif answer == due:
            yield right(f"{name} = {answer}")
        else:
            reason = mistakes.get(answer, OTHERWISE.get(name, GRID))
            yield wrong(f"{name} = {answer}: {reason}")


def _plain(answer, *, in_order: bool):
    """The answer as a number or a tuple, sorted if the order says nothing."""
    if hasattr(answer, "tolist"):  # a tensor, or an array
        answer = answer.tolist()
    if isinstance(answer, list | set | range | tuple):
        answer = tuple(answer)
    if isinstance(answer, tuple) and not in_order:
        answer = tuple(sorted(answer, key=str))  # places have one digit
    return answer


# ------------------------------------------------ 03.3 find the mistake by its picture


def _suspect(make_mask: Callable, late: bool = False) -> Callable[[Tensor], Tensor]:
    """A self-attention on four words and two <pad>, in its own way of masking."""

    def look(x: Tensor) -> Tensor:
        places = torch.arange(6)
        real = (places < 4)[None, :]
        past = places[:, None] >= places[None, :]
        generator = torch.Generator().manual_seed(3)
        size = x.size(-1)
        projections = torch.randn(3, size, size, generator=generator) / size**0.5
        query, key, value = (x @ w.to(x.dtype) for w in projections)
        scores, mask = query @ key.mT / math.sqrt(size), make_mask(real, past)
        if late:
            return scores.softmax(-1).masked_fill(~mask, 0.0) @ value
        weights = scores.masked_fill(~mask, -math.inf).softmax(-1)
        return weights.masked_fill(~mask, 0.0) @ value

    return look


SUSPECTS = {
    "A": _suspect(lambda real, past: real | past),
    "B": _suspect(lambda real, past: real & past),
    "C": _suspect(lambda real, past: real & past, late=True),
    "D": _suspect(lambda real, past: ~(real & past)),
}
FAULTS = {
    "A": "or in place of and",
    "B": "right",
    "C": "mask after the softmax",
    "D": "inverted",
}
# The names to choose from: those of the lesson's pictures, and three more.
NAMES = (
    "right",
    "one token too far",
    "one token too few",
    "triu in place of tril",
    "queries hidden, not keys",
    "mask after the softmax",
    "nothing hidden",
    "inverted",
    "or in place of and",
)
# What tells a suspect from what it was taken for; then, what its picture shows at all.
UNLIKE = {
    ("A", "nothing hidden"): "its words' rows have exact zeros: in which columns?",
    ("A", "mask after the softmax"): "its words' rows have exact zeros, which a mask "
    "after the softmax never leaves",
    ("A", "one token too far"): "its first row reaches further than one word",
    ("A", "triu in place of tril"): "the words' past is there as well",
    ("A", "right"): "behind the diagonal there is influence",
    ("B", "queries hidden, not keys"): "the rows of <pad> are not empty",
    ("B", "one token too few"): "its first word reaches itself",
    ("C", "nothing hidden"): "nearly, as everything reaches everything. But without a "
    "mask the hidden cells would be about as strong as the others; compare the sizes",
    ("C", "or in place of and"): "there is not a single exact zero in the words' rows",
    ("C", "right"): "a small influence is not 0: there is no exact zero",
    ("D", "triu in place of tril"): "with `triu` the columns of <pad> would still be 0 "
    "in the words' rows",
}
SHOWS = {
    "A": "in the words' rows all words come through, future ones too, but no <pad>",
    "B": "nothing behind the diagonal, nothing from <pad> but from its own query, and "
    "no gap below the diagonal",
    "C": "no cell is exactly 0, and what should be hidden is mostly faint",
    "D": "the past is exactly 0, while future and <pad> come through",
}


@check
def find_mistakes(answers: Mapping[str, str]) -> Iterator[Finding]:
    """Exercise 03.3: {"A": name of the mistake, …} for the four suspects."""
    if not isinstance(answers, Mapping):
        yield wrong(f"hand over the dictionary of the stub, not {answers!r:.60}")
        return
    for letter, due in FAULTS.items():
        answer = answers.get(letter)
        if answer is None or answer is Ellipsis:
            yield untried(f"{letter}: not attempted yet")
        elif not isinstance(answer, str) or answer.strip().lower() not in NAMES:
            yield wrong(f"{letter}: {answer!r:.60} is not in the list of the text")
        elif answer.strip().lower() == due:
            yield right(f"{letter}: {due}")
        else:
            said = answer.strip().lower()
            reason = UNLIKE.get((letter, said), f"its picture differs: {SHOWS[letter]}")
            yield wrong(
                f"{letter}: not “{said}”: {reason}", partial(_draw_reach, letter)
            )


def _draw_reach(letter: str) -> None:
    """Which input reaches which output of the suspect, 1 or 0."""
    x = torch.randn(1, 6, 8, generator=torch.Generator().manual_seed(0))
    x[:, 5] = x[:, 4]  # <pad> has one embedding
    reach = influence(SUSPECTS[letter], x) > 0
    labels = ["word 1", "word 2", "word 3", "word 4", "<pad>", "<pad>"]
    title = f"{letter}: 1 = some influence, 0 = none"
    options = {"title": title, "numbers": "{:.0f}".format, "colour_bar": False}
    ax = heatmap(reach, labels, labels, **options)
    ax.set(xlabel="input", ylabel="output")
    plt.show()


# --------------------------------------------------- 03.4 read PyTorch's two masks


def _two_masks() -> tuple[Tensor, Tensor]:
    """PyTorch's masks for TOKENS: True = hidden, in both."""
    return TOKENS == PAD, ~causal_mask(LENGTH)[0, 0]


def _pytorch_mistakes() -> dict[str, Tensor]:
    padded, future = _two_masks()
    padded = padded[:, None, None]
    return {
        "it is inverted: PyTorch's `True` means *hidden*, ours *may attend*": (
            padded | future
        ),
        "it hides only what both masks hide: a key is hidden if the one *or* the other "
        "hides it, so it is seen if neither does: `~(a | b)`, which is `~a & ~b`": ~(
            padded & future
        ),
        "only the key_padding_mask is inverted: both hold True = hidden": (
            ~padded & future
        ),
        "only the attn_mask is inverted: both hold True = hidden": padded & ~future,
        "the key_padding_mask has no effect": (~future).expand(FULL),
        "the attn_mask has no effect": (~padded).expand(FULL),
        "padded *queries* are hidden: the key_padding_mask is about keys, "
        "`[:, None, None, :]`": ~padded.mT & ~future,
        "both are inverted and combined as they are: `True` in ours is what neither "
        "hides": padded & future,
    }


@check
def from_pytorch(function: Callable[[Tensor, Tensor], Tensor]) -> Iterator[Finding]:
    """Exercise 03.4: `function(key_padding_mask, attn_mask)` gives our mask."""
    padded, future = _two_masks()
    due, mistakes = decoder_mask(TOKENS), _pytorch_mistakes()
    mask = _run(function, padded, future)
    yield from _one_mask("a boolean attn_mask", mask, due, mistakes)
    low = torch.zeros(future.shape).masked_fill(future, -math.inf)
    for kind, floats in (("0 and -inf", low), ("0 and -1e9", low.clamp(min=-1e9))):
        try:
            list(_one_mask(kind, _run(function, padded, floats), due, mistakes))
        except Stop as stop:
            hint = (
                "a float mask is added to the scores: 0 = may attend, far below = not"
            )
            text = f"an attn_mask of floats, {kind}: {stop.finding.text} ({hint})"
            raise Stop(wrong(text, stop.finding.draw)) from None
        yield right(f"an attn_mask of floats, {kind}, is read rightly too")
    band = torch.ones(LENGTH, LENGTH).triu(2).bool() | future.mT
    expected = (~padded[:, None, None]) & ~band
    if not _equal(_run(function, padded, band), expected):
        raise Stop(
            wrong(
                "with an attn_mask that is not causal it goes wrong: read the mask "
                "that comes in, do not make one"
            )
        )
    yield right("another attn_mask than the causal one works too")
