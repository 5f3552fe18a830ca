"""Checks for the exercises of lesson 15, debugging."""

import difflib
import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from helpers.attention import MultiHeadAttention
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
from helpers.debugger.adapters import of_course
from helpers.debugger.breaking import Mutant, small_model, swap
from helpers.debugger.mutants import SeesOneAhead, SeesTheFuture
from helpers.debugger.properties import CHECKS, FOURTEEN, first_difference
from helpers.debugger.sealed import KEPT, sealed, secret
from helpers.masks import decoder_mask, padding_mask
from helpers.transformer import Transformer

# --- Exercise 15.1: is_causal ---------------------------------------------------------


class HoleInTheMask(Transformer):
    """The causal mask has one hole: position 2 sees token 3."""

    def decode(self, target, memory, source):
        mask = decoder_mask(target)
        mask[:, :, 2:3, 3:4] = True
        x = self.positions(self.target_embedding(target))
        return self.decoder(x, memory, mask, padding_mask(source))


class Rounded(Transformer):
    """Sound, but for rounding: its logits move by a millionth with every token."""

    def forward(self, source, target):
        return super().forward(source, target) + 1e-6 * (target.sum() % 7)


# A model's class, its dropout, and what to think of whoever judges it wrongly.
CAUSAL_CASES = {
    "a sound model": (
        Transformer,
        0.0,
        "a new token may change the logits at its own position and after: compare "
        "`[:, :position]` alone",
    ),
    "no causal mask at all": (
        SeesTheFuture,
        0.0,
        "put another word at a position of the *target*, other than the first, and "
        "see whether the logits *before* it stay",
    ),
    "a mask one place too wide": (
        SeesOneAhead,
        0.0,
        "only the logits directly before the new token move: compare up to it, "
        "`[:, :position]`",
    ),
    "a mask with one hole": (
        HoleInTheMask,
        0.0,
        "only token 3 leaks, and only into position 2: try every position, not just "
        "one or the last",
    ),
    "a sound model that rounds": (
        Rounded,
        0.0,
        "its logits move by a millionth, which is rounding and no leak: compare with "
        "`torch.allclose(…, atol=1e-4)`",
    ),
    "a sound model with dropout, in train mode": (
        Transformer,
        0.3,
        "two runs differ as dropout is on: call `model.eval()` first",
    ),
}


@check
def is_causal(function: Callable) -> Iterator[Finding]:
    """Exercise 15.1: `function(model, source, target)` tells causal models from not."""
    cases = {}
    for name, (kind, dropout, _) in CAUSAL_CASES.items():
        # One layer: a mask one place too wide then leaks exactly one.
        model = small_model(0, kind, dropout=dropout, n_layers=1).train()
        cases[name] = (_answer(function, model), kind in (Transformer, Rounded))
    answers = [answer for answer, _ in cases.values()]
    if answers.count(None) == len(cases):
        raise Stop(untried("not attempted yet: the function returns None"))
    if None in answers:
        name = [*cases][answers.index(None)]
        raise Stop(
            wrong(
                f"{name}: your function returns None: does every way through it end "
                "in a `return`? `return True` may be missing at the end"
            )
        )
    if all(answer != due for answer, due in cases.values()):
        raise Stop(wrong("it is the other way round: True is for no leak"))
    for name, (answer, due) in cases.items():
        if answer == due:
            yield right(f"{name}: {answer}")
        else:
            hint = CAUSAL_CASES[name][2]
            raise Stop(wrong(f"{name}: your function says {answer}: {hint}"))


def _answer(function: Callable, model: nn.Module) -> bool | None:
    """What the function says of the model; None where it returns nothing."""
    try:
        answer = attempt(function, model, *of_course(model).sentences())
    except Stop as stop:
        if stop.finding.mark == "○" and callable(function):
            return None
        raise
    if getattr(answer, "shape", None) == ():  # of PyTorch or numpy
        answer = answer.item()
    if not isinstance(answer, bool):
        kind = type(answer).__name__
        raise Stop(wrong(f"return True or False, not something of type {kind}"))
    return answer


# --- Exercise 15.2: repair an attention -----------------------------------------------


def version(attention, query, keys, values, mask, **steps):
    """`attend` with some of its STEPS done in another way."""
    steps = STEPS | steps
    queries = attention.split_heads(attention.query_projection(query))
    scores = queries @ keys.transpose(-2, -1) / steps["scale"](queries, query)
    weights = steps["hide"](scores, mask).softmax(dim=steps["axis"])
    context = steps["mix"](weights, keys, values)
    return attention.output_projection(steps["join"](context))


STEPS = {
    "scale": lambda queries, query: math.sqrt(queries.size(-1)),
    "hide": lambda scores, mask: scores.masked_fill(
        ~mask, torch.finfo(scores.dtype).min
    ),
    "axis": -1,
    "mix": lambda weights, keys, values: weights @ values,
    "join": lambda context: context.transpose(1, 2).flatten(2),
}
REPAIRS = [
    Mistake(
        "the scale is still taken from d_model",
        "no property sees it, a reference does: the root is of d_head, "
        "`queries.size(-1)`",
        {"scale": lambda queries, query: math.sqrt(query.size(-1))},
    ),
    Mistake(
        "the scale is gone",
        "divide the scores by √d_head, `math.sqrt(queries.size(-1))`",
        {"scale": lambda queries, query: 1.0},
    ),
    Mistake(
        "the mask still has no effect",
        "the result of masked_fill is thrown away: `scores = scores.masked_fill(…)`",
        {"hide": lambda scores, mask: scores},
    ),
    Mistake(
        "the mask is turned round",
        "hide where it is False: `~mask`",
        {
            "hide": lambda scores, mask: scores.masked_fill(
                mask, torch.finfo(scores.dtype).min
            )
        },
    ),
    Mistake(
        "the softmax still runs over the heads",
        "each query shares out a weight of 1 among the keys: `dim=-1`",
        {"axis": 1},
    ),
    Mistake(
        "the softmax runs over the queries",
        "each query shares out a weight of 1 among the keys: `dim=-1`",
        {"axis": -2},
    ),
    Mistake(
        "the weights are still applied to the keys",
        "what is found are the values: `weights @ values`",
        {"mix": lambda weights, keys, values: weights @ keys},
    ),
    Mistake(
        "the heads are still joined without the way back",
        "`context.transpose(1, 2)` first, then `flatten(2)`",
        {"join": lambda context: context.reshape(len(context), context.size(2), -1)},
    ),
]
FINITE = {
    "finite in half precision": "-1e9 does not fit into 16 bits; take "
    "`torch.finfo(scores.dtype).min`",
    "finite without source": "a softmax over a row of -inf is NaN; take "
    "`torch.finfo(scores.dtype).min`, or set those weights to 0 afterwards",
}


@check
def repaired(function: Callable) -> Iterator[Finding]:
    """Exercise 15.2: `function(attention, query, keys, values, mask)`, in good order.

    It stands in for MultiHeadAttention.attend; query (batch, query_length, d_model),
    keys and values (batch, heads, key_length, d_head).
    """
    torch.manual_seed(0)
    attention = MultiHeadAttention(32, 4).requires_grad_(False)
    query, memory = torch.randn(2, 3, 32), torch.randn(2, 5, 32)
    mask = torch.ones(2, 1, 3, 5, dtype=torch.bool)
    mask[0, ..., 3:] = mask[1, :, 0, 1:] = False
    probe = [attention, query, *attention.project(memory, memory), mask]
    output, due = attempt(function, *probe), version(*probe)
    if not isinstance(output, Tensor) or output.shape != due.shape:
        kind = type(output).__name__
        given = tuple(output.shape) if isinstance(output, Tensor) else f"a {kind}"
        raise Stop(wrong(f"return the output {tuple(due.shape)}, not {given}"))
    if not same(output, due):
        made = recognise(output, version, REPAIRS, probe)
        if made:
            names = "; and ".join(f"{m.name}: {m.hint}" for m in made)
            raise Stop(wrong(names))
    yield from _judge_repair(function)
    if not same(output, due):
        raise Stop(
            wrong(
                "all properties hold, and yet the output differs from the reference's "
                f"by up to {(output - due).abs().max():.2g}: which step can no "
                "property see?"
            )
        )
    yield right("with the same weights it gives what the course's attention gives")


def _judge_repair(function) -> Iterator[Finding]:
    """The fourteen checks, on a model whose every attention is the learner's."""

    def attend(self, query, keys, values, mask=None):
        if mask is None:  # as in a step from caches, where nothing is hidden
            mask = torch.ones(1, 1, query.size(1), keys.size(2), dtype=torch.bool)
        return function(self, query, keys, values, mask)

    model = small_model(0)
    swap(model, type("Repaired", (MultiHeadAttention,), {"attend": attend}))
    subject = of_course(model, attention=None)
    for name in FOURTEEN:
        verdict = CHECKS[name](subject)
        if verdict.holds is False:
            hint = FINITE.get(name)
            raise Stop(wrong(f"{verdict.text}{': ' + hint if hint else ''}"))
    yield right(f"{len(FOURTEEN) - 1} properties hold in a model made with it")


# --- Exercise 15.3: name the fault of three sealed models -----------------------------


@check
def diagnosis(first=None, second=None, third=None) -> Iterator[Finding]:
    """Exercise 15.3: the faults of the sealed models 1, 2 and 3."""
    answers = {"first": first, "second": second, "third": third}
    for number, (place, answer) in enumerate(answers.items(), start=1):
        if answer is None or answer is Ellipsis:
            yield untried(f"the {place} model: not attempted yet")
        elif not isinstance(answer, str) or answer not in KEPT:
            near = difflib.get_close_matches(str(answer), KEPT, n=2, cutoff=0.3)
            hint = f"; near it: {', '.join(near)}" if near else ""
            yield wrong(f"{answer!r:.60} is not in the list of faults{hint}")
        elif answer == (true := secret(number)).fault:
            yield right(f"the {place} model: {answer}")
        else:
            yield wrong(
                f"the {place} model is not broken by “{answer}”: "
                f"{_contradiction(number, KEPT[answer].caught_by, true)}"
            )


def _contradiction(number: int, claimed: tuple[str, ...], true: Mutant) -> str:
    """What speaks against a diagnosis, without giving the right one away."""
    found = true.caught_by
    if surplus := [name for name in claimed if name not in found]:
        return f"then “{surplus[0]}” would fail, and it holds: look again at examine"
    if missing := [name for name in found if name not in claimed]:
        return f"“{missing[0]}” fails, which this fault leaves alone"
    if found:
        return (
            "it fails the same checks, in another way: read which places or names "
            "their lines give, and draw what changes"
        )
    return (
        "no check sees either of them; give a sound model the same weights and compare "
        f"module by module: the first that differs is {_first_difference(number)}"
    )


def _first_difference(number: int) -> str:
    """Where a sealed model leaves a sound one of the same weights."""
    model, reference = sealed(number), small_model(number)
    reference.load_state_dict(model.state_dict())
    return first_difference(model, reference, *of_course(reference).sentences())


def all_faults() -> list[str]:
    """The names that a diagnosis may have, in alphabetical order."""
    return sorted(KEPT)
