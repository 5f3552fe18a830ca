"""Mixed precision for a Trainer (lessons 13, 14)."""

import torch
from torch import Tensor

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def best_precision(device: torch.device) -> str:
    """bf16 on a GPU that computes in it, fp16 on an older one (a T4), fp32 on a CPU."""
    if device.type != "cuda":
        return "fp32"
    # Older GPUs emulate bf16, which is slower than not using it.
    return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"


class Precision:
    """The type in which a training step multiplies matrices: fp32, bf16 or fp16.

    Weights, Adam and the loss stay in fp32. fp16 has so few exponents that gradients
    vanish in it, so there the loss is scaled up before its gradient is taken, and the
    gradient down again before it is clipped: Micikevicius et al. 2018, section 3.2.
    Otherwise the scale is 1. ValueError for another name.
    """

    def __init__(self, name: str = "fp32", device: torch.device | str = "cpu"):
        if name not in PRECISIONS:
            known = ", ".join(PRECISIONS)
            raise ValueError(f"precision must be one of {known}: {name!r}")
        self.name, self.device = name, torch.device(device)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=name == "fp16")

    def autocast(self) -> torch.autocast:
        """A block whose matrix products take the smaller type."""
        dtype, smaller = PRECISIONS[self.name], self.name != "fp32"
        return torch.autocast(self.device.type, dtype=dtype, enabled=smaller)

    def backward(self, loss: Tensor) -> None:
        """Add the gradient of the scaled loss to the parameters'."""
        self.scaler.scale(loss).backward()

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Give the gradients their true size."""
        self.scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer) -> None:
        """Let the optimizer step, unless a gradient has overflowed."""
        self.scaler.step(optimizer)
        self.scaler.update()

    def state_dict(self) -> dict:
        """What the next step depends on: the scale."""
        return self.scaler.state_dict()

    def load_state_dict(self, state: dict) -> None:
        """Go on where `state` was taken."""
        self.scaler.load_state_dict(state)
