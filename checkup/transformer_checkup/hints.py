"""What is usually wrong with an interface, where a model does not run at all."""

import re
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from transformer_checkup.hooks import where_it_stops as stops_at
from transformer_checkup.state import in_mode
from transformer_checkup.subject import Fails, Subject, named

SIGNATURES = {
    "encoder-decoder": "source, target",
    "decoder": "tokens",
    "encoder": "tokens",
}


def hint(subject: Subject, failure: Fails) -> str:
    """What may be done about it, in a few words; "" if nothing is known."""
    if _runs_turned(subject):
        return "with the two vocabularies exchanged it runs: are they swapped?"
    error = failure.__cause__
    if error is None:
        return _of_output(subject)
    where = stops_at(subject, *subject.sentences())
    if _is_of_ids(subject, error, where):
        sides = subject.sides(*subject.sentences())
        highest = {
            f"{name} ids {getattr(subject, f'{name}_vocab') - 1}" for name, _ in sides
        }
        if len(sides) == 1:
            highest = {f"ids go up to {subject.vocab - 1}"}
        return (
            f"{' and '.join(sorted(highest))}: is this the size of its vocabulary, and "
            "does it take 9 tokens?"
        )
    if isinstance(error, TypeError) and re.search("positional arg|missing", str(error)):
        return (
            f"a model of the kind {subject.kind!r} is called with "
            f"({SIGNATURES[subject.kind]}): is it of another? Say kind=, or --kind"
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


def _is_of_ids(subject: Subject, error: BaseException, where: str | None) -> bool:
    """Whether an id is too large for an embedding, as far as can be seen."""
    if re.search("outside the vocabulary|out of range in self", str(error)):
        return True
    inside = subject.module.get_submodule(where) if where else None
    return isinstance(error, IndexError) and isinstance(inside, nn.Embedding)


def _of_output(subject: Subject) -> str:
    """How to come from what the model gives to logits."""
    given = [side for _, side in subject.sides(*subject.sentences())]
    with in_mode(subject.module, training=False), torch.no_grad():
        output = subject.model(*given)
    if isinstance(output, Tensor):
        return _of_shape(subject, tuple(output.shape), tuple(given[-1].shape))
    for name in ("logits", "last_hidden_state"):
        if name == "last_hidden_state" and subject.kind != "encoder":
            continue
        if hasattr(output, name):
            return _handed_over(subject, f".{name}")
        if isinstance(output, Mapping) and name in output:
            return _handed_over(subject, f'["{name}"]')
    if isinstance(output, list | tuple) and output:
        return _handed_over(subject, "[0]")
    return "logits are wanted: does it end with a `return`, and with a head?"


def _handed_over(subject: Subject, end: str) -> str:
    """The function that makes logits of what the model gives."""
    names = SIGNATURES[subject.kind]
    return (
        f"it is handed over as `lambda {names}: my_model({names}){end}`, with "
        "`module=my_model`"
    )


def _of_shape(subject: Subject, shape: tuple[int, ...], ids: tuple[int, ...]) -> str:
    """What another shape than (batch, length, vocabulary) may come from."""
    if shape[:-1] == ids:
        side = "source" if subject.kind != "encoder-decoder" else "target"
        option = "--vocab" if side == "source" else "--target-vocab"
        size = shape[-1]
        return (
            f"is its vocabulary of {size}? Say {side}_vocab={size}, or {option} {size}"
        )
    if shape[:-1] == ids[::-1]:
        return "the length comes first: turn it by `.transpose(0, 1)`"
    if len(shape) == 3 and shape[1] < ids[1]:
        return "the logits of every position are wanted, as in training"
    return "logits are (batch, length, vocabulary)"
