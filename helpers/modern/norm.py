"""Root mean square normalisation (lesson 17)."""

import torch
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """Divide each position's features by their root mean square, then scale.

    LayerNorm without its mean and its bias. Zhang and Sennrich 2019, equation 4.
    """

    def __init__(self, d_model: int, *, eps: float = 1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """(…, d_model) -> the same shape."""
        mean_square = x.square().mean(dim=-1, keepdim=True)  # (…, 1)
        return self.gain * x * torch.rsqrt(mean_square + self.eps)
