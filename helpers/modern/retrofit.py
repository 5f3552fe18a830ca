"""Today's heads and positions in the model of 2017 (lessons 17 and 18)."""

import torch.nn.functional as F
from torch import Tensor, nn

from helpers.attention import MultiHeadAttention
from helpers.masks import four_axes
from helpers.modern.rotary import rotary_angles, rotate


class GroupedHeads(MultiHeadAttention):
    """MultiHeadAttention, biases included, with n_kv_heads heads of keys and values."""

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int):
        super().__init__(d_model, n_heads)
        self.d_head, self.group = d_model // n_heads, n_heads // n_kv_heads
        self.key_projection = nn.Linear(d_model, n_kv_heads * self.d_head)
        self.value_projection = nn.Linear(d_model, n_kv_heads * self.d_head)

    def split_heads(self, x: Tensor) -> Tensor:
        """(batch, length, features) -> (batch, n_heads, length, d_head)."""
        heads = x.unflatten(2, (-1, self.d_head)).transpose(1, 2)
        return heads.repeat_interleave(self.n_heads // heads.size(1), dim=1)


class RotaryAttention(GroupedHeads):
    """The same with rotary positions; a query and a key count their own.

    In cross-attention, a query turns by its place in the target, and a key by its place
    in the source.
    """

    def __init__(self, d_model: int, n_heads: int, n_kv_heads: int, max_length: int):
        super().__init__(d_model, n_heads, n_kv_heads)
        angles = rotary_angles(max_length, self.d_head)
        self.register_buffer("angles", angles, persistent=False)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """MultiHeadAttention's."""
        key_heads, value_heads = self.project(key, value)
        query_heads = self.split_heads(self.query_projection(query))
        heads = query_heads, key_heads
        turned = [rotate(x, self.angles[: x.size(2)]) for x in heads]
        mask = None if mask is None else four_axes(mask)
        context = F.scaled_dot_product_attention(*turned, value_heads, mask)
        return self.output_projection(context.transpose(1, 2).flatten(2))


class NoPositions(nn.Module):
    """What stands where the sinusoids were added."""

    def forward(self, embedded: Tensor, *, start: int = 0) -> Tensor:
        """The embeddings as they are."""
        return embedded
