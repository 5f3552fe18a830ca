"""Ways to misread Llama's layer: each changes a block of 8 heads of 8 features."""

import torch

from helpers.modern.block import ModernBlock

EVENS_FIRST = [0, 2, 4, 6, 1, 3, 5, 7]


@torch.no_grad()
def pair_neighbours(block: ModernBlock) -> None:
    """Rotate features 2i and 2i + 1 together: sort the rows of each head."""
    attention = block.attention
    for projection in (attention.query_projection, attention.key_projection):
        heads = projection.weight.unflatten(0, (-1, 8))  # (heads, d_head, d_model)
        projection.weight.copy_(heads[:, EVENS_FIRST].flatten(0, 1))


@torch.no_grad()
def share_in_turns(block: ModernBlock) -> None:
    """Let query heads 0, 2, 4, 6 share the first head of keys: sort the heads."""
    asking, giving = block.attention.query_projection, block.attention.output_projection
    heads = asking.weight.unflatten(0, (8, -1))  # (heads, d_head, d_model)
    asking.weight.copy_(heads[EVENS_FIRST].flatten(0, 1))
    heads = giving.weight.unflatten(1, (8, -1))  # (d_model, heads, d_head)
    giving.weight.copy_(heads[:, EVENS_FIRST].flatten(1))
