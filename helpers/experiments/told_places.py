"""A translator whose attention is told places here, there or nowhere (lesson 17).

Nothing is added to the embeddings. Places enter an attention through its queries and
keys alone, as sinusoids or as rotations.
"""

from dataclasses import replace

from torch import Tensor, nn
from torch.nn import functional as F

from helpers.experiments.since_2017 import (
    N_HEADS,
    Change,
    GroupedHeads,
    PlacedCrossAttention,
    variant,
)
from helpers.masks import four_axes
from helpers.modern.rotary import rotary_angles, rotate
from helpers.transformer import Transformer

WAYS = ("nothing", "sinusoids", "rotary")


class RotaryAttention(GroupedHeads):
    """Multi-head attention with rotary positions; a query and a key count their own.

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
        query_heads = rotate(query_heads, self.angles[: query.size(1)])
        key_heads = rotate(key_heads, self.angles[: key.size(1)])
        mask = None if mask is None else four_axes(mask)
        context = F.scaled_dot_product_attention(
            query_heads, key_heads, value_heads, mask
        )
        return self.output_projection(context.transpose(1, 2).flatten(2))


def told(
    in_self: str, in_cross: str, seed: int, change: Change | None = None
) -> Transformer:
    """The translator of since_2017 with a change; WAYS say what tells it its places.

    `in_self` is for the self-attention of both sides, `in_cross` for cross-attention.
    """
    change = replace(
        change or Change(),
        sinusoids=False,
        rotary=in_self == "rotary",
        cross_sinusoids=in_cross == "sinusoids",
    )
    model = variant(change, seed)
    for layer in (*model.encoder.layers, *model.decoder.layers):
        if in_self == "sinusoids":
            _replace(layer, "self_attention", PlacedCrossAttention, model)
        if in_cross == "rotary" and hasattr(layer, "cross_attention"):
            _replace(layer, "cross_attention", RotaryAttention, model)
    return model


def _replace(
    layer: nn.Module, name: str, kind: type[GroupedHeads], model: Transformer
) -> None:
    """Another kind of attention, which takes over the projections that are there."""
    there, d_model = getattr(layer, name), model.config.d_model
    n_kv_heads = there.key_projection.out_features * N_HEADS // d_model
    placed = kind(d_model, N_HEADS, n_kv_heads, model.config.max_length)
    for part, projection in there.named_children():
        setattr(placed, part, projection)
    setattr(layer, name, placed)
