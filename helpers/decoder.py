"""The decoder: masked self-attention, cross-attention, feed-forward (lesson 07)."""

from torch import Tensor, nn

from helpers.attention import MultiHeadAttention
from helpers.layers import FeedForward, LayerNorm, LayerSizes, Residual


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, feed-forward, each inside a residual.

    Vaswani et al. 2017, section 3.1.
    """

    def __init__(self, sizes: LayerSizes):
        super().__init__()
        self.self_attention = MultiHeadAttention(sizes.d_model, sizes.n_heads)
        self.cross_attention = MultiHeadAttention(sizes.d_model, sizes.n_heads)
        self.feed_forward = FeedForward(sizes.d_model, sizes.d_ff)
        self.residuals = nn.ModuleList(
            Residual(sizes.d_model, dropout=sizes.dropout, norm_first=sizes.norm_first)
            for _ in range(3)
        )

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        """x (batch, target_length, d_model) -> the same shape.

        memory (batch, source_length, d_model), mask over (…, target_length,
        target_length), memory_mask over (…, target_length, source_length).
        """
        x = self.residuals[0](x, lambda y: self.self_attention(y, y, y, mask))
        x = self.residuals[1](
            x, lambda y: self.cross_attention(y, memory, memory, memory_mask)
        )
        return self.residuals[2](x, self.feed_forward)


class Decoder(nn.Module):
    """A stack of n_layers DecoderLayers.

    Vaswani et al. 2017, section 3.1; the last norm as in the Encoder.
    """

    def __init__(self, n_layers: int, sizes: LayerSizes):
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(sizes) for _ in range(n_layers))
        self.norm = LayerNorm(sizes.d_model) if sizes.norm_first else nn.Identity()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        """Arguments and shapes as in DecoderLayer.forward."""
        for layer in self.layers:
            x = layer(x, memory, mask, memory_mask)
        return self.norm(x)
