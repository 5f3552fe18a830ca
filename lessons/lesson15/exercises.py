"""The exercises of lesson 15, debugging: reference answers and mistakes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from helpers import BOS, EOS, PAD
from lessons.checking.engine import Exercise, Part
from lessons.checking.findings import Stop, wrong
from lessons.checking.values import Values
from lessons.lesson15.breaking import Mutant
from lessons.lesson15.sealed import KEPT, SHOWN, secret

WORDS = 50  # ordinary words have ids from 4 to 49
ROWS = 5


class Writer(nn.Module):
    """A model small enough to be wrong in one place: (source, target) -> logits.

    `leak` (length, length) is added to the causal weights. `spies` move one logit a
    little where a sentence has a certain token. `loud` makes one word by far the
    likeliest everywhere. `reads` is what of the source is read: "all", "nothing", "one"
    word of it, all in any order ("bag"), or the "number" of its words. `counts` moves a
    logit by the number of target tokens, PAD left out. `grain` is the size of rounding.
    `about` says what the model is, `due` what an answer is to say of it.
    """

    def __init__(
        self,
        about: str,
        seed: int,
        leak: Tensor | None = None,
        *,
        spies: Sequence["Spy"] = (),
        loud: float = 0.0,
        reads: str = "all",
        counts: float = 0.0,
        grain: float = 0.0,
        due: Any = None,
    ):
        super().__init__()
        draws = torch.randn(2, WORDS, 8, generator=_generator(seed))
        self.words, self.out = (nn.Parameter(x, requires_grad=False) for x in draws)
        leak = torch.zeros(99, 99) if leak is None else leak
        self.leak = nn.Parameter(leak, requires_grad=False)
        self.about, self.due, self.spies = about, due, spies
        self.loud, self.reads, self.grain, self.counts = loud, reads, grain, counts

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """(batch, source_length), (batch, length) -> (batch, length, WORDS)."""
        length = target.size(1)
        weights = torch.ones(length, length).tril()
        weights = weights / weights.sum(dim=-1, keepdim=True)
        weights = weights + self.leak[:length, :length]
        context = weights @ self.words[target] + self.memory(source)[:, None]
        logits = context.tanh() @ self.out.T
        logits[..., 7] += self.loud
        logits[..., 8] += self.counts * (target != PAD).sum(dim=1, keepdim=True)
        for spy in self.spies:
            spy.moves(logits, source, target)
        if self.grain:
            logits += self.grain * (target.sum(dim=1) % 7)[:, None, None]
        return logits

    def memory(self, source: Tensor) -> Tensor:
        """What is read of the source, (batch, 8)."""
        real = (source != PAD).float()
        if self.reads == "nothing":
            return torch.zeros(len(source), 8)
        if self.reads == "one":
            return self.words[source[:, 1]]
        if self.reads == "number":
            return real.sum(dim=1, keepdim=True).expand(-1, 8) / 10
        if self.reads == "bag":
            return (real[..., None] * self.words[source]).sum(dim=1) / 3
        places = real * torch.arange(1.0, source.size(1) + 1)
        return (places[..., None] * self.words[source]).sum(dim=1) / 10


@dataclass(frozen=True)
class Spy:
    """Moves the logit of `word` at `query`, where `token` stands at `key` of a side.

    With a `gate`, only in the sentence whose source begins with that word.
    """

    query: int
    key: int
    token: int
    word: int
    amount: float
    side: str = "target"
    gate: int | None = None

    def moves(self, logits: Tensor, source: Tensor, target: Tensor) -> None:
        """Change logits (batch, length, WORDS), if both sides are long enough."""
        tokens = source if self.side == "source" else target
        if self.query < logits.size(1) and self.key < tokens.size(1):
            seen = tokens[:, self.key] == self.token
            if self.gate is not None:
                seen = seen & (source[:, 0] == self.gate)
            logits[:, self.query, self.word] += self.amount * seen


def _spy(sides: Sequence[Tensor], number: int, query: int, key: int) -> Spy:
    """A spy on a target token of one sentence, in which alone it acts.

    Which sentence, and what moves, vary with number. The words whose logits move are
    special tokens and ordinary ones, in turn.
    """
    source, target = sides
    row = (4, 1, 0, 3, 2)[number % ROWS]
    return Spy(
        query, key, int(target[row, key]), gate=int(source[row, 0]), **_move(number)
    )


def _reader(source: Tensor, number: int, query: int, key: int) -> Spy:
    """The same for a source token, in whichever sentence it stands."""
    row = (4, 1, 0, 3, 2)[number % ROWS]
    return Spy(query, key, int(source[row, key]), side="source", **_move(number))


def _move(number: int) -> dict:
    """Which logit a spy moves, and by how much."""
    word = (EOS, 49, 0, 13, 2, 31, 1, 4)[number % 8]
    return {"word": word, "amount": 0.00105 * (-1) ** (number // 2)}


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _sentences(seed: int, length: int) -> tuple[Tensor, Tensor]:
    """A source and a target of ordinary words; the target begins with BOS.

    At each place, every sentence has another word.
    """
    generator = _generator(100 + seed)
    places = [torch.randperm(WORDS - 4, generator=generator) for _ in range(30)]
    words = 4 + torch.stack(places, dim=1)[:ROWS]
    target = words[:, -length:].clone()
    target[:, 0] = BOS
    return words[:, : 6 + seed % 3], target


def _hole(length: int, query: int, key: int, size: float) -> Tensor:
    """A leak (length, length) from a key to a query."""
    leak = torch.zeros(length, length)
    leak[query, key] = size
    return leak


# ------------------------------------------------------------------- 15.1 is it causal?

LOOP = "for position in range(1, target.size(1)):"
CHANGED = "other[:, position] = 4 + (target[:, position] - 3) % 46"
COMPARED = "[:, :position].abs().max()"
CAUSAL_MISTAKES = {
    "the later words are cut off or set to PAD: their number may move a logit, and is "
    "no leak; put other words in their place": [
        {
            "other = target.clone()": "other = target[:, :position]",
            CHANGED: "pass",
            "(after - before)": "(after - before[:, :position])",
        },
        {CHANGED: "other[:, position:] = 0"},
    ],
    "the new words are a neighbour's: a batch may hold one sentence, which has no "
    "neighbour; take other words": [
        {CHANGED: "other[:, position:] = target.roll(1, 0)[:, position:]"},
        {CHANGED: "other[:, position] = target.roll(1, 0)[:, position]"},
    ],
    "only the last token is changed: try every position": {
        LOOP: "for position in [target.size(1) - 1]:"
    },
    "only the first token after the start mark is changed: try every position": {
        LOOP: "for position in [1]:"
    },
    "the first token after the start mark is never changed: try every position": {
        LOOP: "for position in range(2, target.size(1)):"
    },
    "the last token is never changed: try every position": {
        LOOP: "for position in range(1, target.size(1) - 1):"
    },
    "the tokens are changed behind one cut only: a leak inside a half does not cross "
    "it; try every position": {
        LOOP: "for position in [target.size(1) // 2]:",
        CHANGED: "other[:, position:] = 4 + (target[:, position:] - 3) % 46",
    },
    "only the likeliest words are compared: a faint leak moves no maximum": {
        "(after - before)[": "(after.argmax(-1) - before.argmax(-1)).abs()["
    },
    "only a rise or only a fall is compared: take the absolute value": [
        {COMPARED: "[:, :position].max()"},
        {COMPARED: "[:, :position].neg().max()"},
    ],
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
    "only one sentence is compared: all of the batch": [
        {COMPARED: f"[{row}, :position].abs().max()"}
        for row in ("0", "1 % len(target)", "-1")
    ],
    "only the first sentences are compared: all of the batch": [
        {COMPARED: f"[:{rows}, :position].abs().max()"} for rows in (2, 3)
    ],
    "the logits of the special tokens are left out: a leak may move the end mark's": {
        COMPARED: "[:, :position, 4:].abs().max()"
    },
    "only the first positions are changed: try every position": {
        LOOP: "for position in range(1, 10):"
    },
    "the mean is compared, in which a single leak is lost: take the maximum": {
        COMPARED: "[:, :position].abs().mean()"
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
    """Models with and without a leak, and the same sentences for each."""
    length, generator = 14 + seed % 3, _generator(seed)
    sides = _sentences(seed, length)
    future = torch.ones(length, length).triu(1)
    holes = (torch.rand(length, length, generator=generator) < 0.1).float().triu(1)
    holes[0], holes[1, length - 1] = 0, 1
    near = 1 + seed % 2
    far = _hole(length, near, near + 2, 0.4)
    faint = _hole(length, near, near + 2, 0.003)
    first, last = (_hole(length, i, length - 1, 0.4) for i in (0, length - 2))
    wide = 0.3 * torch.ones(length - 1).diag(1)
    cases = [
        ("it is sound", None, {}),
        ("it is sound, and rounds", None, {"grain": 3e-6}),
        ("it is sound, and reads no source", None, {"reads": "nothing"}),
        ("it is sound; the number of words moves a logit", None, {"counts": 0.1}),
        ("it is sound, in a batch of one sentence", None, {"rows": 1}),
        ("it has no causal mask, in a batch of one", future / length, {"rows": 1}),
        ("it has no causal mask", future / length, {}),
        ("its mask is one place too wide", wide, {}),
        (f"position {near} sees token {near + 2}", far, {"loud": 20.0}),
        (f"position {near} sees a little of token {near + 2}", faint, {"loud": 20.0}),
        ("a tenth of its mask is holes, and faint", 0.004 * holes, {}),
        ("the first position sees the last token", first, {}),
        ("the position before the last sees the last token", last, {}),
    ]
    for key in range(1 + seed % 2, length, 2):
        query = int(torch.randint(key, (), generator=generator))
        about = (
            f"one logit of position {query} tells by 0.001 whether token {key} is a "
            "certain word, in one sentence"
        )
        spies = [_spy(sides, (length - key) // 2 + 3 * seed, query, key)]
        cases.append((about, None, {"spies": spies}))
    found = []
    for i, (about, leak, options) in enumerate(cases):
        rows, due = options.pop("rows", ROWS), about.startswith("it is sound")
        model = Writer(about, seed + i, leak, due=due, **options).eval()
        found.append((model, *(side[:rows] for side in sides)))
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
        ["five sound models pass: one rounds, one counts the words"],
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
    "word", the "last" five words, as many words of the "source" as are written, or
    other source words ("blind"), always the same.
    `spies` move one logit of a step a little, where a sentence has a certain token.
    """

    def __init__(self, writer: Writer, fault: str = "", spies: Sequence[Spy] = ()):
        super().__init__()
        self.writer, self.fault, self.spies = writer, fault, spies

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """The logits of every step, (batch, length, WORDS)."""
        found = []
        for end in range(1, target.size(1) + 1):
            start = {"word": end - 1, "last": max(0, end - 5)}.get(self.fault, 0)
            read = source[:, :end] if self.fault == "source" else source
            read = torch.full_like(source, 9) if self.fault == "blind" else read
            found.append(self.writer(read, target[:, start:end])[:, -1])
        logits = torch.stack(found, dim=1)
        for spy in self.spies:
            spy.moves(logits, source, target)
        return logits


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
    "the other source is a neighbour's: a batch may hold one sentence, which has no "
    "neighbour; take other words": [
        {"4 + (source - 3) % 46": "source.roll(1, 0)"},
        {"4 + (source - 3) % 46": "source.flip(0)"},
    ],
    "the steps are asked whether the source is read: ask `logits`, which may differ": {
        SOURCE: """\
    if not far(steps(4 + (source - 3) % 46, target), steps(source, target)):
        return "source"
"""
    },
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
    "only the first word of the target is changed: try every position": {
        "range(1, target.size(1))": "[1]",
        "other[:, position:] = 4 + (other[:, position:] - 3) % 46": "other[:, 1] = "
        "4 + (other[:, 1] - 3) % 46",
    },
    "only one word of the source is changed: it may read another; change all": [
        {
            "4 + (source - 3) % 46": "torch.where(torch.arange(source.size(1)) == "
            f"{place} % source.size(1), 4 + (source - 3) % 46, source)"
        }
        for place in (0, -1)
    ],
    "only a rise or only a fall is compared: take the absolute value": [
        {"(a - b).abs().max()": "(a - b).max()"},
        {"(a - b).abs().max()": "(b - a).max()"},
    ],
    "only one sentence is compared: all of the batch": [
        {"(a - b).abs().max()": f"(a - b)[{row}].abs().max()"}
        for row in ("0", "1 % len(a)", "-1")
    ],
    "only the first sentences are compared: all of the batch": {
        "(a - b).abs().max()": "(a - b)[:3].abs().max()"
    },
    "the logits of the special tokens are left out: a leak may move the end mark's": {
        "(a - b).abs().max()": "(a - b)[..., 4:].abs().max()"
    },
    "the mean is compared, in which a faint difference is lost: take the maximum": {
        "(a - b).abs().max()": "(a - b).abs().mean()"
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
    """Models with one cause each, or none, with their steps and the same sentences."""
    length, generator = 13 + seed % 3, _generator(seed)
    source, target = _sentences(seed, length)
    near, end = 1 + seed % 2, length - 1
    middle = 2 + int(torch.randint(length - 3, (), generator=generator))
    faint = _hole(length, near, near + 2, 0.003)
    wide = 0.3 * torch.ones(length - 1).diag(1)
    cases = [
        ("sound", "none of the three is true", {}),
        ("sound", "none is true, and it rounds", {"grain": 3e-6}),
        ("sound", "none is true, and one word is loud", {"loud": 20.0}),
        ("sound", "it reads one source word, the second", {"reads": "one"}),
        ("sound", "it reads the source's words in any order", {"reads": "bag"}),
        ("future", "its mask is one place too wide", {"leak": wide}),
        ("future", "it sees a bit of a later word", {"leak": faint, "loud": 20.0}),
        ("source", "it reads no source", {"reads": "nothing"}),
        ("source", "it only counts the source's words", {"reads": "number"}),
        ("steps", "every step is told that it is the first", {"step": "word"}),
        ("steps", "its cache keeps five words", {"step": "last", "loud": 20.0}),
        ("steps", "the number of target words moves a logit", {"counts": 0.1}),
        (
            "steps",
            "a step sees as many source words as are written",
            {"step": "source"},
        ),
        (
            "steps",
            "its steps read no source, the run all at once does",
            {"step": "blind"},
        ),
        ("sound", "none is true, in a batch of one sentence", {"rows": 1}),
        ("future", "no causal mask, in a batch of one", {"leak": wide, "rows": 1}),
        (
            "source",
            "it reads no source, in a batch of one",
            {"reads": "nothing", "rows": 1},
        ),
    ]
    for number, query in ((0, end), (3, 0)):  # one rises, the other falls
        spy = _reader(source, number, query, 1)
        about = f"it tells a bit of one source word, at position {query}"
        cases.append(("sound", about, {"reads": "nothing", "spies": [spy]}))
    for row, key in enumerate((1, middle, end)):
        query = int(torch.randint(key, (), generator=generator))
        about = f"a logit of position {query} tells a bit of token {key}, in a sentence"
        spies = [_spy((source, target), row, query, key)]
        cases.append(("future", about, {"spies": spies}))
        step = key - (row == 0)
        about = f"one logit of step {step} is off by 0.001, in one sentence"
        spies = [_spy((source, target), row, step, key)]
        cases.append(("steps", about, {"stepped": spies}))
    found = []
    for i, (due, about, options) in enumerate(cases):
        fault, spies = options.pop("step", ""), options.pop("stepped", ())
        rows = options.pop("rows", ROWS)
        writer = Writer(about, seed + i, due=due, **options).eval()
        steps = Steps(writer, fault, spies).eval()
        found.append((writer, steps, source[:rows], target[:rows]))
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
        ["of eight models none of the three is true, and you say “sound”"],
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
    due, found = CAUGHT_BY[claimed], true.caught_by
    if surplus := [name for name in due if name not in found]:
        return f"then “{surplus[0]}” would fail, and it holds: look at the report again"
    if missing := [name for name in found if name not in due]:
        return f"“{missing[0]}” fails, which this fault leaves alone"
    return SAME_CHECKS if found else NO_CHECK


CROSSED = "cross mask of the target"  # in the table, and in no sealed model
CAUGHT_BY = {fault: KEPT[fault].caught_by for fault in SHOWN}
CAUGHT_BY[CROSSED] = ("steps equal parallel", "attention is sound")
ALSO = {
    "first": [
        "weights applied to the keys",
        "weights applied to keys",
        "weights are applied to the keys",
        "attention weights applied to the keys",
        "weights applied to the keys, not the values",
        "weights applied to the keys instead of the values",
    ],
    "second": [
        "no causal mask",
        "causal mask missing",
        "missing causal mask",
        "no mask of the future",
    ],
    "third": [
        "no scale",
        "no scaling",
        "scale missing",
        "missing scale",
        "scores not scaled",
        "scores are not scaled",
    ],
}


def _worded(answers: Sequence[str]) -> list[str]:
    """The same answers with an article, with "is", with both, and with a full stop."""
    spoken = [f"{start}{x}" for x in answers for start in ("", "the ")]
    spoken += [x.replace(" missing", " is missing") for x in spoken]
    return [*dict.fromkeys(x + end for x in spoken for end in ("", "."))]


PLACES = {"first": 1, "second": 2, "third": 3}
diagnosis = Values(
    ANSWER,
    {
        name: {
            claimed: _against(secret(number), claimed)
            for claimed in CAUGHT_BY
            if claimed != secret(number).fault
        }
        for name, number in PLACES.items()
    },
    {"": "this is none of the faults"},
    kinds={"": "the name of a fault is due, as text"},
    also={name: _worded(words) for name, words in ALSO.items()},
    choices=[*CAUGHT_BY],
)
