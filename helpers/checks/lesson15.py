"""The exercises of lesson 15, debugging: reference answers and mistakes."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD
from helpers.checks.engine import Exercise, Part
from helpers.checks.findings import Stop, wrong
from helpers.checks.values import Values
from helpers.debugger.breaking import Mutant
from helpers.debugger.sealed import KEPT, secret

WORDS = 50  # ordinary words have ids from 4 to 49
ROWS = 3


class Writer(nn.Module):
    """A model small enough to be wrong in one place: (source, target) -> logits.

    `leak` (ROWS or 1, length, length) is added to the causal weights. `loud` makes one
    word by far the likeliest everywhere. `reads` is what of the source is read: "all",
    "nothing", or the "number" of its words. `grain` is the size of rounding. `about`
    says what the model is, `due` what an answer is to say of it.
    """

    def __init__(
        self,
        about: str,
        seed: int,
        leak: Tensor | None = None,
        *,
        loud: float = 0.0,
        reads: str = "all",
        grain: float = 0.0,
        due: Any = None,
    ):
        super().__init__()
        draws = torch.randn(2, WORDS, 8, generator=_generator(seed))
        self.words, self.out = (nn.Parameter(x, requires_grad=False) for x in draws)
        self.leak = nn.Parameter(
            torch.zeros(1, 1, 1) if leak is None else leak, requires_grad=False
        )
        self.about, self.due = about, due
        self.loud, self.reads, self.grain = loud, reads, grain

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """(batch, source_length), (batch, length) -> (batch, length, WORDS)."""
        length = target.size(1)
        weights = torch.ones(length, length).tril()
        weights = weights / weights.sum(dim=-1, keepdim=True)
        if self.leak.size(1) > 1:
            weights = weights + self.leak[: len(target), :length, :length]
        context = weights @ self.words[target] + self.memory(source)[:, None]
        logits = context.tanh() @ self.out.T
        logits = logits + self.loud * F.one_hot(torch.tensor(7), WORDS)
        return logits + self.grain * (target.sum(dim=1) % 7)[:, None, None]

    def memory(self, source: Tensor) -> Tensor:
        """What is read of the source, (batch, 8)."""
        real = (source != PAD).float()
        if self.reads == "nothing":
            return torch.zeros(len(source), 8)
        if self.reads == "number":
            return real.sum(dim=1, keepdim=True).expand(-1, 8) / 10
        places = real * torch.arange(1.0, source.size(1) + 1)
        return (places[..., None] * self.words[source]).sum(dim=1) / 10


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _sentences(seed: int, length: int) -> tuple[Tensor, Tensor]:
    """A source and a target of ordinary words; the target begins with BOS."""
    generator = _generator(100 + seed)
    source = torch.randint(4, WORDS, (ROWS, 6 + seed % 3), generator=generator)
    target = torch.randint(4, WORDS, (ROWS, length), generator=generator)
    target[:, 0] = 2
    return source, target


def _hole(
    length: int, query: int, key: int, size: float, row: int | None = None
) -> Tensor:
    """A leak (ROWS, length, length) from a key to a query, in one sentence or all."""
    leak = torch.zeros(ROWS, length, length)
    leak[slice(None) if row is None else row, query, key] = size
    return leak


# ------------------------------------------------------------------- 15.1 is it causal?

LOOP = "for position in range(1, target.size(1)):"
CHANGED = "other[:, position] = 4 + (target[:, position] - 3) % 46"
COMPARED = "[:, :position].abs().max()"
CAUSAL_MISTAKES = {
    "only the last token is changed: try every position": {
        LOOP: "for position in [target.size(1) - 1]:"
    },
    "only the first token after the start mark is changed: try every position": {
        LOOP: "for position in [1]:"
    },
    "the tokens are changed behind one cut only: a leak inside a half does not cross "
    "it; try every position": {
        LOOP: "for position in [target.size(1) // 2]:",
        CHANGED: "other[:, position:] = 4 + (target[:, position:] - 3) % 46",
    },
    "only the likeliest words are compared: a faint leak moves no maximum": {
        "(after - before)[": "(after.argmax(-1) - before.argmax(-1)).abs()["
    },
    "rounding counts as a leak: allow a change of up to 1e-4": {"> 1e-4": "> 0"},
    "a faint leak counts as rounding: allow a change of up to 1e-4, no more": {
        "> 1e-4": "> 0.1"
    },
    "the position of the new token is compared, too: it may change; compare what "
    "stands before it": {COMPARED: "[:, : position + 1].abs().max()"},
    "only the position directly before the new token is compared: all before it": {
        COMPARED: "[:, position - 1].abs().max()"
    },
    "only the first position is compared: all before the new token": {
        COMPARED: "[:, 0].abs().max()"
    },
    "only the first sentence is compared: all of the batch": {
        COMPARED: "[0, :position].abs().max()"
    },
    "the source is changed: every position may see all of it; change the target": {
        "other = target.clone()": "other = source.clone() if position < "
        "source.size(1) else None",
        CHANGED: "if other is None: continue\n        "
        "other[:, position] = 4 + (source[:, position] - 3) % 46",
        "model(source, other)": "model(other, target)",
    },
    "it is the other way round: True is for no leak": {
        "return False": "return 1 > 0",
        "return True": "return 1 < 0",
    },
}


def _of_each(answer: Callable) -> Callable:
    """The answer for a list of models: a list, or None where nothing is returned."""

    @wraps(answer)
    def of_all(*lists: Sequence) -> list | None:
        found = [answer(*one) for one in zip(*lists, strict=True)]
        return None if all(x is None or x is Ellipsis for x in found) else found

    return of_all


def _shuffled(cases: list[tuple], seed: int) -> tuple[list, ...]:
    """The cases in another order, as a list for each argument."""
    order = torch.randperm(len(cases), generator=_generator(seed)).tolist()
    return tuple(map(list, zip(*(cases[i] for i in order), strict=True)))


def _causal_inputs(seed: int) -> tuple[list, ...]:
    """Models with and without a leak, each with sentences of its own."""
    length, generator = 10 + seed % 3, _generator(seed)
    wide = torch.ones(length - 1).diag(1)[None].expand(ROWS, -1, -1)
    future = torch.ones(length, length).triu(1)[None].expand(ROWS, -1, -1)
    holes = (torch.rand(length, length, generator=generator) < 0.1).float().triu(1)
    holes[0], holes[1, length - 1] = 0, 1
    near = 1 + seed % 2
    cases = [
        ("it is sound", None, {}),
        ("it has no causal mask", future / length, {}),
        ("its mask is one place too wide", 0.3 * wide, {}),
        ("it is sound, and rounds", None, {"grain": 1e-6}),
        ("it is sound, and reads no source", None, {"reads": "nothing"}),
        (
            f"position {near} sees token {near + 2}",
            _hole(length, near, near + 2, 0.4),
            {"loud": 20.0},
        ),
        (
            f"position {near} sees a little of token {near + 2}",
            _hole(length, near, near + 2, 0.003),
            {"loud": 20.0},
        ),
        (
            "a tenth of its mask is holes, and faint",
            0.004 * holes.expand(ROWS, -1, -1),
            {},
        ),
        (
            "the first position sees the last token",
            _hole(length, 0, length - 1, 0.4),
            {},
        ),
        (
            "the position before the last sees the last token",
            _hole(length, length - 2, length - 1, 0.4),
            {},
        ),
        (
            "only in the last sentence a position sees a later token",
            _hole(length, near, near + 3, 0.4, row=-1),
            {},
        ),
    ]
    found = []
    for i, (about, leak, options) in enumerate(cases):
        model = Writer(about, seed + i, leak, due=leak is None, **options).eval()
        found.append((model, *_sentences(seed + i, length)))
    return _shuffled(found, seed)


is_causal = Exercise(
    """\
def is_causal(model, source, target):
    before = model(source, target)
    for position in range(1, target.size(1)):
        other = target.clone()
        other[:, position] = 4 + (target[:, position] - 3) % 46  # another word
        after = model(source, other)
        if (after - before)[:, :position].abs().max() > 1e-4:
            return False
    return True
""",
    Part(
        "is_causal",
        CAUSAL_MISTAKES,
        lambda seed: [_causal_inputs(seed), _causal_inputs(seed + 1)],
        ["three sound models pass, one of which rounds"],
        others="all leaks are found: large ones, faint ones and single holes",
        doubt="",
        gradients=False,
        at_once=1,
        use=_of_each,
        measure=lambda output, *inputs: [*map(_truth, output)],
        describe=lambda value, due: "not all models are judged rightly",
        aside=lambda value, answers, models, *rest: _misjudged(value.tolist(), models),
    ),
)


def _truth(output: Any) -> bool:
    """The answer as a truth value; Stop if it is none."""
    if output is None:
        text = "your function returns None of a model: `return True` at the end?"
        raise Stop(wrong(text))
    if getattr(output, "shape", None) in ((), (1,)) and hasattr(output, "item"):
        output = output.item()
    if not isinstance(output, bool):
        kind = type(output).__name__
        raise Stop(wrong(f"return True or False, not something of type {kind}"))
    return output


def _misjudged(value: Sequence, models: Sequence[Writer]) -> str:
    """The first model that is misjudged, and what the answer says of it."""
    for said, model in zip(value, models, strict=True):
        if said != model.due:
            return f". Your function says {said} of a model: {model.about}"
    return ""


# --------------------------------------------------------------- 15.2 which hypothesis?


class Steps(nn.Module):
    """How a Writer writes step by step: (source, target) -> logits.

    `fault` is "" for the prefix run again, or what a step gets instead: only the newest
    "word", the "last" five words, or as many words of the "source" as are written.
    """

    def __init__(self, writer: Writer, fault: str = ""):
        super().__init__()
        self.writer, self.fault = writer, fault

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """The logits of every step, (batch, length, WORDS)."""
        found = []
        for end in range(1, target.size(1) + 1):
            start = {"word": end - 1, "last": max(0, end - 5)}.get(self.fault, 0)
            read = source[:, :end] if self.fault == "source" else source
            found.append(self.writer(read, target[:, start:end])[:, -1])
        return torch.stack(found, dim=1)


FUTURE = """\
    for position in range(1, target.size(1)):
        other = target.clone()
        other[:, position:] = 4 + (other[:, position:] - 3) % 46
        if far(logits(source, other)[:, :position], whole[:, :position]):
            return "future"
"""
STEPPED = """\
    if far(steps(source, target), whole):
        return "steps"
"""
SOURCE = """\
    if not far(logits(4 + (source - 3) % 46, target), whole):
        return "source"
"""
CAUSE_MISTAKES = {
    "a model that sees the future also computes something else step by step: ask about "
    "the future, and first": [{FUTURE: STEPPED, STEPPED: FUTURE}, {FUTURE: ""}],
    "only the first step is compared: a cache may go wrong later": {
        "far(steps(source, target), whole)": "far(steps(source, target)[:, :1], "
        "whole[:, :1])"
    },
    "only the last step is compared: compare all": {
        "far(steps(source, target), whole)": "far(steps(source, target)[:, -1], "
        "whole[:, -1])"
    },
    "the other source is padding: a model may count it and read no word; take other "
    "words": {"4 + (source - 3) % 46": "source * 0"},
    "“sound” is never said: what is left over need not be the third hypothesis": {
        'return "sound"': 'return "steps"'
    },
    "rounding counts as a difference: allow 1e-4": {"> 1e-4": "> 0"},
    "a faint difference counts as rounding: allow 1e-4, no more": {"> 1e-4": "> 0.1"},
    "only the likeliest words are compared: a faint leak moves no maximum": {
        "(a - b).abs().max() > 1e-4": "bool((a.argmax(-1) != b.argmax(-1)).any())"
    },
    "only the last word of the target is changed: try every position": {
        "range(1, target.size(1))": "[target.size(1) - 1]"
    },
    "the position of the new word is compared, too: it may change": {
        "(source, other)[:, :position], whole[:, :position]": "(source, other)"
        "[:, : position + 1], whole[:, : position + 1]"
    },
    "whether the source is read is never asked": {SOURCE: ""},
    "the steps are never compared": {STEPPED: ""},
}
CAUSES = "future", "source", "steps", "sound"


def _cause_inputs(seed: int) -> tuple[list, ...]:
    """Models with one cause each, or none, with their steps and sentences."""
    length = 9 + seed % 3
    near = 1 + seed % 2
    faint = _hole(length, near, near + 2, 0.003)
    wide = 0.3 * torch.ones(length - 1).diag(1)[None].expand(ROWS, -1, -1)
    cases = [
        ("sound", "", "it is sound", None, {}),
        ("sound", "", "it is sound, and rounds", None, {"grain": 1e-6}),
        ("future", "", "its mask is one place too wide", wide, {}),
        ("future", "", "a position sees a little of a later word", faint, {"loud": 20}),
        ("source", "", "it reads no source", None, {"reads": "nothing"}),
        ("source", "", "it only counts the source's words", None, {"reads": "number"}),
        ("steps", "word", "every step is told that it is the first", None, {}),
        ("steps", "last", "its cache keeps five words", None, {}),
        (
            "steps",
            "source",
            "a step sees as many source words as are written",
            None,
            {},
        ),
    ]
    found = []
    for i, (due, fault, about, leak, options) in enumerate(cases):
        writer = Writer(about, seed + i, leak, due=due, **options).eval()
        sentences = _sentences(seed + i, length)
        found.append((writer, Steps(writer, fault).eval(), *sentences))
    return _shuffled(found, seed)


find_cause = Exercise(
    f"""\
def find_cause(logits, steps, source, target):
    def far(a, b):
        return (a - b).abs().max() > 1e-4

    whole = logits(source, target)
{FUTURE}{SOURCE}{STEPPED}\
    return "sound"
""",
    Part(
        "find_cause",
        CAUSE_MISTAKES,
        lambda seed: [_cause_inputs(seed), _cause_inputs(seed + 1)],
        ["two sound models are told to be sound"],
        others="your experiment tells all three causes apart",
        doubt="",
        gradients=False,
        at_once=1,
        use=_of_each,
        measure=lambda output, *inputs: tuple(map(_cause, output)),
        describe=lambda value, due: "not every cause is found",
        aside=lambda value, answers, models, *rest: _misjudged(value, models),
    ),
)


def _cause(output: Any) -> str:
    """The answer as one of CAUSES; Stop if it is none."""
    said = output.strip().casefold() if isinstance(output, str) else output
    if not isinstance(said, str) or said not in CAUSES:
        listed = ", ".join(f"“{cause}”" for cause in CAUSES)
        raise Stop(wrong(f"return one of {listed}, not {output!r:.40}"))
    return said


# ------------------------------------------------------------- 15.3 three sealed models

ANSWER = """\
first = "weights applied to the keys"
second = "no causal mask"
third = "no scale"
"""
CHOICES = (
    "heads split by view alone",
    "masks repeated in another order than heads",
    "norm over length and features",
    "result of masked_fill thrown away",
    "no causal mask",
    "causal mask one place too wide",
    "weights applied to the keys",
    "the residual taken and never added",
    "softmax before the cross-entropy",
    "the positional table is no buffer",
    "hidden scores filled with -1e9",
    "hidden scores filled with -inf",
    "no scale",
    "scale from d_head // heads",
    "norm by the unbiased standard deviation",
)
SAME_CHECKS = (
    "it fails the same checks, in another way: read which places or names their lines "
    "give, and draw what changes"
)
NO_CHECK = (
    "no check sees either of them: give a sound model the same weights, find the first "
    "module that differs, and measure by how much"
)


def _against(true: Mutant, claimed: str) -> str:
    """What speaks against a diagnosis, without giving the right one away."""
    due, found = KEPT[claimed].caught_by, true.caught_by
    if surplus := [name for name in due if name not in found]:
        return f"then “{surplus[0]}” would fail, and it holds: look at the report again"
    if missing := [name for name in found if name not in due]:
        return f"“{missing[0]}” fails, which this fault leaves alone"
    return SAME_CHECKS if found else NO_CHECK


PLACES = {"first": 1, "second": 2, "third": 3}
diagnosis = Values(
    ANSWER,
    {
        name: {
            claimed: _against(secret(number), claimed)
            for claimed in CHOICES
            if claimed != secret(number).fault
        }
        for name, number in PLACES.items()
    },
    {"": "this is none of the faults"},
    kinds={"": "the name of a fault is due, as text"},
    choices=CHOICES,
)
