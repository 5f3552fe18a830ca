"""Small tasks for a feed-forward network: a product, or a maximum (lesson 17)."""

import torch
from torch import Tensor, nn

from helpers.modern.feed_forward import SwiGLU

FEATURES = 8
# Each feature of the answer is made of the feature there and of the next one.
TASKS = {
    "product": lambda x: x * x.roll(-1, dims=1),
    "maximum": lambda x: torch.maximum(x, x.roll(-1, dims=1)),
}


class Bilinear(SwiGLU):
    """SwiGLU without its SiLU: a product of two linear maps."""

    def forward(self, x: Tensor) -> Tensor:
        """(batch, d_model) -> the same shape."""
        return self.contract(self.gate(x) * self.expand(x))


class WithBiases(SwiGLU):
    """SwiGLU with a bias in each of its three linear maps."""

    def __init__(self, d_model: int, d_ff: int):
        super().__init__(d_model, d_ff)
        self.gate = nn.Linear(d_model, d_ff)
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)


def error_after(
    network: nn.Module, task: str, seed: int, *, rate: float, steps: int = 250
) -> float:
    """The mean squared error of the last 20 of Adam's steps; the seed draws x."""
    generator, errors = torch.Generator().manual_seed(seed), []
    optimizer = torch.optim.Adam(network.parameters(), lr=rate, fused=True)
    for _ in range(steps):
        x = torch.randn(256, FEATURES, generator=generator)
        loss = (network(x) - TASKS[task](x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        errors.append(loss.item())
    return sum(errors[-20:]) / 20
