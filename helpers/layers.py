"""Feed-forward network, layer normalisation, residual connection (lesson 05).

`LayerSizes`, from which lesson 06 builds its layers, holds what their parts need.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True, kw_only=True)
class LayerSizes:
    """What an encoder layer or a decoder layer is built from.

    ValueError for a size below 1, heads that do not divide d_model, or a dropout
    outside [0, 1). Vaswani et al. 2017, table 3.
    """

    d_model: int
    n_heads: int
    d_ff: int
    dropout: float
    norm_first: bool

    def __post_init__(self):
        for name in ("d_model", "n_heads", "d_ff"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1: {getattr(self, name)}")
        if self.d_model % self.n_heads:
            raise ValueError(
                f"d_model={self.d_model} is not divisible by n_heads={self.n_heads}"
            )
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must lie in [0, 1): {self.dropout}")


class FeedForward(nn.Module):
    """max(0, x W₁ + b₁) W₂ + b₂, the same at every position.

    Vaswani et al. 2017, section 3.3.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) -> the same shape."""
        hidden = F.relu(self.expand(x))  # (batch, length, d_ff)
        return self.contract(hidden)  # (batch, length, d_model)


class LayerNorm(nn.Module):
    """Give each position's features mean 0 and variance 1, then scale and shift.

    The variance is the biased one and eps stands inside the root.
    Ba et al. 2016, section 3; Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, d_model: int, *, eps: float = 1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """(…, d_model) -> the same shape."""
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, self.eps)


class Residual(nn.Module):
    """Add a sublayer's output to its input, with dropout and layer normalisation.

    The paper normalises the sum (norm last): LayerNorm(x + Dropout(sublayer(x))).
    Norm first is x + Dropout(sublayer(LayerNorm(x))), which leaves a path through the
    whole stack that nothing rescales.
    Vaswani et al. 2017, sections 3.1 and 5.4; Xiong et al. 2020, section 3.
    """

    def __init__(self, d_model: int, *, dropout: float, norm_first: bool):
        super().__init__()
        self.norm = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """x, sublayer(x) and the result are (batch, length, d_model)."""
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))
