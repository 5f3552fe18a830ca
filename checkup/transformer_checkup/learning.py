"""What training starts from: logits, and a loss that knows nothing yet."""

import math

import torch
from torch import Tensor

from transformer_checkup.hooks import trace
from transformer_checkup.measures import loss_of, written
from transformer_checkup.subject import Fails, Subject, Suspect, Unknown
from transformer_checkup.verdict import property_check

TOO_LOUD = 6.0  # nats


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
