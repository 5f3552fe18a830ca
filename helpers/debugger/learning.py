"""Does it learn: logits, the first loss, gradients, a batch by heart."""

import math
import time
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from helpers.debugger.hooks import trace
from helpers.debugger.measures import loss_of, written
from helpers.debugger.state import (
    in_mode,
    own_gradients,
    restored,
    without_dropout,
)
from helpers.debugger.subject import Fails, Subject, Suspect, Unknown, named
from helpers.debugger.verdict import module_of, property_check

TOO_LOUD = 6.0  # nats
UNTEACHABLE = (
    "a softmax before the loss, a residual that is lost, a part that gets no gradient, "
    "or a source that is not read"
)
PATIENCE = 40.0  # seconds of processor time


@property_check("runs", "finite")
def gives_logits(subject: Subject) -> str:
    """What comes out are logits, not probabilities that sum to one.

    A cross-entropy takes a softmax of its own; of a softmax it makes a loss that cannot
    fall below ln V - 1. Log-probabilities pass: a second log-softmax leaves them alone.
    """
    batch = subject.sentences()
    logits = subject.logits(*batch)
    if _sums_to_one(logits):
        makers = [
            call.name
            for call in trace(subject, *batch)
            if any(t.shape == logits.shape and _sums_to_one(t) for t in call.outputs)
        ]
        twice = "its softmax: the loss takes another, so give it logits"
        suspects = [Suspect(name, twice) for name in dict.fromkeys([*makers, ""])]
        raise Fails(
            "at every position the output is positive and sums to one: these are "
            "probabilities, not logits",
            suspects=suspects[:2],
        )
    return "the output is no softmax"


def _sums_to_one(logits: Tensor) -> bool:
    if not logits.is_floating_point() or logits.size(-1) < 2:
        return False
    one = torch.ones((), dtype=logits.dtype, device=logits.device)
    return bool((logits >= 0).all() and torch.allclose(logits.sum(-1), one, atol=1e-3))


@property_check("runs", "finite")
def initial_loss(subject: Subject) -> str:
    """Before training every token is about equally likely: the loss is near ln V.

    Logits of standard deviation s put it about s²/2 above, whatever the vocabulary. Up
    to 6 nats pass, so s of 3.5: sound models start between 0 and 4 above. Does not hold
    for a trained model, nor for states that are no logits.
    """
    if subject.trained:
        raise Unknown("the model is trained")
    batch = subject.sentences(rows=16)
    logits = subject.logits(*batch)
    if logits.size(-1) != subject.vocab:
        raise Unknown("the output is no logits of the vocabulary")
    loss = loss_of(logits, written(subject, batch)).item()
    expected = math.log(subject.vocab)
    numbers = f"≈ {loss:.2f} nats where ln V = {expected:.2f}"
    if not abs(loss - expected) < TOO_LOUD:
        loud = "its weights start too large: an embedding's N(0, 1) is meant for inputs"
        raise Fails(
            f"the first loss is {numbers}: the model starts with opinions",
            suspects=[Suspect(_last_to_finish(subject, batch), loud)],
        )
    return f"the first loss is {numbers}"


def _last_to_finish(subject: Subject, batch: tuple) -> str:
    """The module that makes the logits."""
    names = [call.name for call in trace(subject, *batch) if call.name]
    return names[-1] if names else ""


@property_check("runs", "finite")
def all_parameters_learn(subject: Subject) -> str:
    """Every parameter receives a gradient.

    Frozen ones (`requires_grad=False`) are left out, and those of the modules that
    `unused` names, as a pooler that the states do not go through.
    """
    idle = _idle(subject, module_of(subject))
    if idle:
        more = f" and {len(idle) - 3} more" if len(idle) > 3 else ""
        whole = _idle_modules(subject.module, idle)
        raise Fails(
            f"no gradient reaches {', '.join(idle[:3])}{more}"
            + (f": that is all of {named(whole[0])}" if whole else ""),
            suspects=_of_idleness(whole or [n.rpartition(".")[0] for n in idle]),
        )
    return "a gradient reaches every parameter"


def _idle(subject: Subject, module: nn.Module) -> list[str]:
    """The parameters that a loss in train mode does not reach."""
    batch = subject.sentences()
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
        return [
            name
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
            and not name.startswith(subject.unused or ("\0",))
            and (parameter.grad is None or not parameter.grad.any())
        ]


def _of_idleness(places: list[str]) -> list[Suspect]:
    """Why a module gets no gradient."""
    cut = "no gradient comes back: a `detach()` or `no_grad` behind it, or frozen"
    unread = "what it makes (a memory, positions, a value) is not read"
    first, *rest = dict.fromkeys(places)
    if rest:
        return [
            Suspect(first, f"{cut}; {unread}"),
            Suspect(rest[0], f"{unread}; {cut}"),
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


@property_check("runs", "finite")
def overfits_one_batch(subject: Subject) -> str:
    """A few sentences are learnt by heart; whatever cannot do that learns nothing.

    Four sentences that differ from the first word on: whoever ignores the source cannot
    know it, and stays above ln 4 / 8 = 0.17 nats a token. Three learning rates are
    tried, up to 300 steps each, without dropout. A large model is given 40 seconds of
    processor time, and is not judged if that is too little. Does not hold for a trained
    model, nor for states.
    """
    if subject.trained:
        raise Unknown("the model is trained")
    module = module_of(subject)
    batch = subject.sentences()
    if subject.logits(*batch).size(-1) != subject.vocab:
        raise Unknown("the output is no logits of the vocabulary")
    best, end = math.inf, time.process_time() + PATIENCE
    for rate in (3e-3, 1e-3, 1e-4):  # small models like the first, large ones the last
        for step, loss in _losses(subject, module, batch, rate):
            best = min(best, loss)
            if loss < 0.1:
                return f"four sentences are learnt by heart in ≈ {step} steps"
            if time.process_time() > end:
                left = f"≈ {best:.2f} nats remain"
                raise Unknown(f"not learnt in {PATIENCE:.0f} seconds: {left}")
    raise Fails(
        f"four sentences cannot be learnt by heart: ≈ {best:.2f} nats remain",
        suspects=[Suspect("", UNTEACHABLE)],
    )


def _losses(
    subject: Subject, module: nn.Module, batch: tuple, rate: float
) -> Iterator[tuple[int, float]]:
    """Every tenth step and the loss after it; then the weights are as before."""
    with restored(module), without_dropout(module):
        for step in _training_steps(subject, batch, rate):
            loss = loss_of(subject.logits(*batch), written(subject, batch))
            yield step, loss.item()


def _training_steps(
    subject: Subject, batch: tuple, rate: float, steps: int = 300
) -> Iterator[int]:
    """Train with Adam at this rate, after a warm-up; pause every tenth step."""
    fused = subject.device.type in ("cpu", "cuda")  # the same steps in half the time
    optimizer = torch.optim.Adam(subject.module.parameters(), lr=rate, fused=fused)
    for step in range(1, steps + 1):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, step / 20)
        with in_mode(subject.module, training=True), torch.enable_grad():
            loss = loss_of(subject.call(subject.model, *batch), written(subject, batch))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(subject.module.parameters(), 1.0)
            optimizer.step()
        if step % 10 == 0:
            yield step
