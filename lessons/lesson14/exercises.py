"""The exercises of lesson 14, more than one device: reference answers and mistakes."""

import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from helpers import PAD
from lessons.checking.comparing import plain
from lessons.checking.engine import Exercise, Part
from lessons.checking.findings import Stop, wrong
from lessons.checking.running import NOTHING, stub
from lessons.lesson14.in_threads import Stuck, in_threads
from lessons.lesson14.ring import ring_all_reduce

# ------------------------------------------------------------------ 14.1 a scaled step

FINITE = "all(gradient.isfinite().all() for gradient in gradients)"
SKIP = "return None, scale / 2, 0"
TRUE = "[gradient / scale for gradient in gradients]"
FULL = "if streak == patience"
GROW = "return true, 2 * scale, 0"
KEEP = "return true, scale, streak"
INFINITY, NAN = float("inf"), float("nan")


STEP_SHAPES = ((3, 2), (4,), (2, 2))
BOTH = [INFINITY, NAN]
SOME = dict.fromkeys(range(3), BOTH)
ALL = dict.fromkeys(range(3), 3 * BOTH)


def _to_step(
    seed: int,
    odd: dict[int, list[float]] | None = None,
    *,
    scale: float,
    streak: int,
    patience: int,
    size: float = 1.0,
    at: int = 0,
) -> tuple:
    """Gradients of three shapes; some hold ∞ or NaN, from this place on."""
    generator = torch.Generator().manual_seed(seed)
    gradients = [
        size * torch.randn(shape, generator=generator) for shape in STEP_SHAPES
    ]
    for number, bad in (odd or {}).items():
        places = gradients[number].view(-1)[at:]
        places[: len(bad)] = torch.tensor(bad)[: len(places)]
    return gradients, scale, streak, patience


def _three_things(output: Any, *inputs: Any) -> tuple:
    """The gradients, or that there are none; the scale; the streak."""
    if not isinstance(output, tuple | list) or len(output) != 3:
        text = "return three things: the true gradients or None, the scale, the streak"
        raise Stop(wrong(text))
    gradients, scale, streak = output
    if isinstance(gradients, Tensor) and gradients.dim() == 0:
        raise Stop(wrong("the gradients are a list of tensors, or None"))
    if gradients is not None:
        gradients = tuple(map(plain, gradients))
        if not all(isinstance(g, Tensor) for g in gradients):
            raise Stop(wrong("the gradients are a list of tensors, or None"))
        gradients = tuple(gradient.detach() for gradient in gradients)
    numbers = []
    for name, number in (("scale", scale), ("streak", streak)):
        try:
            numbers.append(float(number))
        except (TypeError, ValueError):
            kind = type(number).__name__
            raise Stop(wrong(f"the {name} is a number, not a {kind}")) from None
    # As text, a scale is compared exactly, however small it is.
    return "no step" if gradients is None else gradients, f"{numbers[0]:g}", numbers[1]


def _which_differs(value: tuple, due: tuple) -> str:
    if isinstance(value[0], str) != isinstance(due[0], str):
        given, wanted = (
            "None" if x[0] == "no step" else "gradients" for x in (value, due)
        )
        return f"it gives {given} where {wanted} are due"
    for name, yours, theirs in zip(
        ("scale", "streak"), value[1:], due[1:], strict=True
    ):
        if float(yours) != float(theirs):
            return f"the next {name} is {float(yours):g}, due is {float(theirs):g}"
    shapes = [[getattr(part, "shape", None) for part in x[0]] for x in (value, due)]
    if shapes[0] != shapes[1]:
        return "return a list of as many gradients, of the same shapes"
    return "the gradients are not the true ones"


scaled_step = Exercise(
    """\
def scaled_step(gradients, scale, streak, patience):
    if not all(gradient.isfinite().all() for gradient in gradients):
        return None, scale / 2, 0
    true = [gradient / scale for gradient in gradients]
    streak = streak + 1
    if streak == patience:
        return true, 2 * scale, 0
    return true, scale, streak
""",
    Part(
        "scaled_step",
        {
            "NaN passes as a good number: ask `isfinite`": {
                FINITE: "not any(gradient.isinf().any() for gradient in gradients)"
            },
            "∞ passes as a good number: ask `isfinite`": {
                FINITE: "not any(gradient.isnan().any() for gradient in gradients)"
            },
            "−∞ passes as a good number: ask `isfinite`": {
                FINITE: "not any((~(g < math.inf)).any() for g in gradients)"
            },
            "only the first gradient is looked at: one bad number anywhere spoils the "
            "step": {FINITE: "gradients[0].isfinite().all()"},
            "only the last gradient is looked at: one bad number anywhere spoils the "
            "step": {FINITE: "gradients[-1].isfinite().all()"},
            "the step is left out only if every gradient holds a bad number: one is "
            "enough": {FINITE: FINITE.replace("all(", "any(", 1)},
            "a gradient passes that holds bad numbers *and* good ones: one bad number "
            "anywhere spoils the step": [
                {FINITE: FINITE.replace(".all()", one)}
                for one in (
                    *(".any()", ".flatten()[0]", ".flatten()[-1]"),
                    *("[0].all()", "[-1].all()", ".flatten()[[0, -1]].all()"),
                )
            ],
            "an overflow goes unnoticed": {FINITE: "True"},
            "finite numbers are taken for an overflow: gradients in fp32 may be larger "
            "than 65,504": [
                {FINITE: "all((g.abs() <= 65504).all() for g in gradients)"},
                {FINITE: "all(g.half().isfinite().all() for g in gradients)"},
                {FINITE: "all((g.abs() <= 65504 * scale).all() for g in gradients)"},
            ],
            "finite numbers are taken for an overflow: a sum or a norm may overflow "
            "while each number is finite": [
                {FINITE: f"all(g.{of}().isfinite() for g in gradients)"}
                for of in ("sum", "norm", "mean")
            ],
            "the scale has no lower bound, not even 1: halve it after every overflow": [
                {SKIP: SKIP.replace("scale / 2", f"max(scale / 2, {least})")}
                for least in ("1.0", "0.1", "2.0**-14", "1e-8")
            ],
            "the scale has no upper bound: double it after every full streak": [
                {GROW: GROW.replace("2 * scale", f"min(2 * scale, 2.0**{n})")}
                for n in (15, 16, 24, 27, 32)
            ],
            "after an overflow the scale stays: halve it": {
                SKIP: SKIP.replace("scale / 2", "scale")
            },
            "after an overflow the scale is doubled: it was too large": {
                SKIP: SKIP.replace("scale / 2", "scale * 2")
            },
            "after an overflow the streak goes on: it counts good steps in a row": {
                SKIP: SKIP.replace("2, 0", "2, streak")
            },
            "a step that is left out counts as a good one": {
                SKIP: SKIP.replace("2, 0", "2, streak + 1")
            },
            "after an overflow gradients are returned all the same: the whole step is "
            "worthless, return None": [
                {SKIP: SKIP.replace("None", form)}
                for form in (
                    "[0 * torch.ones_like(g) for g in gradients]",
                    "[g.nan_to_num(0, 0, 0) / scale for g in gradients]",
                )
            ],
            "the gradients are still scaled: divide them by the scale": {
                TRUE: "gradients"
            },
            "the gradients are scaled up once more: divide them by the scale": {
                TRUE: "[gradient * scale for gradient in gradients]"
            },
            "the gradients are divided by the new scale: it was the old one that made "
            "them large": {
                TRUE: "[gradient / scale / (2 if streak + 1 == patience else 1) "
                "for gradient in gradients]"
            },
            "the scale must double at the step that makes the streak as long as "
            "`patience`: count this step first": [
                {FULL: "if False"},
                {FULL: "if streak - 1 == patience"},
            ],
            "the scale is doubled after every good step: wait for `patience` of them": {
                FULL: "if True"
            },
            "the scale is doubled one step early": {FULL: "if streak + 1 == patience"},
            "after good steps the scale is halved: double it": {
                GROW: GROW.replace("2 * scale", "scale / 2")
            },
            "after the scale has doubled, the streak begins anew at 0": [
                {GROW: GROW.replace(", 0", ", streak")},
                {GROW: GROW.replace(", 0", ", 1")},
            ],
            "a good step is not counted: the streak grows by 1": {
                KEEP: KEEP.replace("streak", "streak - 1")
            },
        },
        lambda seed: [
            _to_step(seed, scale=1024.0, streak=3, patience=10),
            _to_step(seed + 1, scale=8.0, streak=3, patience=5),
            _to_step(seed + 1, scale=8.0, streak=4, patience=5),
            _to_step(seed + 2, scale=64.0, streak=0, patience=1),
            _to_step(seed, ALL, scale=512.0, streak=6, patience=9),
            _to_step(seed, SOME, scale=2.0**20, streak=2, patience=3),
            _to_step(seed, SOME, scale=2.0**20, streak=2, patience=3, at=-2),
            _to_step(seed, {0: BOTH, 2: BOTH}, scale=256.0, streak=1, patience=4),
            _to_step(seed, {0: BOTH}, scale=32.0, streak=1, patience=2),
            _to_step(seed, {2: BOTH}, scale=16.0, streak=1, patience=7),
            _to_step(seed, {1: [INFINITY]}, scale=128.0, streak=2, patience=5),
            _to_step(seed, {1: [NAN]}, scale=4.0, streak=3, patience=4),
            _to_step(seed, {2: [-INFINITY]}, scale=2048.0, streak=1, patience=6),
            _to_step(seed, {0: [NAN]}, scale=3.0, streak=2, patience=8),
            _to_step(seed + 2, scale=4.0, streak=5 + seed % 3, patience=7 + seed % 3),
            _to_step(seed + 3, scale=0.5, streak=1 + seed % 4, patience=2 + seed % 4),
            _to_step(seed, scale=2.0**10, streak=1, patience=6, size=1e10),
            _to_step(seed, {1: [NAN]}, scale=1.0, streak=1, patience=3),
            _to_step(seed + 1, {1: [INFINITY]}, scale=0.25, streak=0, patience=3),
            _to_step(seed, {1: [INFINITY]}, scale=2.0**-40, streak=1, patience=3),
            _to_step(seed + 1, scale=2.0**26, streak=2, patience=3, size=1e4),
            _to_step(seed + 1, scale=2.0**56, streak=1, patience=2, size=1e17),
            _to_step(seed, {0: [3e38, 3e38]}, scale=2.0**10, streak=3, patience=6),
            *(
                _to_step(seed, {i: bad}, scale=8.0, streak=1, patience=9, at=place)
                for i, shape in enumerate(STEP_SHAPES)
                for place in range(math.prod(shape))
                for bad in ([NAN], [INFINITY])
            ),
        ],
        ["a good step gives the true gradients and lengthens the streak"],
        others="the scale doubles after good steps, and an overflow halves it",
        doubt="",
        in_place=True,  # PyTorch's own scaler divides in place
        measure=_three_things,
        describe=_which_differs,
        at_once=1,
    ),
)

# ------------------------------------------------------------------ 14.2 accumulation


class CountingModel(nn.Module):
    """A small model that notes how many ids are in memory for backward at once.

    backward frees what it needed, unless it is told to retain the graph. It also notes
    how many earlier logits are still there when the next are computed. With output
    weights of a larger `size`, the gradients are larger.
    """

    def __init__(self, seed: int, vocabulary: int, size: float = 1.0):
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.words = nn.Embedding(vocabulary, 3 + seed % 3)
        self.out = nn.Linear(3 + seed % 3, vocabulary)
        for parameter in self.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator)
        self.out.weight.data *= size
        self.kept = self.most = self.most_logits = 0
        self.given: list[weakref.ref] = []

    def forward(self, read: Tensor) -> Tensor:
        """Ids (batch, length) -> logits (batch, length, vocabulary)."""
        summed = self.words(read).cumsum(dim=1)
        with saved_tensors_hooks(lambda x: _Saved(self, x, read.numel()), _Saved.get):
            states = summed.tanh()  # saves its result, once
        earlier = sum(given() is not None for given in self.given)
        self.most_logits = max(self.most_logits, earlier)
        logits = _InAnArray.apply(self.out(states))
        self.given.append(logits.array)
        return logits


class _InAnArray(torch.autograd.Function):
    """The same numbers in an array that lives as long as any view of them does."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        array = x.detach().numpy().copy()
        logits = torch.from_numpy(array)
        logits.array = weakref.ref(array)
        return logits

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class _Saved:
    """A tensor saved for backward, counted as long as it is there."""

    def __init__(self, model: CountingModel, tensor: Tensor, count: int):
        self.model, self.tensor, self.count = model, tensor.detach(), count
        model.kept += count
        model.most = max(model.most, model.kept)

    def get(self) -> Tensor:
        return self.tensor

    def __del__(self):
        self.model.kept -= self.count


def _to_accumulate(
    seed: int, *sizes: tuple[int, int], vocabulary: int = 11, weights: float = 1.0
) -> tuple:
    """A model, and parts of (sentences, length), whose rows end in padding.

    As in a real batch, a short row has one token more in what is read than in labels.
    """
    generator, parts = torch.Generator().manual_seed(seed), []
    for sentences, length in sizes:
        read = torch.randint(4, vocabulary, (sentences, length), generator=generator)
        labels = torch.randint(4, vocabulary, (sentences, length), generator=generator)
        for row in range(1, sentences):
            end = length - (row * (1 + seed % 2)) % length
            read[row, end + 1 :] = labels[row, end:] = PAD
        parts.append((read, labels))
    return CountingModel(seed, vocabulary, weights), parts


def _with_gradients(answer: Callable) -> Callable:
    """The answer as a function: the mean loss, all gradients, and what was in memory.

    The last are two: whether no more than the largest part was there at once for
    backward, and whether at most one part's logits were left when the next came.
    """

    def function(model: CountingModel, parts: Sequence) -> tuple:
        before = [parameter.detach().clone() for parameter in model.parameters()]
        output = answer(model, parts)
        if not all(map(torch.equal, before, model.parameters())):
            raise Stop(wrong(STEP))
        gradients = [parameter.grad for parameter in model.parameters()]
        nothing = all(gradient is None for gradient in gradients)
        if output is None or output is ...:
            if nothing and stub(answer):
                raise NotImplementedError
            raise Stop(wrong(NOTHING))
        try:
            number = output.detach() if isinstance(output, Tensor) else output
            loss = torch.tensor(float(number), dtype=torch.double)
        except (TypeError, ValueError, RuntimeError):
            kind = type(output).__name__
            text = f"return the mean loss, one number, not a {kind}"
            raise Stop(wrong(text)) from None
        if nothing:
            text = (
                "no parameter has a gradient at the end: call `backward` for every "
                "part, and leave its gradients there"
            )
            raise Stop(wrong(text))
        if any(gradient is None for gradient in gradients):
            raise Stop(wrong("some parameters have no gradient"))
        found = torch.cat([gradient.detach().flatten() for gradient in gradients])
        frugal = model.most <= max(read.numel() for read, _ in parts)
        return loss, found, torch.tensor([frugal, model.most_logits <= 1])

    return function


def _what_is_wrong(value: tuple, due: tuple) -> str:
    loss, gradients, frugal = (
        bool(torch.allclose(x.double(), y.double(), rtol=1e-4, atol=1e-6))
        for x, y in zip(value, due, strict=True)
    )
    if not frugal and loss and gradients:
        return LOGITS if value[2][0] else MEMORY
    if loss and not gradients:
        ratio = float(value[1].norm() / due[1].norm())
        return f"the loss is right, the gradients are not: {ratio:.3g} times as long"
    if gradients:
        return f"the gradients are right; the loss is {value[0]:.4f}, due {due[0]:.4f}"
    return f"the loss is {value[0]:.4f}, due is {due[0]:.4f}; the gradients differ, too"


MEMORY = (
    "more than one part is in memory at a time: call `backward` for each part before "
    "the next one is computed, without `retain_graph`"
)
LOGITS = (
    "the logits of earlier parts are kept: let go of them once their loss is added up"
)
STEP = "the weights have changed: only gradients are asked for, so take no step here"
END = "return total"
COUNT = "tokens = sum((labels != PAD).sum() for _, labels in parts)"
SUM = 'reduction="sum"'
DIVIDE = "loss = losses / tokens"
ADD = "total += loss.item()"
BACK = "loss.backward()"
accumulate = Exercise(
    """\
def my_accumulate(model, parts):
    tokens = sum((labels != PAD).sum() for _, labels in parts)
    total = 0.0
    for read, labels in parts:
        logits, due = model(read).flatten(0, 1), labels.flatten()
        losses = F.cross_entropy(logits, due, ignore_index=PAD, reduction="sum")
        loss = losses / tokens
        loss.backward()
        total += loss.item()
    return total
""",
    Part(
        "my_accumulate",
        {
            "this is the mean of the parts' means: their tokens do not count alike. "
            "Divide the sum of all losses by the number of all tokens": {
                SUM: 'reduction="mean"',
                DIVIDE: "loss = losses / len(parts)",
            },
            "the means of the parts are added: divide each part's sum by the tokens of "
            "all parts": [
                {SUM: 'reduction="mean"', DIVIDE: "loss = losses"},
                {DIVIDE: "loss = losses / (labels != PAD).sum()"},
            ],
            "this is the sum over all tokens: divide it by how many they are": {
                DIVIDE: "loss = losses"
            },
            "each part's mean is divided by all tokens: it is its sum that is due": {
                SUM: 'reduction="mean"'
            },
            "the padding is counted as tokens: count the labels that are not PAD": {
                COUNT: "tokens = sum(labels.numel() for _, labels in parts)"
            },
            "the padding has a loss, too: leave out the labels that are PAD": {
                "ignore_index=PAD": "ignore_index=-100"
            },
            "the padding has a loss and counts: leave out the labels that are PAD": {
                COUNT: "tokens = sum(labels.numel() for _, labels in parts)",
                "ignore_index=PAD": "ignore_index=-100",
            },
            "it is divided by the tokens that are read: count the labels that are not "
            "PAD": {COUNT: "tokens = sum((read != PAD).sum() for read, _ in parts)"},
            "this is the mean over the sentences: divide by the tokens": {
                COUNT: "tokens = sum(len(labels) for _, labels in parts)"
            },
            "it is divided by the number of parts, too: the tokens of all parts are "
            "enough": {DIVIDE: "loss = losses / tokens / len(parts)"},
            "the gradients of earlier parts are lost: `zero_grad` between the parts "
            "throws them away": {
                "logits, due =": "model.zero_grad()\n        logits, due ="
            },
            "only the first part is used": {"in parts:\n": "in parts[:1]:\n"},
            "the loss that is returned is that of the last part: add them up": {
                ADD: "total = loss.item()"
            },
            "the gradients are right, but the sum of the losses is returned: return "
            "their mean": {ADD: "total += losses.item()"},
            "the gradients are right, but the returned loss is the mean of the parts' "
            "means": {
                ADD: "total += losses.item() / (labels != PAD).sum() / len(parts)"
            },
            "the returned loss is right, but the gradient is that of the mean of the "
            "parts' means: divide the sum of all losses by all tokens": {
                DIVIDE: "loss = losses / (labels != PAD).sum() / len(parts)",
                ADD: "total += losses.item() / tokens",
            },
            "the gradients are clipped: leave them as `backward` has added them up": [
                {
                    END: f"nn.utils.clip_grad_{kind}_(model.parameters(), {most})\n"
                    f"    {END}"
                }
                for kind in ("norm", "value")
                for most in (0.1, 0.5, 1.0)
            ],
            STEP: [
                {END: f"torch.optim.SGD(model.parameters(), lr=0.1).step()\n    {END}"},
                {
                    ADD: f"{ADD}\n        "
                    "torch.optim.SGD(model.parameters(), lr=0.1).step()"
                },
            ],
            MEMORY: [
                {
                    BACK: "total += loss",
                    ADD: "pass",
                    "return total": "total.backward()\n    return total.item()",
                },
                {BACK: "loss.backward(retain_graph=True)"},
            ],
            LOGITS: [
                {
                    "total = 0.0": "total, kept = 0.0, []",
                    BACK: f"{BACK}\n        kept.append({what})",
                }
                for what in ("logits", "logits.detach()")
            ],
            "backward comes twice for each part: its gradient is added twice": {
                BACK: "loss.backward(retain_graph=True)\n        loss.backward()"
            },
        },
        lambda seed: [
            _to_accumulate(seed, (3, 6), (2, 3)),
            _to_accumulate(seed + 1, (1, 4), (4, 7), (2, 2)),
            _to_accumulate(seed + 2, (4, 5), vocabulary=9),
            _to_accumulate(seed + 4, (2, 5), (3, 4), weights=10.0),
            _to_accumulate(seed + 3, *((1 + i, 2 + seed % 4 + i) for i in range(4))),
        ],
        [
            "the gradients are those of the mean over all tokens",
            "the loss is that mean, and one part at a time is in memory",
        ],
        others="other numbers of parts, and a single one, too",
        doubt="",
        use=_with_gradients,
        describe=_what_is_wrong,
    ),
    uses={"PAD": PAD},
)

# ------------------------------------------------------------------------ 14.3 the ring


def _in_a_ring(answer: Callable) -> Callable:
    """The answer as a function of the rows of all processes.

    It gives what each process returns, and how many numbers each has sent.
    """

    def function(count: int, rows: list[Tensor]) -> tuple:
        try:
            results, sent = in_threads(answer, rows)
        except Stuck as error:
            raise Stop(wrong(str(error))) from None
        empty = [result is None or result is ... for result in results]
        if any(empty):
            if all(empty) and stub(answer):
                raise NotImplementedError
            raise Stop(wrong(NOTHING))
        found = [plain(result) for result in results]
        for rank, result in enumerate(found):
            if not isinstance(result, Tensor) or result.shape != rows[rank].shape:
                shape = getattr(result, "shape", None)
                got = type(result).__name__ if shape is None else tuple(shape)
                size = f"({len(rows[rank])},)"
                text = f"process {rank} returns {got}, due is a tensor of shape {size}"
                raise Stop(wrong(f"{text}: join the pieces"))
        sums = torch.stack([result.detach().double() for result in found])
        return sums, torch.tensor([sum(sizes) for sizes in sent])

    return function


def _whose_sum(value: tuple, due: tuple) -> str:
    """What a wrong ring does: its sums, or how much it sends."""
    if not torch.allclose(value[0], due[0], rtol=1e-4, atol=1e-4):
        off = (value[0] - due[0]).abs() > 1e-4
        rank = int(off.any(dim=1).nonzero()[0])
        place = int(off[rank].nonzero()[0])
        yours, theirs = float(value[0][rank, place]), float(due[0][rank, place])
        text = f"process {rank} ends with {yours:.3f} at place {place}"
        return f"{text}, the sum is {theirs:.3f}"
    rank = int((value[1] != due[1]).nonzero()[0])
    text = f"the sums are right, but process {rank} sends {int(value[1][rank])} numbers"
    return f"{text}: 2 (count - 1) / count of its tensor are {int(due[1][rank])}"


def _rows(seed: int, count: int, each: int) -> tuple:
    """What `count` processes hold, each so many numbers for every process."""
    generator = torch.Generator().manual_seed(100 + seed)
    rows = 10 * torch.randn(count, count * each, generator=generator)
    return count, [*rows]


FIRST = "came = exchange(pieces[(rank - step) % count])"
PUT = "pieces[(rank - step - 1) % count] += came"
SECOND = "came = exchange(pieces[(rank - step + 1) % count])"
TAKE = "pieces[(rank - step) % count] = came"
JOIN = "torch.cat(pieces)"
LOOP = "for step in range(count - 1):\n        "
CHUNK = "pieces = [*mine.clone().chunk(count)]"
ring = Exercise(
    """\
def my_ring(mine, rank, count, exchange):
    pieces = [*mine.clone().chunk(count)]
    for step in range(count - 1):
        came = exchange(pieces[(rank - step) % count])
        pieces[(rank - step - 1) % count] += came
    for step in range(count - 1):
        came = exchange(pieces[(rank - step + 1) % count])
        pieces[(rank - step) % count] = came
    return torch.cat(pieces)
""",
    Part(
        "my_ring",
        {
            "the first round is there, the second is missing: each process has one "
            "complete piece, and must hand it out": {
                LOOP + SECOND: (LOOP + SECOND).replace("count - 1", "0")
            },
            "the second round adds what comes: it is complete, so it replaces": {
                TAKE: TAKE.replace("] =", "] +=")
            },
            "in the end nothing is added up: the first round adds to a piece, and the "
            "second begins with the piece that is complete then, `rank + 1`": [
                {PUT: PUT.replace("+=", "=")},
                {
                    SECOND: SECOND.replace(" + 1", ""),
                    TAKE: TAKE.replace("step)", "step - 1)"),
                },
            ],
            "the first round is one step too short: count - 1 steps are due": {
                LOOP + FIRST: (LOOP + FIRST).replace("count - 1", "count - 2")
            },
            "the second round is one step too short: count - 1 steps are due": {
                LOOP + SECOND: (LOOP + SECOND).replace("count - 1", "count - 2")
            },
            "the sums are right, but a round is one step too long: after count - 1 "
            "steps it is over": [
                {LOOP + FIRST: (LOOP + FIRST).replace("count - 1", "count")},
                {LOOP + SECOND: (LOOP + SECOND).replace("count - 1", "count")},
            ],
            "in the first round, a step sends the piece that the step before has added "
            "to: send `rank - step`, add to `rank - step - 1`": [
                {
                    FIRST: FIRST.replace(" - step", ""),
                    PUT: PUT.replace(" - step", ""),
                },
                {PUT: PUT.replace(" - 1", "")},
            ],
            "the pieces go the wrong way round the ring: what came in one step must "
            "be sent in the next, so their number falls, `rank - step`": [
                {
                    FIRST: FIRST.replace("- step", "+ step"),
                    PUT: PUT.replace("- step - 1", add),
                    SECOND: SECOND.replace("- step + 1", send),
                    TAKE: TAKE.replace("- step", take),
                }
                for add, send, take in (
                    ("+ step - 1", "+ step + 1", "+ step"),
                    ("+ step - 1", "+ step - 1", "+ step - 2"),
                    ("+ step + 1", "+ step - 1", "+ step"),
                )
            ],
            "the sums are right, but the whole tensor goes around: cut it into count "
            "pieces, and send one at a time": [
                {
                    CHUNK: "total, came = mine, mine\n"
                    "    for step in range(count - 1):\n"
                    "        came = exchange(came)\n"
                    "        total = total + came\n"
                    "    return total\n"
                    f"    {CHUNK}"
                }
            ],
            "this is the mean: the sum is due, as of `all_reduce`": {
                JOIN: f"{JOIN} / count"
            },
            "the pieces are joined in another order: piece 0 first": {
                JOIN: "torch.cat([pieces[(rank + i) % count] for i in range(count)])"
            },
        },
        lambda seed: [
            _rows(seed, 3, 2),
            _rows(seed, 2, 3),
            _rows(seed, 4, 1),
            _rows(seed, 5 + seed % 3, 2 + seed % 4),
        ],
        [
            "three processes end with the sum, as `all_reduce` gives it",
            "each sends 2 (count - 1) / count of its tensor",
        ],
        others="two, four and more processes, too",
        doubt="",
        shown=ring_all_reduce,
        use=_in_a_ring,
        describe=_whose_sum,
        results=("the sums", "the numbers sent"),
    ),
)
