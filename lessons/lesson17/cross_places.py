"""A translator whose attention is told places here, there or nowhere (lesson 17).

Nothing is added to the embeddings. Places enter an attention through its queries and
keys alone, as sinusoids or as rotations.
"""

from dataclasses import replace

from torch import nn

from helpers.transformer import Transformer
from lessons.lesson17.changes import (
    N_HEADS,
    Change,
    GroupedHeads,
    PlacedCrossAttention,
    RotaryAttention,
    variant,
)

WAYS = ("nothing", "sinusoids", "rotary")


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
