"""Loss, learning rates and the training loop (lesson 09)."""

import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from helpers import PAD
from helpers.batching import Batch, IdPair, bucketed_batches
from helpers.decoding import inference
from helpers.runtime import keep_freed_memory
from helpers.transformer import Transformer


def token_loss(
    model: Transformer, batch: Batch, *, label_smoothing: float = 0.0
) -> tuple[Tensor, int]:
    """Mean cross-entropy in nats over the real tokens, and how many they are.

    Only the states of real tokens are projected to the vocabulary: padding costs
    nothing there and cannot enter the mean. Vaswani et al. 2017, sections 3.4, 5.4.
    """
    real = batch.labels != PAD
    memory = model.encode(batch.source)
    states = model.decode(batch.decoder_input, memory, batch.source)
    logits = model.project(states[real])  # (real tokens, target_vocab)
    loss = F.cross_entropy(logits, batch.labels[real], label_smoothing=label_smoothing)
    return loss, logits.size(0)


def evaluate_loss(
    model: Transformer, pairs: Sequence[IdPair], *, tokens_per_batch: int = 4096
) -> float:
    """Mean cross-entropy in nats per target token over all pairs, without smoothing."""
    total, tokens = 0.0, 0
    device = next(model.parameters()).device
    with inference(model):
        for batch in bucketed_batches(pairs, tokens_per_batch=tokens_per_batch):
            loss, count = token_loss(model, batch.to(device))
            total, tokens = total + loss.item() * count, tokens + count
    return total / tokens


def noam_rate(step: int, *, d_model: int, warmup_steps: int = 4000) -> float:
    """The paper's learning rate at a step counted from 1.

    d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5): it rises in a straight line
    for warmup_steps, then falls as 1/√step. Vaswani et al. 2017, section 5.3.
    """
    if step < 1:
        raise ValueError(f"steps are counted from 1: {step}")
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def cosine_rate(progress: float, *, peak: float, warmup: float) -> float:
    """A straight rise to `peak` over the share `warmup` of a run, then half a cosine.

    progress runs from 0 to 1. A run of known length ends at rate 0, which serves a
    short run better than 1/√step. Loshchilov and Hutter 2017, section 3.
    """
    if progress < warmup:
        return peak * progress / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))


@dataclass(frozen=True)
class TrainingConfig:
    """How to train: exactly one of epochs and minutes is the budget.

    tokens_per_batch counts target tokens, warmup is a share of the budget; pool is that
    of `bucketed_batches`.
    """

    epochs: int | None = None
    minutes: float | None = None
    tokens_per_batch: int = 1024
    pool: int = 100
    peak_rate: float = 3e-3
    warmup: float = 0.1
    label_smoothing: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    seed: int = 0

    def __post_init__(self):
        if (self.epochs is None) == (self.minutes is None):
            raise ValueError(
                "give either epochs or minutes: "
                f"epochs={self.epochs}, minutes={self.minutes}"
            )
        if (self.epochs or self.minutes) <= 0:
            raise ValueError(f"a run of {self.epochs or self.minutes} is no run")


@dataclass(frozen=True)
class EpochReport:
    """Where a run stands after an epoch; losses in nats per target token."""

    epoch: int
    step: int
    seconds: float
    train_loss: float
    validation_loss: float


def average_weights(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """One state_dict whose every tensor is the mean of that tensor in `states`.

    The sums are taken in float64; whole numbers, which have no mean, come from the last
    state. The paper translates with the mean of its last checkpoints: Vaswani et al.
    2017, section 6.1. ValueError for no state, or for states of unlike models.
    """
    if not states:
        raise ValueError("no weights to average: the list of states is empty")
    shapes = [{name: x.shape for name, x in state.items()} for state in states]
    for other in shapes[1:]:
        if unlike := sorted(name for name, _ in shapes[0].items() ^ other.items()):
            raise ValueError(f"states of unlike models: they differ in {unlike[0]!r}")
    average = {}
    for name, last in states[-1].items():
        if last.is_floating_point():
            total = sum(state[name].double() for state in states)
            average[name] = (total / len(states)).to(last.dtype)
        else:
            average[name] = last.clone()
    return average


class Trainer:
    """Adam, a warm-up, a cosine, clipped gradients; can stop and go on at any step.

    `for report in trainer.run()` trains and gives an EpochReport after every epoch.
    Setting `stop_requested` ends the run after the current step. `state_dict` holds all
    that the next step depends on, so a run that was stopped and loaded again ends with
    the same numbers (if its budget is in minutes, it has the minutes left).
    """

    saves = True  # whether it is this process that writes the run's files

    def __init__(
        self,
        model: Transformer,
        train: Sequence[IdPair],
        validation: Sequence[IdPair],
        config: TrainingConfig,
    ):
        if not train or not validation:
            raise ValueError(
                f"nothing to train on: {len(train)} training pairs, "
                f"{len(validation)} validation pairs"
            )
        self.model, self.config = model, config
        self.train, self.validation = train, validation
        self.device = next(model.parameters()).device
        if self.device.type == "cpu":
            keep_freed_memory()
        # Betas and eps as in section 5.3; the decay is decoupled (Loshchilov 2019).
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            betas=(0.9, 0.98),
            eps=1e-9,
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.epoch = self.position = self.step = 0  # position: batches into the epoch
        self.seconds = 0.0
        self.loss_sum, self.loss_tokens = 0.0, 0  # of the current epoch
        self.reports: list[EpochReport] = []
        self.stop_requested = False

    @property
    def finished(self) -> bool:
        """Whether the budget is spent."""
        if self.config.epochs is not None:
            return self.epoch >= self.config.epochs
        return self.seconds >= 60 * self.config.minutes

    def run(self) -> Iterator[EpochReport]:
        """Train until the budget is spent or stop_requested is set."""
        started = time.perf_counter() - self.seconds
        while not self.finished and not self.stop_requested:
            batches = self.epoch_batches()
            self.model.train()
            for batch in self.remaining(batches):
                self.train_step(batch.to(self.device), self.progress(len(batches)))
                self.position += 1
                self.look_at_clock(started)
                if self.stop_requested or self.finished:
                    break
            if self.position == len(batches) or self.finished:
                yield self.end_epoch(started)

    def look_at_clock(self, started: float) -> None:
        """Bring `seconds` up to date, after every step and every epoch."""
        self.seconds = time.perf_counter() - started

    def epoch_batches(self) -> list[Batch]:
        """All batches of the current epoch, in an order that its number decides."""
        generator = torch.Generator().manual_seed(1_000 * self.config.seed + self.epoch)
        return list(
            bucketed_batches(
                self.train,
                tokens_per_batch=self.config.tokens_per_batch,
                generator=generator,
                pool=self.config.pool,
            )
        )

    def remaining(self, batches: list[Batch]) -> Iterable[Batch]:
        """The batches from the current position on, under a progress bar."""
        return tqdm(
            batches[self.position :],
            desc=f"epoch {self.epoch + 1}",
            initial=self.position,
            total=len(batches),
            unit="step",
            leave=False,
            # None: no bar in a file. Its notebook bar does not read tqdm's variable.
            disable=bool(os.environ.get("TQDM_DISABLE")) or None,
        )

    def progress(self, batches: int) -> float:
        """The share of the budget that is spent, from 0 to 1."""
        if self.config.epochs is not None:
            return (self.epoch + self.position / batches) / self.config.epochs
        return min(1.0, self.seconds / (60 * self.config.minutes))

    def train_step(self, batch: Batch, progress: float) -> None:
        """Set the rate, take the gradient of the loss, and let Adam step."""
        config = self.config
        rate = cosine_rate(progress, peak=config.peak_rate, warmup=config.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        loss, tokens = self.loss(batch)
        self.optimizer.zero_grad()
        self.descend(loss)
        self.step += 1
        self.loss_sum += loss.item() * tokens
        self.loss_tokens += tokens

    def loss(self, batch: Batch) -> tuple[Tensor, float]:
        """The loss whose gradient is taken, and how many tokens it is the mean of."""
        smoothing = self.config.label_smoothing
        return token_loss(self.model, batch, label_smoothing=smoothing)

    def descend(self, loss: Tensor) -> None:
        """Take the gradient of the loss, clip it, and let Adam step."""
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.optimizer.step()

    def validation_loss(self) -> float:
        """Mean cross-entropy in nats per token of the validation pairs."""
        return evaluate_loss(self.model, self.validation)

    def end_epoch(self, started: float) -> EpochReport:
        """Report on the epoch that ends here, and begin the next."""
        validation_loss = self.validation_loss()
        self.look_at_clock(started)
        report = EpochReport(
            epoch=self.epoch + 1,
            step=self.step,
            seconds=self.seconds,
            train_loss=self.loss_sum / self.loss_tokens,
            validation_loss=validation_loss,
        )
        self.reports.append(report)
        self.epoch, self.position = self.epoch + 1, 0
        self.loss_sum, self.loss_tokens = 0.0, 0
        return report

    def state_dict(self) -> dict:
        """Everything that the next step depends on, for `torch.save`."""
        state = {name: getattr(self, name) for name in _COUNTERS}
        state["reports"] = [asdict(report) for report in self.reports]
        state["model"] = self.model.state_dict()
        state["optimizer"] = self.optimizer.state_dict()
        state["random"] = torch.get_rng_state()  # dropout's
        if self.device.type == "cuda":
            state["random_cuda"] = torch.cuda.get_rng_state(self.device)
        return state

    def load_state_dict(self, state: dict) -> None:
        """Go on where `state` was taken, by a trainer of the same configuration."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.reports = [EpochReport(**report) for report in state["reports"]]
        for name in _COUNTERS:
            setattr(self, name, state[name])
        torch.set_rng_state(state["random"])
        if self.device.type == "cuda" and "random_cuda" in state:
            torch.cuda.set_rng_state(state["random_cuda"], self.device)


_COUNTERS = ("epoch", "position", "step", "seconds", "loss_sum", "loss_tokens")
