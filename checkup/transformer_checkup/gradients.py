"""Does a gradient reach every parameter?"""

from contextlib import suppress

import torch
from torch import Tensor, nn

from transformer_checkup.hooks import disturbed, last_output, trace
from transformer_checkup.measures import loss_of, written
from transformer_checkup.state import in_mode, own_gradients, shaken, without_dropout
from transformer_checkup.subject import Fails, Subject, Suspect, Unknown, named
from transformer_checkup.verdict import module_of, property_check

PADDING_ROW = (
    "made with the `padding_idx` of words: here that is no padding, but a place"
)
UNREAD_ROWS = (
    "part of what it makes is not read: is another tensor's slice taken in its place?"
)


@property_check("runs", "finite")
def all_parameters_learn(subject: Subject) -> str:
    """Every parameter receives a gradient, and so does each row of a linear layer.

    Frozen ones (`requires_grad=False`) are left out, and those of the modules that
    `unused` names, as a pooler that the states do not go through. A weight behind a
    matrix of zeros, as some models start with, gets its gradient from the second step
    on: whoever gets none is asked again after a little noise in all weights. An expert
    whom no token of a small batch chose is asked with 64 sentences, and with more
    noise. Rows that get none are told if nothing reads their output either, as no ReLU
    does that is only shut, and if longer sentences need no more of them, as a table of
    distances does.
    """
    module = module_of(subject)
    if not any(p.requires_grad for p in module.parameters()):
        raise Unknown("all its parameters are frozen")
    idle = _idle_for_good(subject, module)
    if idle:
        more = f" and {len(idle) - 3} more" if len(idle) > 3 else ""
        whole = _idle_modules(module, idle)
        raise Fails(
            f"no gradient reaches {', '.join(idle[:3])}{more}"
            + (f": that is all of {named(whole[0])}" if whole else ""),
            suspects=_of_idleness(whole or [n.rpartition(".")[0] for n in idle]),
        )
    _check_padding_rows(subject, module)
    _check_rows(subject, module)
    return "a gradient reaches every parameter"


def _check_padding_rows(subject: Subject, module: nn.Module) -> None:
    """Raise Fails if words read a row that `padding_idx` keeps from learning."""
    given = [x for x in subject.sentences() if x is not None]
    longest = max(x.size(1) for x in given)
    for call in trace(subject, *subject.sentences()):
        part = module.get_submodule(call.name)
        row = getattr(part, "padding_idx", None)
        ids = [t for t in call.inputs if not t.is_floating_point()]
        # What is longer was filled up by the model, as Longformer does to its window.
        ids = [t for t in ids if t.dim() and t.size(-1) <= longest]
        known = isinstance(part, nn.Embedding) and row is not None
        if known and any((t == row).any() for t in ids):
            raise Fails(
                f"row {row} of {call.name} is read without padding, and never learns: "
                "it is the `padding_idx`",
                suspects=[Suspect(call.name, PADDING_ROW)],
            )


def _idle_for_good(subject: Subject, module: nn.Module) -> list[str]:
    """The parameters that no gradient reaches, whatever the weights and the words."""
    idle = unreached(gradients_of(subject, module))
    for rows, noise in ((4, 0.02), (64, 0.02), (64, 0.3)):
        if idle:
            with shaken(module, noise):
                still = {*unreached(gradients_of(subject, module, rows=rows))}
            idle = [name for name in idle if name in still]
    return idle


def unreached(gradients: dict[str, Tensor | None]) -> list[str]:
    """The names of those that are nothing but zeros."""
    return [
        n for n, gradient in gradients.items() if gradient is None or not gradient.any()
    ]


def gradients_of(
    subject: Subject, module: nn.Module, *lengths: int, rows: int = 4
) -> dict[str, Tensor | None]:
    """The gradients of a loss in train mode, of all that should learn."""
    batch = subject.sentences(*lengths, rows=rows)
    with (
        in_mode(module, training=True),
        without_dropout(module),  # which may leave out whole layers
        own_gradients(module),
        torch.enable_grad(),
    ):
        logits = subject.call(subject.model, *batch)
        if not logits.requires_grad:
            cut = "`detach()` or `no_grad` around the whole model"
            raise Fails("no gradient reaches anything", suspects=[Suspect("", cut)])
        loss_of(logits, written(subject, batch)).backward()
        return {
            name: parameter.grad
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
            and not name.startswith(subject.unused or ("\0",))
        }


def _check_rows(subject: Subject, module: nn.Module) -> None:
    """Raise Fails if an eighth or more of a linear layer's outputs is not read."""
    found = _dead_rows(subject, module, 9, 8)
    if not found:
        return
    with suppress(Fails):  # a model may take no longer ones
        longer = _dead_rows(subject, module, 19, 18)
        found = {n: r for n, r in found.items() if torch.equal(r, longer.get(n, ~r))}
    for name, rows in found.items():
        if _unread(subject, name, rows):
            raise Fails(
                f"no gradient reaches {int(rows.sum())} of {len(rows)} rows of "
                f"{name}.weight, and nothing reads what they make",
                suspects=[Suspect(name, UNREAD_ROWS)],
            )


def _dead_rows(subject: Subject, module: nn.Module, *lengths: int) -> dict[str, Tensor]:
    """Which rows get no gradient, by the layer's name, if they are an eighth of all."""
    with shaken(module, 0.02):
        gradients = gradients_of(subject, module, *lengths)
    dead = {
        name: ~gradients[f"{name}.weight"].any(1)
        for name, part in module.named_modules()
        if isinstance(part, nn.Linear) and gradients.get(f"{name}.weight") is not None
        if 1 < part.out_features < subject.vocab
    }
    return {name: rows for name, rows in dead.items() if 8 * rows.sum() >= len(rows)}


def _unread(subject: Subject, name: str, rows: Tensor) -> bool:
    """Whether these outputs of a layer may be anything without a change of logits."""
    batch, part = subject.sentences(), subject.module.get_submodule(name)
    if last_output(subject, name, *batch) is None:
        raise Unknown(
            f"no gradient reaches {int(rows.sum())} rows of {name}.weight; whether "
            "they are read cannot be told, as it is not called as a module"
        )
    before = subject.logits(*batch)
    with disturbed(part, lambda output: output + 9 * torch.randn_like(output) * rows):
        return torch.equal(before, subject.logits(*batch))


def _of_idleness(places: list[str]) -> list[Suspect]:
    """Why a module gets no gradient."""
    cut = "no gradient comes back: a `detach()` or `no_grad` behind it, or frozen"
    unread = (
        "what it makes (a memory, positions, a value) is not read; say `unused=` if "
        "that is so meant"
    )
    first, *rest = dict.fromkeys(places)
    if rest:
        return [
            Suspect(first, f"{cut}; or {unread}"),
            Suspect(rest[0], f"{cut}; or {unread}"),
        ]
    return [Suspect(first, cut), Suspect(first, unread)]


def _idle_modules(module: nn.Module, idle: list[str]) -> list[str]:
    """The outermost modules none of whose parameters gets a gradient."""
    found: list[str] = []
    for name, part in module.named_modules():
        own = [f"{name}.{p}" for p, _ in part.named_parameters()]
        if not name or not own or any(name.startswith(f"{f}.") for f in found):
            continue
        if {*own} <= {*idle}:
            found.append(name)
    return sorted(found, key=lambda name: name.count("."))
