"""Can it be trained? Logits and a loss to start from, gradients, a batch by heart."""

import math
import time
from collections.abc import Iterator
from contextlib import suppress

import torch
from torch import Tensor, nn

from .hooks import disturbed, trace
from .measures import loss_of
from .state import copied, in_mode, shaken, without_dropout
from .subject import Batch, Fails, Subject, Suspect, Unknown, named
from .verdict import module_of, property_check

TOO_LOUD = 6.0  # nats
TWICE = "its softmax: the loss takes another, so give it logits"
LOUD = "its weights start too large: an embedding's N(0, 1) is meant for inputs"
CUT_OFF = "`detach()` or `no_grad` around the whole model"
CUT = "no gradient comes back: a `detach()` or `no_grad` behind it, or frozen"
UNREAD = (
    "what it makes (a memory, positions, a value) is not read; say `unused=` if that "
    "is so meant"
)
PADDING_ROW = (
    "made with the `padding_idx` of words: here that is no padding, but a place"
)
UNREAD_ROWS = (
    "part of what it makes is not read: is another tensor's slice taken in its place?"
)
UNTEACHABLE = (
    "a softmax before the loss, a residual that is lost, a part that gets no gradient, "
    "or a source that is not read"
)
PATIENCE, SHORT = 40.0, 20.0  # seconds of processor time; for a large model
LARGE = 5_000_000  # parameters
STEPS = 300


@property_check("runs", "finite")
def gives_logits(subject: Subject) -> str:
    """What comes out are logits, not probabilities that sum to one.

    A cross-entropy takes a softmax of its own; of another it makes a loss that cannot
    fall below ln V - 1. Log-probabilities pass: a log-softmax leaves them alone.
    """
    batch = subject.sentences()
    logits = subject.logits(*batch)
    if not _sums_to_one(logits):
        return "the output is no softmax"
    makers = [
        call.name
        for call in trace(subject, *batch)
        if any(t.shape == logits.shape and _sums_to_one(t) for t in call.outputs)
    ]
    suspects = [Suspect(name, TWICE) for name in dict.fromkeys([*makers, ""])]
    raise Fails(
        "at every position the output is positive and sums to one: these are "
        "probabilities, not logits",
        suspects[:2],
    )


def _sums_to_one(logits: Tensor) -> bool:
    if not logits.is_floating_point() or logits.size(-1) < 2:
        return False
    return bool((logits >= 0).all() and ((logits.sum(-1) - 1).abs() < 1e-3).all())


@property_check("runs", "finite")
def initial_loss(subject: Subject) -> str:
    """Before training every token is about equally likely: the loss is near ln V.

    Logits of standard deviation s put it about s²/2 above, whatever the vocabulary. Up
    to 6 nats pass, so s of 3.5: sound models start between 0 and 4 above. Does not hold
    for a trained model, nor for states that are no logits.
    """
    logits, ids = _untrained_logits(subject, subject.sentences(rows=16))
    loss, expected = loss_of(logits, ids).item(), math.log(subject.vocab)
    numbers = f"≈ {loss:.2f} nats where ln V = {expected:.2f}"
    if abs(loss - expected) < TOO_LOUD:
        return f"the first loss is {numbers}"
    called = [c.name for c in trace(subject, *subject.sentences()) if c.name]
    raise Fails(
        f"the first loss is {numbers}: the model starts with opinions",
        [Suspect(called[-1] if called else "", LOUD)],
    )


def _untrained_logits(subject: Subject, batch: Batch) -> tuple[Tensor, Tensor]:
    """Logits and the ids at their places; Unknown for a trained model, or of states."""
    if subject.trained:
        raise Unknown("the model is trained")
    logits = subject.logits(*batch)
    if logits.size(-1) != subject.vocab:
        raise Unknown("the output is no logits of the vocabulary")
    return logits, batch[-1]


# --- Gradients ------------------------------------------------------------------------


@property_check("runs", "finite")
def all_parameters_learn(subject: Subject) -> str:
    """Every parameter receives a gradient, and so does each row of a linear layer.

    Frozen ones (`requires_grad=False`) are left out, and those of the modules that
    `unused` names. A weight behind a matrix of zeros, as some models start with, gets
    its gradient from the second step on: whoever gets none is asked again after a
    little noise in all weights, and an expert whom no token chose with 64 sentences.
    Rows that get none are told if nothing reads their output either, unlike a ReLU that
    is only shut, and longer sentences need no more of them, as of a table of distances.
    """
    module = module_of(subject)
    if not any(p.requires_grad for p in module.parameters()):
        raise Unknown("all its parameters are frozen")
    idle = unreached(gradients_of(subject))
    for rows, noise in ((4, 0.02), (64, 0.02), (64, 0.3)):
        if idle:
            with shaken(module, noise):
                still = {*unreached(gradients_of(subject, rows=rows))}
            idle = [name for name in idle if name in still]
    if idle:
        more = f" and {len(idle) - 3} more" if len(idle) > 3 else ""
        whole = _idle_modules(module, idle)
        all_of = f": that is all of {named(whole[0])}" if whole else ""
        places = [*dict.fromkeys(whole or [n.rpartition(".")[0] for n in idle])][:2]
        both = f"{CUT}; or {UNREAD}"
        first = [Suspect(places[0], CUT), Suspect(places[0], UNREAD)]
        raise Fails(
            f"no gradient reaches {', '.join(idle[:3])}{more}{all_of}",
            [Suspect(p, both) for p in places] if len(places) > 1 else first,
        )
    _check_padding_rows(subject)
    _check_rows(subject)
    return "a gradient reaches every parameter"


def gradients_of(
    subject: Subject, *lengths: int, rows: int = 4
) -> dict[str, Tensor | None]:
    """The gradients of a loss in train mode, of all that should learn."""
    batch, module = subject.sentences(*lengths, rows=rows), subject.module
    with (
        in_mode(module, training=True),
        without_dropout(module),  # which may leave out whole layers
        copied(module),
        torch.enable_grad(),
    ):
        logits = subject.call(subject.model, *batch)
        if not logits.requires_grad:
            raise Fails("no gradient reaches anything", [Suspect("", CUT_OFF)])
        loss_of(logits, batch[-1]).backward()
        return {
            name: parameter.grad
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
            and not name.startswith(subject.unused or ("\0",))
        }


def unreached(gradients: dict[str, Tensor | None]) -> list[str]:
    """The names of those that are nothing but zeros."""
    return [n for n, found in gradients.items() if found is None or not found.any()]


def _idle_modules(module: nn.Module, idle: list[str]) -> list[str]:
    """The outermost modules none of whose parameters gets a gradient."""
    found: list[str] = []
    for name, part in module.named_modules():
        own = {f"{name}.{p}" for p, _ in part.named_parameters()}
        inside = any(name.startswith(f"{outer}.") for outer in found)
        if name and own and own <= {*idle} and not inside:
            found.append(name)
    return sorted(found, key=lambda name: name.count("."))


def _check_padding_rows(subject: Subject) -> None:
    """Raise Fails if words read a row that `padding_idx` keeps from learning."""
    batch = subject.sentences()
    longest = max(side.size(1) for side in batch)
    for call in trace(subject, *batch):
        part = subject.module.get_submodule(call.name)
        row = getattr(part, "padding_idx", None)
        if not isinstance(part, nn.Embedding) or row is None:
            continue
        # What is longer was filled up by the model, as Longformer does to its window.
        ids = [t for t in call.inputs if t.dim() and t.size(-1) <= longest]
        if any((t == row).any() for t in ids):
            raise Fails(
                f"row {row} of {call.name} is read without padding, and never learns: "
                "it is the `padding_idx`",
                [Suspect(call.name, PADDING_ROW)],
            )


def _check_rows(subject: Subject) -> None:
    """Raise Fails if an eighth or more of a linear layer's outputs is not read."""
    found = _dead_rows(subject, 9, 8)
    if not found:
        return
    with suppress(Fails):  # a model may take no longer ones
        longer = _dead_rows(subject, 19, 18)
        found = {n: r for n, r in found.items() if torch.equal(r, longer.get(n, ~r))}
    for name, rows in found.items():
        said = f"no gradient reaches {int(rows.sum())} of {len(rows)} rows of {name}"
        read = _are_read(subject, name, rows)
        if read is None:
            raise Unknown(f"{said}; it is not called as a module: are they read?")
        if not read:
            suspects = [Suspect(name, UNREAD_ROWS)]
            raise Fails(f"{said}.weight, and nothing reads what they make", suspects)


def _dead_rows(subject: Subject, *lengths: int) -> dict[str, Tensor]:
    """Which rows get no gradient, by the layer's name, if they are an eighth of all."""
    with shaken(subject.module, 0.02):
        gradients = gradients_of(subject, *lengths)
    dead = {
        name: ~gradients[f"{name}.weight"].any(1)
        for name, part in subject.module.named_modules()
        if isinstance(part, nn.Linear) and gradients.get(f"{name}.weight") is not None
        if 1 < part.out_features < subject.vocab
    }
    return {name: rows for name, rows in dead.items() if 8 * rows.sum() >= len(rows)}


def _are_read(subject: Subject, name: str, rows: Tensor) -> bool | None:
    """Whether the logits move with these outputs of a layer; None if not called."""
    batch, part = subject.sentences(), subject.module.get_submodule(name)
    if name not in {call.name for call in trace(subject, *batch)}:
        return None
    before = subject.logits(*batch)
    with disturbed(part, lambda output: output + 9 * torch.randn_like(output) * rows):
        return not torch.equal(before, subject.logits(*batch))


# --- By heart -------------------------------------------------------------------------


@property_check("runs", "finite")
def overfits_one_batch(subject: Subject) -> str:
    """A few sentences are learnt by heart; whatever cannot do that learns nothing.

    Four sentences that differ from the first word on: whoever ignores the source cannot
    know it, and stays above ln 4 / 8 = 0.17 nats a token. Four learning rates are
    tried, up to 300 steps each, without dropout. Whoever has not learnt them after 40
    seconds of processor time, a large model 20, is not judged; nor is a trained one, or
    one most of whose weights, or whose embedding or output matrix, are frozen.
    """
    module, batch = module_of(subject), subject.sentences()
    _untrained_logits(subject, batch)
    _mostly_free(subject, module)
    large = sum(p.numel() for p in module.parameters()) > LARGE
    patience = SHORT if large else PATIENCE
    best, end = math.inf, time.process_time() + patience
    # Small models like the first, large ones the third, faint logits the last.
    for rate in (3e-3, 1e-3, 1e-4, 1e-2):
        for step, loss in _losses(subject, batch, rate):
            best = min(best, loss)
            if loss < 0.1:
                return f"four sentences are learnt by heart in ≈ {step} steps"
            if time.process_time() > end:
                left = f"≈ {best:.2f} nats remain"
                raise Unknown(f"not learnt in {patience:.0f} seconds: {left}")
    raise Fails(
        f"four sentences cannot be learnt by heart: ≈ {best:.2f} nats remain",
        [Suspect("", UNTEACHABLE)],
    )


def _mostly_free(subject: Subject, module: nn.Module) -> None:
    """Raise Unknown if more than half of the weights are frozen, or the words' are."""
    frozen = {n: p for n, p in module.named_parameters() if not p.requires_grad}
    every = sum(p.numel() for p in module.parameters())
    if 2 * sum(p.numel() for p in frozen.values()) > every:
        raise Unknown("most of its weights are frozen")
    for name, parameter in frozen.items():
        if {subject.source_vocab, subject.target_vocab} & {*parameter.shape}:
            raise Unknown(f"{name} is frozen, as large as the vocabulary")


def _losses(subject: Subject, batch: Batch, rate: float) -> Iterator[tuple]:
    """Train copies with Adam, after a warm-up; every tenth step, and the loss there."""
    module, ids = subject.module, batch[-1]
    fused = subject.device.type in ("cpu", "cuda")  # the same steps in half the time
    with copied(module), without_dropout(module):
        optimizer = torch.optim.Adam(module.parameters(), lr=rate, fused=fused)
        for step in range(1, STEPS + 1):
            for group in optimizer.param_groups:
                group["lr"] = rate * min(1, step / 20)
            with in_mode(module, training=True), torch.enable_grad():
                loss = loss_of(subject.call(subject.model, *batch), ids)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(module.parameters(), 1.0)
                optimizer.step()
            if step % 10 == 0:
                yield step, loss_of(subject.logits(*batch), ids).item()
