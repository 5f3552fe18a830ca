"""Loss, learning rates and the training loop (lesson 09)."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD
from helpers.averaging import WeightAverage
from helpers.batching import Batch, IdPair, bucketed_batches, weighted_parts
from helpers.decoding import inference
from helpers.runtime import (
    keep_freed_memory,
    progress_bar,
    random_state,
    set_random_state,
)
from helpers.scale.precision import Precision
from helpers.scale.processes import OneProcess, Processes
from helpers.settings import TrainingConfig
from helpers.transformer import Transformer


def fit(
    model: nn.Module, make_batch: Callable, loss: Callable, *, steps: int, rate: float
) -> list[float]:
    """Train with Adam on so many batches; the loss of each step.

    make_batch() gives inputs and answers; the loss is loss(model(*inputs), answers).
    """
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        *inputs, answers = make_batch()
        error = loss(model(*inputs), answers)
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
        losses.append(error.item())
    return losses


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


def train(
    model: Transformer,
    batches: Iterable[Batch],
    rate: Callable[[int], float],
    watch: Callable[[int], None] | None = None,
    *,
    label_smoothing: float = 0.0,
) -> list[float]:
    """Take one step on each batch, and give its loss, in nats per token.

    Step `step`, counted from 1, has the learning rate rate(step); then watch(step) is
    called. Adam is the paper's (section 5.3); a gradient is clipped to norm 1.
    """
    device = next(model.parameters()).device
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    losses = []
    for step, batch in enumerate(batches, start=1):
        model.train()
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        loss, _ = token_loss(model, batch.to(device), label_smoothing=label_smoothing)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if watch is not None:
            watch(step)
    return losses


class TokenLoss(nn.Module):
    """`token_loss` as a module: the form in which compile and DDP take a whole step."""

    def __init__(self, model: Transformer, label_smoothing: float):
        super().__init__()
        self.model, self.label_smoothing = model, label_smoothing

    def forward(self, batch: Batch) -> tuple[Tensor, int]:
        """The mean loss, a scalar, and of how many tokens."""
        return token_loss(self.model, batch, label_smoothing=self.label_smoothing)


def evaluate_loss(
    model: Transformer, pairs: Sequence[IdPair], *, tokens_per_batch: int = 4096
) -> float:
    """Mean cross-entropy in nats per target token over all pairs, without smoothing."""
    total, tokens = loss_and_tokens(model, pairs, tokens_per_batch=tokens_per_batch)
    return total / tokens


def loss_and_tokens(
    model: Transformer, pairs: Sequence[IdPair], *, tokens_per_batch: int = 4096
) -> tuple[float, int]:
    """The summed cross-entropy of all target tokens, and how many they are."""
    total, tokens = 0.0, 0
    device = next(model.parameters()).device
    with inference(model):
        for batch in bucketed_batches(pairs, tokens_per_batch=tokens_per_batch):
            loss, count = token_loss(model, batch.to(device))
            total, tokens = total + loss.item() * count, tokens + count
    return total, tokens


def noam_rate(step: int, *, d_model: int, warmup_steps: int = 4000) -> float:
    """The paper's learning rate at a step counted from 1.

    d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5): it rises in a straight line
    for warmup_steps, then falls as 1/√step. Vaswani et al. 2017, section 5.3.
    ValueError for a step below 1.
    """
    if step < 1:
        raise ValueError(f"steps are counted from 1: {step}")
    return d_model**-0.5 * min(step**-0.5, step * warmup_steps**-1.5)


def cosine_rate(progress: float, *, peak: float, warmup: float) -> float:
    """A straight rise to `peak` over the share `warmup` of a run, then half a cosine.

    progress runs from 0 to 1: the length of the run must be known. It ends at rate 0.
    Loshchilov and Hutter 2017, section 3.
    ValueError unless warmup lies in [0, 1).
    """
    if not 0 <= warmup < 1:
        raise ValueError(f"warmup must lie in [0, 1): {warmup}")
    if progress < warmup:
        return peak * progress / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))


@dataclass(frozen=True)
class EpochReport:
    """Where a run stands after an epoch; losses in nats per target token."""

    epoch: int
    step: int
    seconds: float
    train_loss: float
    validation_loss: float


class Trainer:
    """AdamW, a schedule, clipped gradients; can stop and go on at any step.

    `fit()` trains until the budget is spent; `for report in trainer.epochs()` also
    gives an EpochReport after every epoch. Setting `stop_requested` ends either after
    the current step; called again, they go on from there.

    schedule(step, progress) gives the rate of a step, counted from 1, when the share
    `progress` of the budget is spent; without one it is the configuration's cosine.
    precision and processes say how a step is computed (lesson 14).
    ValueError without data.
    """

    def __init__(
        self,
        model: Transformer,
        train: Sequence[IdPair],
        validation: Sequence[IdPair],
        config: TrainingConfig,
        *,
        schedule: Callable[[int, float], float] | None = None,
        precision: Precision | None = None,
        processes: OneProcess | Processes | None = None,
    ):
        if not train or not validation:
            counts = f"{len(train)} training pairs, {len(validation)} validation pairs"
            raise ValueError(f"nothing to train on: {counts}")
        self.model, self.config = model, config
        self.train, self.validation = train, validation
        self.device = next(model.parameters()).device
        self.schedule = schedule or self.cosine
        self.precision = precision or Precision("fp32", self.device)
        self.processes = processes or OneProcess()
        self.loss = self.processes.wrap(TokenLoss(model, config.label_smoothing))
        # Betas and eps as in section 5.3; the decay is decoupled (Loshchilov 2019).
        options = {"weight_decay": config.weight_decay, "fused": True}
        self.optimizer = torch.optim.AdamW(
            model.parameters(), betas=(0.9, 0.98), eps=1e-9, **options
        )
        if self.processes.count > 1:  # or dropout would hide the same places in all
            torch.manual_seed(config.seed + self.processes.rank)
        self.epoch = self.position = self.step = 0  # position: batches into the epoch
        self.seconds = 0.0
        self.average = WeightAverage()
        self.reports: list[EpochReport] = []
        self.stop_requested = self.stopping = False
        self.count_from(0.0, 0.0)

    def cosine(self, step: int, progress: float) -> float:
        """The configuration's schedule."""
        peak, warmup = self.config.peak_rate, self.config.warmup
        return cosine_rate(progress, peak=peak, warmup=warmup)

    @property
    def finished(self) -> bool:
        """Whether the budget is spent."""
        if self.config.epochs is not None:
            return self.epoch >= self.config.epochs
        return self.seconds >= 60 * self.config.minutes

    def fit(self) -> list[EpochReport]:
        """Train until the budget is spent or a stop is requested; gives all reports."""
        for _ in self.epochs():
            pass
        return self.reports

    def epochs(self) -> Iterator[EpochReport]:
        """Train as `fit` does, and give the report of each epoch when it ends."""
        started = time.perf_counter() - self.seconds
        if self.device.type == "cpu":
            keep_freed_memory()
        while not self.finished and not self.stopping:
            batches = self.epoch_batches()
            self.model.train()
            for batch in progress_bar(batches, self.position, self.epoch):
                self.train_step(batch.to(self.device), self.progress(len(batches)))
                self.position += 1
                if self.step % self.processes.agree_every == 0:
                    self.look_up(started)
                if self.stopping or self.finished:
                    break
            if self.position == len(batches) or self.finished:
                yield self.end_epoch(started)
                self.look_up(started)
        self.stop_requested = self.stopping = False

    def train_step(self, batch: Batch, progress: float) -> None:
        """Set the rate, take the gradient of the batch's loss, clip it, and step."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule(self.step + 1, progress)
        self.optimizer.zero_grad()
        tokens = batch.n_tokens / self.processes.count
        for part, weight in self.parts(batch):
            with self.precision.autocast():
                loss = self.loss(part)[0] * weight
            self.precision.backward(loss)
            self.loss_sum += loss.detach().double() * tokens
        self.precision.unscale(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.precision.step(self.optimizer)
        self.step += 1
        self.loss_tokens += tokens
        every, since = self.config.average_every, self.config.average_from
        if progress >= since and self.step % every == 0:
            self.average.add(self.model.state_dict())

    def parts(self, batch: Batch) -> Iterator[tuple[Batch, float]]:
        """This process's parts of the batch, and the weight of each one's loss."""
        rank, count = self.processes.rank, self.processes.count
        return weighted_parts(batch, self.config.accumulate, rank=rank, processes=count)

    def look_up(self, started: float) -> None:
        """Read the clock, and see whether to stop, which all processes agree on."""
        self.seconds, self.stopping = self.processes.agree(
            time.perf_counter() - started, self.stop_requested
        )

    def epoch_batches(self) -> list[Batch]:
        """All batches of the current epoch, in an order that its number decides."""
        generator = torch.Generator().manual_seed(1_000 * self.config.seed + self.epoch)
        options = {"tokens_per_batch": self.config.tokens_per_batch}
        options |= {"generator": generator, "pool": self.config.pool}
        return list(bucketed_batches(self.train, **options))

    def progress(self, batches: int) -> float:
        """The share of the budget that is spent, from 0 to 1."""
        if self.config.epochs is not None:
            return (self.epoch + self.position / batches) / self.config.epochs
        return min(1.0, self.seconds / (60 * self.config.minutes))

    def end_epoch(self, started: float) -> EpochReport:
        """Report on the epoch that ends here, and begin the next."""
        own = self.validation[self.processes.rank :: self.processes.count]
        sums = loss_and_tokens(self.model, own) if own else (0.0, 0)
        validation_loss, validation_tokens = self.processes.sums(*sums)
        loss, tokens = self.processes.sums(self.loss_sum.item(), self.loss_tokens)
        self.look_up(started)
        report = EpochReport(
            epoch=self.epoch + 1,
            step=self.step,
            seconds=self.seconds,
            train_loss=loss / tokens,
            validation_loss=validation_loss / validation_tokens,
        )
        self.reports.append(report)
        self.epoch, self.position = self.epoch + 1, 0
        self.count_from(0.0, 0.0)
        return report

    def count_from(self, loss_sum: float, tokens: float) -> None:
        """Set the sums of the epoch; the loss's is on the device: no step waits."""
        self.loss_sum = torch.tensor(loss_sum, dtype=torch.float64, device=self.device)
        self.loss_tokens = tokens

    def averaged_weights(self) -> dict[str, Tensor]:
        """The mean of the weights so far, or the last ones where none entered it."""
        return self.average.weights() if self.average.count else self.model.state_dict()

    def state_dict(self) -> dict:
        """All that the next step depends on; all processes must call it."""
        state = {name: getattr(self, name) for name in _COUNTERS}
        loss, tokens = self.processes.sums(self.loss_sum.item(), self.loss_tokens)
        state["loss_sum"], state["loss_tokens"] = loss, tokens
        state["reports"] = [asdict(report) for report in self.reports]
        for name in _STATEFUL:
            state[name] = getattr(self, name).state_dict()
        state["random"] = self.processes.gather(random_state(self.device))
        return state

    def load_state_dict(self, state: dict) -> None:
        """Go on where `state` was taken, by a trainer of the same configuration."""
        for name in _COUNTERS:
            setattr(self, name, state[name])
        for name in _STATEFUL:
            getattr(self, name).load_state_dict(state[name])
        self.reports = [EpochReport(**report) for report in state["reports"]]
        if self.processes.rank == 0:  # the sums of all go on in one
            self.count_from(state["loss_sum"], state["loss_tokens"])
        set_random_state(state["random"][self.processes.rank], self.device)


_COUNTERS = ("epoch", "position", "step", "seconds")
_STATEFUL = ("model", "optimizer", "precision", "average")
