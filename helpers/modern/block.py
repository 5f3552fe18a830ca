"""A block of a decoder-only model as Llama has it (lesson 17)."""

from torch import Tensor, nn

from helpers.caching import AttentionCache
from helpers.modern.attention import GroupedQueryAttention
from helpers.modern.feed_forward import SwiGLU
from helpers.modern.norm import RMSNorm


class ModernBlock(nn.Module):
    """Grouped self-attention, then SwiGLU, each on the norm of the stream.

    Norm first, rotary positions, no biases. Touvron et al. 2023a, section 2.2;
    grouped queries as in Touvron et al. 2023b, section 2.2.
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, d_ff: int):
        super().__init__()
        self.attention_norm = RMSNorm(d_model)
        self.attention = GroupedQueryAttention(d_model, n_heads, n_kv_heads)
        self.feed_forward_norm = RMSNorm(d_model)
        self.feed_forward = SwiGLU(d_model, d_ff)

    def forward(
        self,
        x: Tensor,
        angles: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        cache: AttentionCache | None = None,
    ) -> Tensor:
        """x (batch, length, d_model) -> the same shape.

        Arguments as in GroupedQueryAttention.forward.
        """
        y = self.attention_norm(x)
        x = x + self.attention(y, angles, mask, cache=cache)
        return x + self.feed_forward(self.feed_forward_norm(x))
