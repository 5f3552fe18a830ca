"""The first questions: does it run, is it finite, is it deterministic?

Where one of these fails, most others cannot be trusted and are not asked.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from .hooks import first_nan, parting, stops_at, trace
from .measures import change, spread, with_padding
from .state import in_mode
from .subject import Batch, Fails, Subject, Suspect, named
from .suspects import REMEMBERS
from .verdict import property_check

NO_MODULE = (
    "no `module=` was given, so nothing is in eval mode, and a dropout still drops: "
    "give it, `Subject(function, …, module=my_model)`"
)
OF_NAN = (
    "a mask that is multiplied by -inf: 0 · -inf is NaN; use `masked_fill`",
    "0/0, a softmax over nothing, or a root or logarithm out of its range",
)
DROPS = "dropout that `eval()` does not switch off, as `F.dropout(x, p)` alone"


@property_check()
def runs(subject: Subject) -> str:
    """The model takes ids of its vocabularies and gives logits of the right shape.

    Holds for every model that is handed over in the form that `Subject` describes; all
    other checks rest on it.
    """
    batch = subject.sentences()
    for side, size in zip(batch, subject.sides.values(), strict=True):
        side[0, 1] = size - 1  # the last word of all, too
    try:
        subject.logits(*batch)
    except Fails as failure:
        more = _hint(subject, failure)
        raise Fails(f"{failure}; {more}" if more else str(failure)) from failure
    return "it takes ids and gives logits of the right shape"


@property_check("runs")
def finite(subject: Subject) -> str:
    """Every logit is a number, with and without padding.

    Holds for every sound model. NaN and infinity spread to all that reads them, so no
    comparison says anything while this fails.
    """
    plain = subject.sentences()
    padded = with_padding(subject, plain)
    for batch, when in ((plain, "without padding"), (padded, "with padding")):
        check_finite(subject, batch, subject.logits(*batch), when, *OF_NAN)
    return "every logit is a number, with and without padding"


def check_finite(
    subject: Subject,
    batch: Batch,
    logits: Tensor,
    when: str,
    *causes: str,
    pads: bool = False,
) -> None:
    """Raise Fails if a logit at a word is not finite, or, if told so, at a PAD."""
    bad = ~logits.isfinite().all(-1)
    if not pads:
        bad &= batch[-1] != subject.pad
    if bad.any():
        where = first_nan(trace(subject, *batch)) or ""
        raise Fails(
            f"{int(bad.any(1).sum())} of {len(bad)} sentences get NaN or infinity, "
            + when
            + (f", first in {named(where)}" if where else ""),
            [Suspect(where, cause) for cause in causes],
        )


@property_check("runs", "finite", rouse=True)
def same_twice(subject: Subject) -> str:
    """In eval mode the same input gives the same output, to the last bit.

    Does not hold for models that draw at random on purpose, such as some mixtures of
    experts with noise. No other comparison can be trusted while it fails.
    """
    batch = subject.sentences()
    once, again = subject.logits(*batch), subject.logits(*batch)
    largest = change(once, again).max().item()
    if not largest:
        return "in eval mode two runs on one batch are equal"

    def same(one: Tensor, other: Tensor) -> bool | None:
        return None if one.shape != other.shape else torch.equal(one, other)

    where, method = parting(subject, batch, batch, same)
    drops = DROPS if subject.module is not None else NO_MODULE
    raise Fails(
        f"in eval mode two runs on one batch differ by {spread(largest)}: something is "
        "drawn at random, or remembered",
        [Suspect(where or "", drops, method), Suspect(where or "", REMEMBERS)],
    )


# --- What is usually wrong with an interface, where a model does not run -------------


def _hint(subject: Subject, failure: Fails) -> str:
    """What may be done about it, in a few words; "" if nothing is known."""
    names = "source, target" if len(subject.sides) > 1 else "tokens"
    if _runs_turned(subject):
        return "with the two vocabularies exchanged it runs: are they swapped?"
    error = failure.__cause__
    if error is None:
        return _of_output(subject, names)
    where = stops_at(subject, *subject.sentences())
    inside = subject.module.get_submodule(where) if where else None
    of_ids = isinstance(error, IndexError) and isinstance(inside, nn.Embedding)
    if of_ids or re.search("outside the vocabulary|out of range in self", str(error)):
        told = " and ".join(f"{side} ids {n - 1}" for side, n in subject.sides.items())
        if len(subject.sides) == 1:
            told = f"ids go up to {subject.vocab - 1}"
        return f"{told}: is this the size of its vocabulary, and does it take 9 tokens?"
    if isinstance(error, TypeError) and re.search("positional arg|missing", str(error)):
        return (
            f"a model of the kind {subject.kind!r} is called with ({names}): is it of "
            "another? Say kind=, or --kind"
        )
    return f"it stops in {named(where)}" if where else ""


def _runs_turned(subject: Subject) -> bool:
    """Whether it runs with its vocabularies exchanged."""
    if subject.source_vocab == subject.target_vocab:
        return False
    sizes = {"source_vocab": subject.target_vocab, "target_vocab": subject.source_vocab}
    try:
        turned = replace(subject, **sizes)
        turned.logits(*turned.sentences())
    except Fails:
        return False
    return True


def _of_output(subject: Subject, names: str) -> str:
    """How to come from what the model gives to logits."""
    batch = subject.sentences()
    with in_mode(subject.module, training=False), torch.no_grad():
        output = subject.model(*batch)
    if isinstance(output, Tensor):
        return _of_shape(subject, tuple(output.shape), tuple(batch[-1].shape))
    wanted = (
        ["logits", "last_hidden_state"] if subject.kind == "encoder" else ["logits"]
    )
    keys = output if isinstance(output, Mapping) else ()
    ends = [f".{name}" for name in wanted if hasattr(output, name)]
    ends += [f'["{name}"]' for name in wanted if name in keys]
    if isinstance(output, list | tuple) and output:
        ends.append("[0]")
    if not ends:
        return "logits are wanted: does it end with a `return`, and with a head?"
    return (
        f"it is handed over as `lambda {names}: my_model({names}){ends[0]}`, with "
        "`module=my_model`"
    )


def _of_shape(subject: Subject, shape: tuple[int, ...], ids: tuple[int, ...]) -> str:
    """What another shape than (batch, length, vocabulary) may come from."""
    if shape[:-1] == ids:
        said = f"is its vocabulary of {shape[-1]}? Say "
        if subject.kind == "encoder-decoder":
            return f"{said}target_vocab={shape[-1]}, or --target-vocab {shape[-1]}"
        return f"{said}source_vocab={shape[-1]}, or --vocab {shape[-1]}"
    if shape[:-1] == ids[::-1]:
        return "the length comes first: turn it by `.transpose(0, 1)`"
    if len(shape) == 3 and shape[1] < ids[1]:
        return "the logits of every position are wanted, as in training"
    return "logits are (batch, length, vocabulary)"
