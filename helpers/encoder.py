"""The encoder: self-attention and feed-forward, layer upon layer (lesson 06)."""

from torch import Tensor, nn

from helpers.attention import MultiHeadAttention
from helpers.layers import FeedForward, LayerNorm, LayerSizes, Residual


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside a residual connection.

    Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, sizes: LayerSizes):
        super().__init__()
        self.self_attention = MultiHeadAttention(sizes.d_model, sizes.n_heads)
        self.feed_forward = FeedForward(sizes.d_model, sizes.d_ff)
        self.residuals = nn.ModuleList(
            Residual(sizes.d_model, dropout=sizes.dropout, norm_first=sizes.norm_first)
            for _ in range(2)
        )

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (batch, length, d_model), mask over (…, length, length) -> like x."""
        x = self.residuals[0](x, lambda y: self.self_attention(y, y, y, mask))
        return self.residuals[1](x, self.feed_forward)


class Encoder(nn.Module):
    """A stack of n_layers EncoderLayers.

    With norm first the stack's sum is still unnormalised, so one last norm follows it.
    Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, n_layers: int, sizes: LayerSizes):
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(sizes) for _ in range(n_layers))
        self.norm = LayerNorm(sizes.d_model) if sizes.norm_first else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (batch, length, d_model), mask over (…, length, length) -> like x."""
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)
