"""The gated feed-forward network (lesson 17)."""

from torch import Tensor, nn
from torch.nn import functional as F


class SwiGLU(nn.Module):
    """(SiLU(x W) ⊙ x V) W₂ without biases, the same at every position.

    Shazeer 2020, equation 6, where SiLU is called Swish₁.
    """

    def __init__(self, d_model: int, d_ff: int):
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.expand = nn.Linear(d_model, d_ff, bias=False)
        self.contract = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) -> the same shape."""
        hidden = F.silu(self.gate(x)) * self.expand(x)  # (batch, length, d_ff)
        return self.contract(hidden)  # (batch, length, d_model)
