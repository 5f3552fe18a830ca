"""Checks for the exercises of lesson 04, multi-head attention."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from matplotlib import pyplot as plt
from matplotlib.colors import ListedColormap, to_rgb
from torch import Tensor

from helpers.attention import MultiHeadAttention, record_attention
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
from helpers.plots import COLOURS

# -- 04.1 split and join -------------------------------------------------------------


def split(x: Tensor, n_heads: int) -> Tensor:
    """(batch, length, d_model) -> (batch, heads, length, d_head)."""
    return x.unflatten(2, (n_heads, -1)).transpose(1, 2)


def join(context: Tensor) -> Tensor:
    """(batch, heads, length, d_head) -> (batch, length, d_model)."""
    return context.transpose(1, 2).flatten(2)


def _other(name: str, hint: str, function: Callable) -> Mistake:
    return Mistake(name, hint, {"way": function})


SPLIT_MISTAKES = [
    _other(
        "`view` or `reshape` alone deals the numbers out in the order in which they "
        "lie, so that a row holds pieces of other tokens",
        "cut the last axis first, `x.unflatten(2, (n_heads, -1))`, then exchange "
        "length and heads, `transpose(1, 2)`",
        lambda x, n: x.reshape(len(x), n, x.size(1), -1),
    ),
    _other(
        "length still stands before heads",
        "the features are cut; now exchange the axes: `transpose(1, 2)`",
        lambda x, n: x.unflatten(2, (n, -1)),
    ),
    _other(
        "a head gets every n-th feature, not a block of neighbours",
        "head 1 owns the first d_head features: cut into (n_heads, d_head), in this "
        "order, `unflatten(2, (n_heads, -1))`",
        lambda x, n: x.unflatten(2, (-1, n)).permute(0, 3, 1, 2),
    ),
    _other(
        "the last axis is cut into (d_head, heads)",
        "the heads come first: `unflatten(2, (n_heads, -1))`",
        lambda x, n: x.unflatten(2, (-1, n)).transpose(1, 2),
    ),
    _other(
        "the last axis is cut into (d_head, heads) and not yet exchanged",
        "the heads come first: `unflatten(2, (n_heads, -1))`, then `transpose(1, 2)`",
        lambda x, n: x.unflatten(2, (-1, n)),
    ),
    _other(
        "the heads stand before the batch",
        "the batch stays in front: (batch, heads, length, d_head)",
        lambda x, n: torch.stack(x.chunk(n, dim=2)),
    ),
    _other(
        "length and features are exchanged",
        "the last axis is d_head: of all axes only length and heads change places",
        lambda x, n: x.unflatten(2, (n, -1)).permute(0, 2, 3, 1),
    ),
    _other(
        "batch and heads are one axis",
        "that is how d2l does it; here they stay apart: (batch, heads, length, d_head)",
        lambda x, n: split(x, n).flatten(0, 1),
    ),
    _other(
        "the tokens are cut among the heads, not the features",
        "every head sees all tokens: cut axis 2, not axis 1",
        lambda x, n: torch.stack(x.chunk(n, dim=1), dim=1),
    ),
]
JOIN_MISTAKES = [
    _other(
        "without the transpose a row holds one head's features of several tokens",
        "exchange heads and length first, then make one axis of the last two: "
        "`context.transpose(1, 2).flatten(2)`",
        lambda c: c.reshape(len(c), c.size(2), -1),
    ),
    _other(
        "length and heads are exchanged, but heads and features are not joined",
        "make one axis of the last two: `flatten(2)`",
        lambda c: c.transpose(1, 2),
    ),
    _other(
        "length and d_head have become one axis",
        "exchange heads and length first: `transpose(1, 2)`, then `flatten(2)`",
        lambda c: c.flatten(2),
    ),
    _other(
        "the features of different heads take turns",
        "head 1's features come first, then head 2's: after `transpose(1, 2)` the last "
        "two axes are (heads, d_head), and `flatten(2)` joins them in this order",
        lambda c: c.permute(0, 2, 3, 1).flatten(2),
    ),
    _other(
        "the heads are added up",
        "they are laid side by side: d_model is heads × d_head wide",
        lambda c: c.sum(1),
    ),
    _other(
        "the heads are averaged",
        "they are laid side by side: d_model is heads × d_head wide",
        lambda c: c.mean(1),
    ),
    _other(
        "the heads are laid below each other, along the length",
        "side by side, along the features",
        lambda c: c.flatten(1, 2),
    ),
]
# batch, length, heads, d_head: all different, so that no two axes can be mixed up.
SIZES, OTHER_SIZES = (2, 3, 4, 5), (3, 7, 2, 1)


def _numbered(batch: int, length: int, heads: int, d_head: int) -> Tensor:
    """(batch, length, d_model), every entry another number."""
    shape = batch, length, heads * d_head
    return torch.arange(batch * length * heads * d_head).float().view(shape)


@check
def split_and_join(split_heads: Callable, join_heads: Callable) -> Iterator[Finding]:
    """Exercise 04.1: `split_heads(x, n_heads)` and `join_heads(context)`."""
    for sizes in (SIZES, OTHER_SIZES):
        x = _numbered(*sizes)
        output = _tensor(attempt(split_heads, x, sizes[2]))
        if not same(output, split(x, sizes[2])):
            yield _wrong_split(output, x, sizes, join_heads)
            return
    yield right("split: (batch, heads, length, d_head), each head with its features")
    for sizes in (SIZES, OTHER_SIZES):
        context = split(_numbered(*sizes), sizes[2]).contiguous()
        output = _tensor(_attempt_join(join_heads, context))
        if not same(output, join(context)):
            yield _wrong_join(output, context)
            return
    yield right("join: (batch, length, d_model), the heads side by side")
    yield right("to split and to join gives back what was there")


def _tensor(output) -> Tensor:
    if not isinstance(output, Tensor):
        raise Stop(wrong(f"return a tensor, not a {type(output).__name__}"))
    return output


def _attempt_join(function: Callable, context: Tensor):
    try:
        return attempt(function, context)
    except Stop as stop:
        if "view size is not compatible" in stop.finding.text:
            text = (
                "join: `view` refuses a transposed tensor, as its numbers would have "
                "to be moved: take `flatten(2)`, or `contiguous()` before the `view` "
                f"({stop.finding.text})"
            )
            raise Stop(wrong(text)) from None
        raise


def _wrong_split(output, x, sizes, join_heads) -> Finding:
    expected = split(x, sizes[2])
    made = recognise(
        output, lambda *y, way=split: way(*y), SPLIT_MISTAKES, (x, sizes[2])
    )
    text = "split: " + (_named(made) if made else _unnamed(output, expected))
    try:
        undone = same(attempt(join_heads, output), x)
    except Stop:
        undone = False
    if undone:
        text += ". Your join undoes it, and that is why such a mistake stays hidden"
    if output.shape == expected.shape and sizes == SIZES:
        return wrong(text, partial(_owners_beside, output, expected, x.size(2)))
    return wrong(text)


def _wrong_join(output, context) -> Finding:
    made = recognise(output, lambda *y, way=join: way(*y), JOIN_MISTAKES, (context,))
    return wrong("join: " + (_named(made) if made else _unnamed(output, join(context))))


def _named(made) -> str:
    return "; and ".join(f"{mistake.name}: {mistake.hint}" for mistake in made)


def _unnamed(output: Tensor, expected: Tensor) -> str:
    if output.shape != expected.shape:
        shapes = tuple(output.shape), tuple(expected.shape)
        return f"the shape is {shapes[0]} where {shapes[1]} is due"
    if not same(output.flatten().sort()[0], expected.flatten().sort()[0]):
        return "the numbers themselves have changed; they are only to be moved"
    return (
        "the shape is right but the numbers are in other places: look where token 0's "
        "features went"
    )


def _owners_beside(output: Tensor, expected: Tensor, d_model: int) -> None:
    """Draw which token and feature each number was, yours beside the expected.

    Both (batch, heads, length, d_head), made of `_numbered` entries by moving them.
    """
    _, heads, length, _ = expected.shape
    tints = [[1 - 0.6 * (1 - c) for c in to_rgb(colour)] for colour in COLOURS]
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.4), sharey=True)
    for ax, moved, whose in zip(
        axes, (output, expected), ("yours", "expected"), strict=True
    ):
        numbers = moved[0].detach().cpu().flatten(0, 1)  # of the first sentence
        tokens, features = numbers // d_model, numbers % d_model
        ax.imshow(
            tokens.numpy(), cmap=ListedColormap(tints), vmin=0, vmax=5, aspect="auto"
        )
        for row, line in enumerate(features.tolist()):
            for column, feature in enumerate(line):
                text = f"{feature + 1:.0f}"
                ax.text(column, row, text, ha="center", va="center", fontsize=9)
        for head in range(1, heads):
            ax.axhline(head * length - 0.5, color="black", lw=1.5)
        ax.set(title=whose, xticks=[], xlabel="features of a head")
    names = [f"head {h + 1}, row {i + 1}" for h in range(heads) for i in range(length)]
    axes[0].set_yticks(range(len(names)), names, fontsize=8)
    figure.suptitle("Every token has a colour, and its features are numbered")
    plt.show()


# -- 04.2 which way back -------------------------------------------------------------

KINDS = ("right", "error", "mixes tokens", "mixes heads")
# The right answer, and what to think of for each wrong one ("" for all others).
WAYS_BACK = {
    "A": (
        "error",
        {
            "right": "would be, if `view` could read a transposed tensor: it needs the "
            "numbers in the order of the new axes",
            "": "the order of the axes is right; the trouble is where the numbers lie",
        },
    ),
    "B": (
        "mixes tokens",
        {
            "right": "the shape is; but which numbers come first in memory, all of "
            "head 1 or all of token 1?",
            "error": "`reshape` never complains when the count fits: its danger",
            "mixes heads": "one row gets one head's features, and of how many tokens?",
        },
    ),
    "C": (
        "right",
        {
            "": "`unbind(dim=1)` gives one (batch, length, d_head) for each head, and "
            "these are laid side by side, as in the loop",
        },
    ),
    "D": (
        "mixes heads",
        {
            "right": "look at the last two axes before `flatten`: (d_head, heads), so "
            "whose feature comes second?",
            "error": "`flatten` copies where it has to",
            "mixes tokens": "length is axis 1, alone, so each row keeps its token",
        },
    ),
    "E": (
        "right",
        {"": "`contiguous()` moves the numbers into the new order, so `view` may read"},
    ),
}


@check
def ways_back(answers: Mapping[str, str]) -> Iterator[Finding]:
    """Exercise 04.2: {"A": one of KINDS, …}."""
    if not isinstance(answers, Mapping):
        raise Stop(wrong(f"answers is a dictionary, not a {type(answers).__name__}"))
    for letter, (due, hints) in WAYS_BACK.items():
        answer = answers.get(letter)
        if answer is None or answer is Ellipsis:
            yield untried(f"{letter}: not attempted yet")
        elif not isinstance(answer, str) or _plain(answer) not in KINDS:
            yield wrong(f"{letter}: {answer!r:.40} is none of {', '.join(KINDS)}")
        elif _plain(answer) == due:
            yield right(f"{letter}: {due}")
        else:
            hint = hints.get(_plain(answer)) or hints[""]
            yield wrong(f"{letter} is not {_plain(answer)!r}: {hint}")


def _plain(answer: str) -> str:
    return " ".join(answer.lower().split())


# -- 04.3 count them -----------------------------------------------------------------

# The right number, and wrong ones with their reason.
ANOTHER_COUNT = "more heads are narrower heads: what does the count depend on?"
COUNTS = {
    "d_head_big": (
        64,
        {
            1024: "that is d_model; the heads share it",
            128: "the big model has 16 heads, not 8",
            32: "d_model of the big model is 1024",
            16: "that is the number of heads; each has d_model / n_heads features",
        },
    ),
    "one_head_base": (
        3 * (512 * 64 + 64),
        {
            3
            * 512
            * 64: "a bias for each of the 64 features of each projection is due",
            512 * 64 + 64: "that is one projection; there are three",
            512 * 64: "that is one projection without its bias; there are three",
            3 * (512 * 512 + 512): "these are all eight heads; one has 64 features",
            3 * 512 * 512: "these are all eight heads; one has 64 features",
            3 * (64 * 64 + 64): "a head reads all 512 features and makes 64 of them",
            4 * (512 * 64 + 64): "the output projection is not asked for",
            3 * (512 * 64 + 512): "the bias is as long as the output, 64",
        },
    ),
    "all_heads_base": (
        4 * (512 * 512 + 512),
        {
            4 * 512 * 512: "the biases are missing: 512 for each of the four matrices",
            3 * (512 * 512 + 512): "the output projection is missing",
            3 * 512 * 512: "the output projection and the biases are missing",
            8 * 3 * (512 * 64 + 64): "the output projection is missing",
            8 * 4 * (512 * 512 + 512): "the eight heads share the 512 features",
            8 * 3 * (512 * 512 + 512): "the eight heads share the 512 features",
            512 * 512 + 512: "that is one of four matrices",
        },
    ),
    "twice_the_heads": (
        4 * (512 * 512 + 512),
        {
            2 * 4 * (512 * 512 + 512): ANOTHER_COUNT,
            2 * (512 * 512 + 512): ANOTHER_COUNT,
            4 * 512 * 512: "the biases are missing",
            4 * (1024 * 1024 + 1024): "d_model stays 512",
        },
    ),
    "weights_base": (
        32 * 8 * 100 * 100,
        {
            32 * 100 * 100: "each of the 8 heads has weights of its own",
            8 * 100 * 100: "each of the 32 sentences has weights of its own",
            100 * 100: "each head of each sentence has weights of its own",
            32 * 8 * 100: "a weight for each pair of query and key: 100 × 100",
            32 * 100 * 512: "a weight belongs to a pair of tokens, not to a feature",
            32 * 8 * 100 * 64: "a weight belongs to a pair of tokens, not to a feature",
            32 * 8 * 100 * 100 * 64: "a weight for each pair, not for each feature",
        },
    ),
}


@check
def counts(**answers) -> Iterator[Finding]:
    """Exercise 04.3: the numbers named in COUNTS."""
    for name, (due, reasons) in COUNTS.items():
        answer = answers.get(name)
        number = isinstance(answer, int | float) and not isinstance(answer, bool)
        if answer is None or answer is Ellipsis:
            yield untried(f"{name}: not attempted yet")
        elif not number:
            yield wrong(f"{name} = {answer!r:.40}: a number is due")
        elif answer == due:
            yield right(f"{name} = {due:,}")
        else:
            yield wrong(
                f"{name} = {answer:,}: {reasons.get(answer, _off(answer, due))}"
            )


def _off(answer: float, due: float) -> str:
    way = "too many" if answer > due else "too few"
    return f"{way}; write the shape of each tensor down and multiply"


# -- 04.4 the third head -------------------------------------------------------------

SENTENCES = (
    ("the", "cat", "saw", "the", "dog", "and", "the", "bird"),
    ("a", "dog", "is", "a", "dog", "is", "a", "dog"),
    ("one", "two", "three", "four", "five", "six", "seven", "eight"),
)


@torch.no_grad()
def left_and_right() -> MultiHeadAttention:
    """The lesson's module: head 1 looks left, head 2 right, head 3 asks nothing."""
    module, loud = MultiHeadAttention(24, 3), 10 * 8**0.5
    for parameter in module.parameters():
        parameter.zero_()
    for rows, step, sign in ((slice(0, 8), 1, 1), (slice(8, 16), -1, -1)):
        module.query_projection.weight[rows, 8:16] = loud * torch.eye(8).roll(step, 1)
        module.key_projection.weight[rows, 8:16] = torch.eye(8)
        module.value_projection.weight[rows, :8] = torch.eye(8)
        module.output_projection.weight[16:, rows] = sign * torch.eye(8)
    return module


def _encode(words: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """The sentence (1, 8, 24) as the lesson has it, and the weights that are due."""
    vocabulary = list(dict.fromkeys(words))
    ids = torch.tensor([vocabulary.index(word) for word in words])
    x = torch.zeros(1, 8, 24)
    x[0, torch.arange(8), ids] = 1.0
    x[0, :, 8:16] = torch.eye(8)
    equal = (ids[:, None] == ids).float()
    return x, equal / equal.sum(dim=1, keepdim=True)


def _maps(module, x) -> Tensor:
    """(heads, query_length, key_length)."""
    with torch.no_grad(), record_attention(module) as maps:
        module(x, x, x)
    return maps[""][0]


@check
def third_head(function: Callable) -> Iterator[Finding]:
    """Exercise 04.4: `function(module)` changes left_and_right() and returns it."""
    module = _attempt_on_module(function)
    before = left_and_right()
    for words in SENTENCES:
        x, due = _encode(words)
        weights, untouched = _maps(module, x), _maps(before, x)
        if not weights.isfinite().all():
            raise Stop(
                wrong("the weights hold NaN: a projection holds NaN or infinity")
            )
        if not torch.allclose(weights[:2], untouched[:2], atol=1e-3):
            raise Stop(wrong(_spoilt(module, before, weights, untouched)))
        _demand(module, before, weights[2], due, words)
        share = (weights[2] * (due > 0)).sum(dim=1).min()
        text = f"“{' '.join(words[:4])} …”: at least {share:.2f} on the same word"
        yield right(text)
    yield right("heads 1 and 2 look left and right as before")


def _attempt_on_module(function: Callable) -> MultiHeadAttention:
    given = left_and_right()
    try:
        module = attempt(function, given)
    except Stop as stop:
        if "leaf Variable" in stop.finding.text:
            text = f"{stop.finding.text}: keep `@torch.no_grad()` above the function"
            raise Stop(wrong(text)) from None
        pairs = zip(given.parameters(), left_and_right().parameters(), strict=True)
        if stop.finding.mark == "○" and not all(torch.equal(*pair) for pair in pairs):
            text = "you change the module and return nothing: end with `return module`"
            raise Stop(wrong(text)) from None
        raise
    if not isinstance(module, MultiHeadAttention):
        kind = type(module).__name__
        raise Stop(wrong(f"return the module that came in, changed, not a {kind}"))
    return module


def _spoilt(module, before, weights, untouched) -> str:
    """Why head 1 or 2 no longer looks where it did."""
    changed = [
        f"head {head + 1} no longer looks where it did"
        for head in (0, 1)
        if not torch.allclose(weights[head], untouched[head], atol=1e-3)
    ]
    text = f"{', '.join(changed)}: "
    if _wrote_columns(module, before):
        return text + COLUMNS
    return text + "head 3 owns rows 16 to 23 of the weight, `weight[16:24, …]`"


COLUMNS = (
    "you wrote into columns 16 to 23; `nn.Linear` keeps its matrix as (output, input), "
    "so a head's features are rows: `weight[16:24, …]`"
)


def _wrote_columns(module, before) -> bool:
    """Whether something outside head 3's rows was written, in columns 16 to 23."""
    return any(
        not torch.equal(
            getattr(module, name).weight[:16, 16:24],
            getattr(before, name).weight[:16, 16:24],
        )
        for name in ("query_projection", "key_projection")
    )


def _demand(module, before, weights, due, words) -> None:
    """Stop unless each row has 0.9 of its weight, evenly, where it is due."""
    fits = (weights * (due > 0)).sum(dim=1).min() >= 0.9
    even = ((weights - due)[due > 0]).abs().max() <= 0.1
    if fits and even:
        return
    text = f"“{' '.join(words)}”: {_misplaced(module, before, weights, due)}"
    raise Stop(wrong(text, partial(weights_beside, weights, due)))


def _reads(module, name: str) -> set[str]:
    """Which features head 3's rows of this projection read."""
    words, places, empty = getattr(module, name).weight[16:24].split(8, dim=1)
    blocks = {"words": words, "places": places, "empty": empty}
    return {name for name, block in blocks.items() if block.any()}


def _misplaced(module, before, weights, due) -> str:
    if _wrote_columns(module, before):
        return COLUMNS
    reads = _reads(module, "query_projection"), _reads(module, "key_projection")
    if {"empty"} in reads:
        return (
            "head 3 reads features 16 to 23, which are empty: rows say which head, "
            "columns what it reads, so words are `weight[16:24, :8]`"
        )
    if (weights.amax(dim=1) - weights.amin(dim=1)).max() < 1e-3:
        if reads == (set(), set()):
            return "head 3 still asks nothing: rows 16 to 23 of both weights are zero"
        for features, what in zip(reads, ("query", "key"), strict=True):
            if not features:
                return (
                    f"head 3's {what} is still zero, so all scores are 0: it takes a "
                    "query and a key"
                )
        return "every key gets the same weight: query and key do not tell words apart"
    if "places" in reads[0] | reads[1]:
        return (
            "head 3 compares places, features 8 to 15; which features say which word "
            "it is?"
        )
    own, others = weights[due > 0], weights[due == 0]
    if own.min() > others.max():
        share = (weights * (due > 0)).sum(dim=1).min()
        return (
            f"the right words win, but get only {share:.2f} together: make the query "
            "louder, and mind √d_head"
        )
    if own.max() < others.min():
        return "every word looks at all words but its own: is a sign wrong?"
    return "the weights are not on the same words: compare the pictures"
