"""Self-attention whose heads share keys and values (lesson 17)."""

from torch import Tensor, nn
from torch.nn import functional as F

from helpers.caching import AttentionCache
from helpers.masks import check_mask, four_axes
from helpers.modern.rotary import rotate


class GroupedQueryAttention(nn.Module):
    """Self-attention in n_heads heads, with n_kv_heads heads of keys and values.

    n_kv_heads = n_heads is multi-head attention, n_kv_heads = 1 multi-query attention.
    No biases. Ainslie et al. 2023, section 2.2; Shazeer 2019, section 3.
    ValueError if n_heads does not divide d_model, or n_kv_heads not n_heads.
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int):
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model={d_model} is not divisible by n_heads={n_heads}")
        if n_kv_heads < 1 or n_heads % n_kv_heads:
            raise ValueError(f"n_heads={n_heads} is not divisible by {n_kv_heads=}")
        self.d_head, self.group = d_model // n_heads, n_heads // n_kv_heads
        shared = n_kv_heads * self.d_head
        self.query_projection = nn.Linear(d_model, d_model, bias=False)
        self.key_projection = nn.Linear(d_model, shared, bias=False)
        self.value_projection = nn.Linear(d_model, shared, bias=False)
        self.output_projection = nn.Linear(d_model, d_model, bias=False)

    def forward(
        self,
        x: Tensor,
        angles: Tensor | None = None,
        mask: Tensor | None = None,
        *,
        cache: AttentionCache | None = None,
    ) -> Tensor:
        """x (batch, length, d_model) -> the same shape.

        angles (length, d_head / 2) are those of x's positions; without them queries and
        keys stay as they are. A cache holds earlier keys and values, and takes up those
        of x; mask is over (…, length, key_length), earlier keys included.
        """
        query = self.split_heads(self.query_projection(x))
        key = self.split_heads(self.key_projection(x))  # (batch, n_kv_heads, …)
        value = self.split_heads(self.value_projection(x))
        if angles is not None:
            query, key = rotate(query, angles), rotate(key, angles)
        if cache is not None:
            key, value = cache.extend(key, value)
        if mask is not None:
            check_mask(mask, (*query.shape[:3], key.size(2)))
            mask = four_axes(mask)
        key, value = (x.repeat_interleave(self.group, dim=1) for x in (key, value))
        context = F.scaled_dot_product_attention(query, key, value, mask)
        return self.output_projection(context.transpose(1, 2).flatten(2))

    def split_heads(self, x: Tensor) -> Tensor:
        """(batch, length, features) -> (batch, features / d_head, length, d_head)."""
        return x.unflatten(2, (-1, self.d_head)).transpose(1, 2)
