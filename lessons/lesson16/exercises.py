"""The exercises of lesson 16, five readings: reference answers and known mistakes."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from lessons.checking.comparing import plain
from lessons.checking.engine import Exercise, Part
from lessons.checking.findings import Check, Finding, Stop, right, untried, wrong
from lessons.lesson16.readings.pure_attention import AttentionWithNorm

# ------------------------------------------------------------------ 16.1 conventions

INVERTED = "it is inverted: `True` means *may attend*, not *hidden*"
NO_HEADS = "the axis of heads is missing: size 1 at place 1, for all heads alike"
SEEN = "torch.arange(length) < valid_lens[:, None]"
LENGTH_MISTAKES = {
    INVERTED: {SEEN: SEEN.replace("<", ">=")},
    "one key too many: places count from 0, so with 3 valid keys place 3 is hidden": {
        SEEN: SEEN.replace("<", "<=")
    },
    "one key too few: the last valid one is hidden": {
        SEEN: SEEN.replace("arange(length)", "arange(1, length + 1)")
    },
    "the valid keys stand on the left": {SEEN: f"({SEEN}).flip(-1)"},
    "the axes of heads and of queries are missing: (batch, length) would be read as "
    "(query_length, key_length)": {"seen[:, None, None]": "seen"},
    NO_HEADS: {"seen[:, None, None]": "seen[:, None]"},
    "that hides queries: keys lie along the last axis": {
        "seen[:, None, None]": "seen[:, None, :, None]"
    },
    "a sentence with 0 valid keys still shows one": {
        SEEN: "torch.arange(length) < valid_lens.clamp(min=1)[:, None]"
    },
    "the first sentence's number is used for all": {
        SEEN: "(torch.arange(length) < valid_lens[0]).expand(len(valid_lens), -1)"
    },
    "the largest number is used for all sentences": {
        SEEN: "(torch.arange(length) < valid_lens.max()).expand(len(valid_lens), -1)"
    },
    "the smallest number is used for all sentences": {
        SEEN: "(torch.arange(length) < valid_lens.min()).expand(len(valid_lens), -1)"
    },
}
HIDDEN_MISTAKES = {
    INVERTED: {"~hidden[:, None]": "hidden[:, None]"},
    NO_HEADS: {"~hidden[:, None]": "~hidden"},
    f"{INVERTED}; and {NO_HEADS}": {"~hidden[:, None]": "hidden"},
    "queries and keys have changed places: no transposition is needed": {
        "~hidden[:, None]": "~hidden[:, None].mT"
    },
    "the new axis stands in the wrong place: heads come second, (batch, heads, "
    "query_length, key_length)": [
        {"~hidden[:, None]": "~hidden[:, :, None]"},
        {"~hidden[:, None]": "~hidden[None]"},
    ],
}


def _mask(output: Any, *inputs: Any) -> Any:
    """The mask; Stop if it does not hold booleans."""
    mask = plain(output)
    if isinstance(mask, Tensor) and mask.dtype != torch.bool:
        kind = str(getattr(output, "dtype", mask.dtype)).removeprefix("torch.")
        text = f"return booleans, not {kind}: 0 and 1 can be read either way round"
        raise Stop(wrong(text))
    return mask


def _drawn_lengths(seed: int, batch: int, length: int) -> tuple[Tensor, int]:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, length + 1, (batch,), generator=generator)
    lengths[-1] = 0  # as for a sentence that sees nothing
    return lengths, length


def _drawn_hidden(seed: int, *shape: int) -> tuple[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(shape, generator=generator) < 0.5,)


MASKS = {"doubt": "", "gradients": False, "measure": _mask}
masks = Exercise(
    """\
def from_lengths(valid_lens, length):
    seen = torch.arange(length) < valid_lens[:, None]
    return seen[:, None, None]


def from_hidden(hidden):
    return ~hidden[:, None]
""",
    Part(
        "from_lengths",
        LENGTH_MISTAKES,
        lambda seed: [
            (torch.tensor([3, 4, 1]), 5),
            (torch.tensor([2, 4]), 7),
            (torch.tensor([6, 8]), 8),  # the lesson's own: one sentence has no padding
            (torch.tensor([3]), 4),
            (torch.tensor([40, 7]), 50),
            _drawn_lengths(seed, 4, 6 + seed % 3),
        ],
        ["B's numbers have become a mask"],
        others="with other lengths, too",
        label="from_lengths",
        **MASKS,
    ),
    Part(
        "from_hidden",
        HIDDEN_MISTAKES,
        lambda seed: [
            _drawn_hidden(seed, 3, 4, 6),
            _drawn_hidden(seed + 1, 2, 5, 5),
            (_drawn_hidden(seed + 4, 2, 1, 8)[0].expand(-1, 8, -1),),  # as D makes it
            _drawn_hidden(seed + 2, 1, 2, 3),
            _drawn_hidden(seed + 3, 4, 4, 4),
        ],
        ["D's mask has become the course's"],
        others="with other sizes, too",
        label="from_hidden",
        **MASKS,
    ),
)

# -------------------------------------------------------------- 16.2 whose numbers

WHOSE = {"first": "d", "second": "a", "third": "c", "fourth": "b"}
# What contradicts an answer: the question that tells two groups of readings apart.
EVIDENCE = {
    "do all six words of a memory have the same variance? Not all four answers fit": (
        "ab",
        "cd",
    ),
    "compare the variance of the whole sentence with that of its words: two answers do "
    "not fit": ("a", "b"),
    "compute the variance of a word by both definitions, `correction=0` and "
    "`correction=1`: two answers do not fit": ("c", "d"),
}


def memories() -> dict[str, Tensor]:
    """What four untrained encoders make of six words, each (6, 32)."""
    from helpers.transformer import TransformerConfig
    from lessons.lesson16.readings import build_reading
    from lessons.lesson16.readings.d2l_blocks import blocks_model

    sizes = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 2, "dropout": 0.0}
    words = torch.tensor([[4, 9, 14, 19, 24, 29]])
    made = {}
    with torch.random.fork_rng(), torch.no_grad():
        for number, (place, key) in enumerate(WHOSE.items(), start=1):
            torch.manual_seed(number)
            if key == "b":  # as printed
                config = TransformerConfig(40, 40, share_embeddings=False, **sizes)
                model = blocks_model(config, norm_length=6)
            else:
                model = build_reading(key.upper(), 40, 40, **sizes)
            made[place] = model.eval().encode(words)[0]
    return made


class Whose(Check):
    """Who made which memory; judged as a whole, so that no letter is tried alone."""

    answer = 'whose = {"first": "d", "second": "a", "third": "c", "fourth": "b"}\n'

    def _findings(self, answer: Any = None, **named: Any) -> Iterator[Finding]:
        named.pop("seed", None)
        if answer is not None and not isinstance(answer, Mapping):
            text = f"hand over a dictionary, not a {type(answer).__name__}"
            raise Stop(wrong(text))
        given = {**named, **(answer or {})}
        for place in given:
            if place not in WHOSE:
                raise Stop(wrong(f"{place} is none of {', '.join(WHOSE)}"))
        letters = {place: _letter(place, given.get(place)) for place in WHOSE}
        missing = [place for place, letter in letters.items() if not letter]
        if missing:
            for place in missing:
                yield untried(f"{place}: not attempted yet")
            return
        for letter in sorted(letters.values()):
            if [*letters.values()].count(letter) > 1:
                raise Stop(wrong(f"each made one of the four: {letter} stands twice"))
        if letters == WHOSE:
            yield from (right(f"{place}: {due}") for place, due in WHOSE.items())
            return
        for question, groups in EVIDENCE.items():
            group = {letter: group for group in groups for letter in group}
            pairs = ((group.get(letters[x]), group.get(WHOSE[x])) for x in WHOSE)
            if any(None not in pair and pair[0] != pair[1] for pair in pairs):
                raise Stop(wrong(question))


def _letter(place: str, answer: Any) -> str:
    """One of a, b, c, d; nothing where there is no answer; Stop for another."""
    if answer is None or answer is Ellipsis:
        return ""
    letter = answer.strip().casefold() if isinstance(answer, str) else answer
    if not isinstance(letter, str) or letter not in [*WHOSE.values()]:
        raise Stop(wrong(f"{place} = {answer!r:.40}: a letter is due: a, b, c or d"))
    return letter


whose = Whose()

# ------------------------------------------------------------------ 16.3 small keys

HEADS = "heads = linear.weight.unflatten(0, (theirs.n_heads, d_k))"
PAD_EACH = "F.pad(heads, (0, 0, 0, d_head - d_k)).flatten(0, 1)"
ROOT = "math.sqrt(d_head / d_k)"
TIMES = "-(-d_head // d_k)"  # rounded up
BOTH = "scale * widened(theirs.w_qs), widened(theirs.w_ks)"
AT_ONE_END = "heads are cut off in runs of d_head rows, so each head needs zeros of its"
AT_ONE_END += " own: take the heads apart first, `weight.unflatten(0, (n_heads, d_k))`"
SMALL_KEY_MISTAKES = {
    "the scores are too small: E divides them by √d_k, the course by √d_head, so one "
    "side must be multiplied by √(d_head / d_k)": {
        BOTH: "widened(theirs.w_qs), widened(theirs.w_ks)"
    },
    "the scores are too large: √(d_head / d_k) is due once; the root is missing, or "
    "both sides have it": {ROOT: "d_head / d_k"},
    "the scores are E's products, not yet divided: √d_head only undoes the course's "
    "root, and E divides by √d_k": {ROOT: "math.sqrt(d_head)"},
    "the scores are divided by both roots: E's √d_k is there, and the course divides "
    "by √d_head besides": {ROOT: "d_k**-0.5"},
    "d_model is the size of all heads together: the course divides by the root of one "
    "head's size, d_head": {ROOT: "math.sqrt(theirs.w_qs.in_features / d_k)"},
    "the scale is upside down: the course divides by the larger number, so multiply by "
    "√(d_head / d_k)": {ROOT: "math.sqrt(d_k / d_head)"},
    f"all zeros come after the last head: {AT_ONE_END}": {
        HEADS: "heads = linear.weight",
        PAD_EACH: "F.pad(heads, (0, 0, 0, theirs.n_heads * (d_head - d_k)))",
    },
    f"all zeros come before the first head: {AT_ONE_END}": {
        HEADS: "heads = linear.weight",
        PAD_EACH: "F.pad(heads, (0, 0, theirs.n_heads * (d_head - d_k), 0))",
    },
    "the rows are shared out in turn: those of one head lie together, d_k of them": {
        HEADS: "heads = linear.weight.unflatten(0, (d_k, theirs.n_heads)).mT"
    },
    "rows are repeated where zeros are due: they add to the product": [
        {PAD_EACH: f"heads.repeat(1, {TIMES}, 1)[:, :d_head].flatten(0, 1)"},
        {PAD_EACH: f"heads.repeat_interleave({TIMES}, 1)[:, :d_head].flatten(0, 1)"},
        {PAD_EACH: f"linear.weight.repeat({TIMES}, 1)[: theirs.n_heads * d_head]"},
    ],
    "queries and keys have changed places": {
        BOTH: "scale * widened(theirs.w_ks), widened(theirs.w_qs)"
    },
    "the zeros of the keys stand elsewhere than those of the queries: a zero must meet "
    "a zero": {
        BOTH: "scale * widened(theirs.w_qs), widened(theirs.w_ks)"
        ".unflatten(0, (theirs.n_heads, d_head)).flip(1).flatten(0, 1)"
    },
}


def _drawn_keys(
    seed: int, n_heads: int, d_k: int, d_head: int
) -> tuple[AttentionWithNorm, int]:
    """E's attention with small keys, and the course's d_head."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return AttentionWithNorm(n_heads, n_heads * d_head, d_k, d_head), d_head


def _apart(widen: Callable) -> Callable:
    """An answer whose two weights may also come in one tensor or array, stacked."""

    @wraps(widen)
    def apart(*inputs: Any) -> Any:
        output = widen(*inputs)
        stacked = len(getattr(output, "shape", ())) == 3 and len(output) == 2
        return (output[0], output[1]) if stacked else output

    return apart


def _scores(output: tuple, theirs: AttentionWithNorm, d_head: int) -> Tensor:
    """The scores that the course's attention makes of five words with these weights."""
    n_heads, d_model = theirs.n_heads, theirs.w_qs.in_features
    due = n_heads * d_head, d_model
    for name, weight in zip(("query", "key"), output, strict=True):
        if tuple(weight.shape) != due:
            text = f"the {name} weight has shape {tuple(weight.shape)}, not {due}"
            raise Stop(wrong(text))
    words = torch.randn(5, d_model, generator=torch.Generator().manual_seed(5))
    heads = [
        (words.double() @ weight.detach().double().T).unflatten(1, (n_heads, d_head))
        for weight in output
    ]
    return 10 * torch.einsum("qhd,khd->hqk", *heads) / math.sqrt(d_head)


small_keys = Exercise(
    """\
def widen(theirs, d_head):
    d_k = len(theirs.w_qs.weight) // theirs.n_heads
    scale = math.sqrt(d_head / d_k)

    def widened(linear):
        heads = linear.weight.unflatten(0, (theirs.n_heads, d_k))
        return F.pad(heads, (0, 0, 0, d_head - d_k)).flatten(0, 1)

    return scale * widened(theirs.w_qs), widened(theirs.w_ks)
""",
    Part(
        "widen",
        SMALL_KEY_MISTAKES,
        lambda seed: [
            _drawn_keys(seed, 2, 3, 8),
            _drawn_keys(seed + 1, 4, 5, 7),
            _drawn_keys(seed + 2, 3, 2, 4),
            _drawn_keys(seed + 3, 2, 4, 5),
            _drawn_keys(seed + 4, 1, 2, 6),
        ],
        ["2 heads, d_k 3, d_head 8: the scores are E's"],
        others="with other sizes, too",
        doubt="",
        gradients=False,
        results=("query weight", "key weight"),
        use=_apart,
        measure=_scores,
    ),
)
