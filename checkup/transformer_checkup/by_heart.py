"""Does it learn a batch by heart?"""

import math
import time
from collections.abc import Iterator

import torch
from torch import nn

from transformer_checkup.measures import loss_of, written
from transformer_checkup.state import in_mode, restored, without_dropout
from transformer_checkup.subject import Fails, Subject, Suspect, Unknown
from transformer_checkup.verdict import module_of, property_check

UNTEACHABLE = (
    "a softmax before the loss, a residual that is lost, a part that gets no gradient, "
    "or a source that is not read"
)
PATIENCE, SHORT = 40.0, 20.0  # seconds of processor time; for a large model
LARGE = 5_000_000  # parameters


@property_check("runs", "finite")
def overfits_one_batch(subject: Subject) -> str:
    """A few sentences are learnt by heart; whatever cannot do that learns nothing.

    Four sentences that differ from the first word on: whoever ignores the source cannot
    know it, and stays above ln 4 / 8 = 0.17 nats a token. Four learning rates are
    tried, up to 300 steps each, without dropout. A model is given 40 seconds of
    processor time, one of more than five million parameters 20, and is not judged if
    that is too little; nor is one most of whose weights are frozen, or whose embedding
    or output matrix is, which slows the rest down. Does not hold for a trained model,
    nor for states.
    """
    if subject.trained:
        raise Unknown("the model is trained")
    module = module_of(subject)
    _mostly_free(subject, module)
    batch = subject.sentences()
    if subject.logits(*batch).size(-1) != subject.vocab:
        raise Unknown("the output is no logits of the vocabulary")
    large = sum(p.numel() for p in module.parameters()) > LARGE
    patience = SHORT if large else PATIENCE
    best, end = math.inf, time.process_time() + patience
    # Small models like the first, large ones the third, faint logits the last.
    for rate in (3e-3, 1e-3, 1e-4, 1e-2):
        for step, loss in _losses(subject, module, batch, rate):
            best = min(best, loss)
            if loss < 0.1:
                return f"four sentences are learnt by heart in ≈ {step} steps"
            if time.process_time() > end:
                left = f"≈ {best:.2f} nats remain"
                raise Unknown(f"not learnt in {patience:.0f} seconds: {left}")
    raise Fails(
        f"four sentences cannot be learnt by heart: ≈ {best:.2f} nats remain",
        suspects=[Suspect("", UNTEACHABLE)],
    )


def _mostly_free(subject: Subject, module: nn.Module) -> None:
    """Raise Unknown if more than half of the weights are frozen, or the words' are."""
    parameters = [*module.parameters()]
    learning = sum(p.numel() for p in parameters if p.requires_grad)
    if 2 * learning < sum(p.numel() for p in parameters):
        raise Unknown("most of its weights are frozen")
    sizes = {subject.source_vocab, subject.target_vocab}
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad and sizes & {*parameter.shape}:
            raise Unknown(f"{name} is frozen, as large as the vocabulary")


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
