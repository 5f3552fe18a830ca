"""Loss, learning rates and the training loop (lesson 09)."""

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from helpers import PAD
from helpers.batching import Batch, IdPair, bucketed_batches, share
from helpers.decoding import inference
from helpers.runtime import faster_on_cpu
from helpers.scale.precision import Precision
from helpers.scale.processes import OneProcess, Processes
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

    progress runs from 0 to 1. A run of known length ends at rate 0, which serves a
    short run better than 1/√step. Loshchilov and Hutter 2017, section 3.
    ValueError unless warmup lies in [0, 1).
    """
    if not 0 <= warmup < 1:
        raise ValueError(f"warmup must lie in [0, 1): {warmup}")
    if progress < warmup:
        return peak * progress / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (progress - warmup) / (1 - warmup)))


@dataclass(frozen=True)
class TrainingConfig:
    """How to train: exactly one of epochs and minutes is the budget.

    tokens_per_batch counts target tokens; a batch goes through the model in
    `accumulate` parts, whose gradients are summed. warmup is a share of the budget;
    pool is that of `bucketed_batches`. From the share average_from of the budget on,
    every average_every steps, the weights enter a running mean.
    ValueError for a value that makes no sense, by its name.
    """

    epochs: int | None = None
    minutes: float | None = None
    tokens_per_batch: int = 1024
    accumulate: int = 1
    pool: int = 100
    peak_rate: float = 3e-3
    warmup: float = 0.1
    label_smoothing: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    average_from: float = 1.0
    average_every: int = 50
    seed: int = 0

    def __post_init__(self):
        if (self.epochs is None) == (self.minutes is None):
            raise ValueError(
                "give either epochs or minutes: "
                f"epochs={self.epochs}, minutes={self.minutes}"
            )
        counts = ("epochs", "tokens_per_batch", "accumulate", "pool", "average_every")
        for name in counts:
            value = getattr(self, name)
            if value is not None and (value % 1 or value < 1):
                raise ValueError(f"{name} must be a whole number from 1 on: {value}")
        for name in ("minutes", "peak_rate", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name} must be positive and finite: {value}")
        for name in ("warmup", "label_smoothing", "weight_decay"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise ValueError(f"{name} must lie in [0, 1): {value}")
        if not 0 <= self.average_from <= 1:
            raise ValueError(f"average_from must lie in [0, 1]: {self.average_from}")


@dataclass(frozen=True)
class EpochReport:
    """Where a run stands after an epoch; losses in nats per target token."""

    epoch: int
    step: int
    seconds: float
    train_loss: float
    validation_loss: float


class WeightAverage:
    """The running mean of a model's weights.

    The sums are taken in float64; whole numbers, which have no mean, come from the last
    state. The paper translates with the mean of its last checkpoints: Vaswani et al.
    2017, section 6.1.
    """

    def __init__(self):
        self.count, self.sums, self.dtypes = 0, {}, {}

    def add(self, weights: dict[str, Tensor]) -> None:
        """Let a state_dict enter. ValueError if it is that of an unlike model."""
        shapes = {name: x.shape for name, x in weights.items()}
        known = {name: x.shape for name, x in self.sums.items()}
        unlike = sorted(name for name, _ in shapes.items() ^ known.items())
        if self.count and unlike:
            raise ValueError(f"states of unlike models: they differ in {unlike[0]!r}")
        for name, x in weights.items():
            self.dtypes[name] = x.dtype
            if x.is_floating_point():
                total = self.sums.get(name, torch.zeros(())).to(x.device)
                self.sums[name] = x.double() + total
            else:
                self.sums[name] = x.clone()
        self.count += 1

    def weights(self) -> dict[str, Tensor]:
        """The mean, as a state_dict. ValueError if nothing has entered."""
        if not self.count:
            raise ValueError("no weights to average: no state has entered")
        mean = {}
        for name, dtype in self.dtypes.items():
            total = self.sums[name]
            whole = not dtype.is_floating_point
            mean[name] = total.clone() if whole else (total / self.count).to(dtype)
        return mean

    def state_dict(self) -> dict:
        """What `load_state_dict` needs to go on."""
        return {"count": self.count, "sums": {**self.sums}, "dtypes": {**self.dtypes}}

    def load_state_dict(self, state: dict) -> None:
        """Go on where `state` was taken."""
        self.count = state["count"]
        self.sums, self.dtypes = {**state["sums"]}, {**state["dtypes"]}


def average_weights(states: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """One state_dict whose every tensor is the mean of that tensor in `states`.

    ValueError for no state, or for states of unlike models.
    """
    average = WeightAverage()
    for state in states:
        average.add(state)
    return average.weights()


class Trainer:
    """Adam, a schedule, clipped gradients; can stop and go on at any step.

    `fit()` trains until the budget is spent. `for report in trainer.epochs()` does the
    same, and gives an EpochReport after every epoch. Setting `stop_requested` ends
    either after the current step; called again, they go on from there. `state_dict`
    holds all that the next step depends on, so a run that was stopped and loaded again
    ends with the same numbers (if its budget is in minutes, it has the minutes left).

    schedule(step, progress) gives the learning rate of a step, counted from 1, when the
    share `progress` of the budget is spent; without one it is the configuration's
    cosine. precision, processes (lesson 14) and compiled say how a step is computed.
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
        compiled: bool = False,
    ):
        if not train or not validation:
            raise ValueError(
                f"nothing to train on: {len(train)} training pairs, "
                f"{len(validation)} validation pairs"
            )
        self.model, self.config = model, config
        self.train, self.validation = train, validation
        self.device = next(model.parameters()).device
        self.schedule = schedule or self.cosine
        self.precision = precision or Precision("fp32", self.device)
        self.processes = processes or OneProcess()
        loss = TokenLoss(model, config.label_smoothing)
        if compiled:  # batches differ in length: one program for all shapes
            loss.compile(dynamic=True)
        self.loss = self.processes.wrap(loss)
        # Betas and eps as in section 5.3; the decay is decoupled (Loshchilov 2019).
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            betas=(0.9, 0.98),
            eps=1e-9,
            weight_decay=config.weight_decay,
            fused=True,
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
        with faster_on_cpu(self.model):
            while not self.finished and not self.stopping:
                batches = self.epoch_batches()
                self.model.train()
                for batch in self.remaining(batches):
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
        """This process's parts of the batch, and the weight of the mean loss of each.

        The mean over the processes of the weighted sums is the mean over all tokens of
        the batch.
        """
        processes = self.processes.count
        pieces = processes * self.config.accumulate
        if pieces == 1:
            yield batch, 1.0
            return
        for piece in range(self.processes.rank, pieces, processes):
            part = share(batch, piece, pieces)
            if len(part.source):
                yield part, part.n_tokens * processes / batch.n_tokens
            else:  # the other processes wait for this one: take part, count nothing
                yield share(batch, 0, pieces), 0.0

    def look_up(self, started: float) -> None:
        """Read the clock, and see whether to stop, which all processes agree on."""
        self.seconds, self.stopping = self.processes.agree(
            time.perf_counter() - started, self.stop_requested
        )

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
        """Everything that the next step depends on, of all processes.

        All must call it; saving what one of them gets is enough.
        """
        state = {name: getattr(self, name) for name in _COUNTERS}
        loss, tokens = self.processes.sums(self.loss_sum.item(), self.loss_tokens)
        state["loss_sum"], state["loss_tokens"] = loss, tokens
        state["reports"] = [asdict(report) for report in self.reports]
        for name in _STATEFUL:
            state[name] = getattr(self, name).state_dict()
        state["random"] = self.processes.gather(self.random_states())
        return state

    def load_state_dict(self, state: dict) -> None:
        """Go on where `state` was taken, by a trainer of the same configuration."""
        for name in _COUNTERS:
            setattr(self, name, state[name])
        for name in _STATEFUL:
            getattr(self, name).load_state_dict(state[name])
        self.reports = [EpochReport(**report) for report in state["reports"]]
        rank = self.processes.rank
        if rank == 0:  # the sums of all go on in one
            self.count_from(state["loss_sum"], state["loss_tokens"])
        random = state["random"][rank]
        torch.set_rng_state(random["cpu"])
        if self.device.type == "cuda" and "cuda" in random:
            torch.cuda.set_rng_state(random["cuda"], self.device)

    def random_states(self) -> dict[str, Tensor]:
        """Where this process's random numbers stand: those of dropout."""
        states = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.device)
        return states


_COUNTERS = ("epoch", "position", "step", "seconds")
_STATEFUL = ("model", "optimizer", "precision", "average")
