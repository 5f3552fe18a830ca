"""Feed-forward network, layer normalisation, residual connection (lesson 05)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class FeedForward(nn.Module):
    """max(0, x W₁ + b₁) W₂ + b₂, the same at every position.

    Input and output: (batch, length, d_model). Vaswani et al. 2017, section 3.3.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.expand = nn.Linear(d_model, d_ff)
        self.contract = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.contract(F.relu(self.expand(x)))


class LayerNorm(nn.Module):
    """Give each position's features mean 0 and variance 1, then scale and shift.

    Input and output: (…, d_model). The variance is the biased one and eps stands inside
    the root. Ba et al. 2016, section 3; Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, d_model: int, *, eps: float = 1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, self.eps)


class Dropout(nn.Dropout):
    """Set each number to 0 with probability p, in training, and divide others by 1 - p.

    The same as nn.Dropout, but quicker on a CPU, where drawing the random numbers is
    most of the work (benchmarks/speed.txt). Input and output: any shape.
    Srivastava et al. 2014, section 10; Vaswani et al. 2017, section 5.4.
    """

    def forward(self, x: Tensor) -> Tensor:
        ours_is_faster = x.device.type == "cpu" and x.dtype == torch.float32
        if not (ours_is_faster and self.training and 0 < self.p < 1):
            return super().forward(x)
        scale = torch.rand_like(x).ge_(self.p).div_(1 - self.p)  # 0 or 1 / (1 - p)
        return x * scale


class Residual(nn.Module):
    """Add a sublayer's output to its input, with dropout and layer normalisation.

    The paper normalises the sum (norm last): LayerNorm(x + Dropout(sublayer(x))).
    Norm first is x + Dropout(sublayer(LayerNorm(x))), which leaves a path through the
    whole stack that nothing rescales.
    Input and output: (batch, length, d_model).
    Vaswani et al. 2017, sections 3.1 and 5.4; Xiong et al. 2020, section 3.
    """

    def __init__(self, d_model: int, *, dropout: float, norm_first: bool):
        super().__init__()
        self.norm = LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))
