"""Training faster: mixed precision, compiled steps, averaged weights (lesson 13)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from helpers.batching import Batch, IdPair
from helpers.training import Trainer, TrainingConfig, token_loss
from helpers.transformer import Transformer

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def best_precision(device: torch.device) -> str:
    """bf16 on a GPU that computes in it, fp16 on an older one (a T4), fp32 on a CPU."""
    if device.type != "cuda":
        return "fp32"
    # Older GPUs emulate bf16, which is slower than not using it.
    return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"


class TokenLoss(nn.Module):
    """`token_loss` as a module: the form in which compile and DDP take a whole step."""

    def __init__(self, model: Transformer, label_smoothing: float):
        super().__init__()
        self.model, self.label_smoothing = model, label_smoothing

    def forward(self, batch: Batch) -> tuple[Tensor, int]:
        return token_loss(self.model, batch, label_smoothing=self.label_smoothing)


class AcceleratedTrainer(Trainer):
    """A Trainer in mixed precision, compiled if asked, that averages its last weights.

    precision is fp32, bf16 or fp16 (None: what `best_precision` says of the model's
    device). Weights, Adam and the loss stay in fp32; matrix products take the smaller
    type. fp16 has so few exponents that gradients vanish in it, so there the loss is
    scaled up before its gradient is taken, and the gradient down again before it is
    clipped: Micikevicius et al. 2018, section 3.2.

    From the share `average_from` of the budget on, every `average_every` steps, the
    weights enter a running mean, `averaged_weights`. ValueError for another precision.
    """

    def __init__(
        self,
        model: Transformer,
        train: Sequence[IdPair],
        validation: Sequence[IdPair],
        config: TrainingConfig,
        *,
        precision: str | None = None,
        compiled: bool = False,
        average_from: float = 1.0,
        average_every: int = 50,
    ):
        super().__init__(model, train, validation, config)
        self.precision = precision or best_precision(self.device)
        if self.precision not in PRECISIONS:
            known = ", ".join(PRECISIONS)
            raise ValueError(f"precision must be one of {known}: {self.precision!r}")
        self.scaler = torch.amp.GradScaler(
            self.device.type, enabled=self.precision == "fp16"
        )
        self.step_loss: nn.Module = TokenLoss(model, config.label_smoothing)
        if compiled:  # batches differ in length: one program for all shapes
            self.step_loss.compile(dynamic=True)
        self.average = AveragedModel(model)
        self.average_from, self.average_every = average_from, average_every

    def loss(self, batch: Batch) -> tuple[Tensor, float]:
        """The loss of a step, its matrix products in the smaller type."""
        smaller = self.precision != "fp32"
        dtype = PRECISIONS[self.precision]
        with torch.autocast(self.device.type, dtype=dtype, enabled=smaller):
            return self.step_loss(batch)

    def descend(self, loss: Tensor) -> None:
        """Take the gradient of the scaled loss, clip the true one, and let Adam step.

        Without fp16 the scale is 1. A step whose gradient overflowed is left out.
        """
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def train_step(self, batch: Batch, progress: float) -> None:
        """A step, after which the weights may enter their mean."""
        super().train_step(batch, progress)
        if progress >= self.average_from and self.step % self.average_every == 0:
            self.average.update_parameters(self.model)

    def averaged_weights(self) -> dict[str, Tensor]:
        """The mean of the weights so far, or the last ones where none entered it."""
        averaged = self.average.n_averaged > 0
        return (self.average.module if averaged else self.model).state_dict()

    def state_dict(self) -> dict:
        """Everything that the next step depends on, for `torch.save`."""
        state = super().state_dict()
        state["scaler"] = self.scaler.state_dict()
        state["average"] = self.average.state_dict()
        return state

    def load_state_dict(self, state: dict) -> None:
        """Go on where `state` was taken, by a trainer of the same configuration."""
        super().load_state_dict(state)
        self.scaler.load_state_dict(state["scaler"])
        self.average.load_state_dict(state["average"])
