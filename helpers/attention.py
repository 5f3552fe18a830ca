"""Scaled dot-product attention (lesson 02) and multi-head attention (lesson 04)."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn import functional as F

from helpers.masks import check_mask


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """softmax(QKᵀ / √d_k) V, and the weights that it used.

    Shapes, any leading dimensions alike:
        query (…, query_length, d_head), key (…, key_length, d_head),
        value (…, key_length, d_value),
        mask boolean, True = may attend, broadcasts to (…, query_length, key_length);
        returns context (…, query_length, d_value)
        and weights (…, query_length, key_length).
    A query that may attend to nothing gets weights and context of zero.
    Vaswani et al. 2017, section 3.2.1. ValueError for a mask of wrong type or shape.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
    if mask is not None:
        check_mask(mask, scores.shape)
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    if mask is not None:
        # Only matters where a whole row is hidden: softmax gives NaN there.
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights


class MultiHeadAttention(nn.Module):
    """Attention in n_heads subspaces of size d_model / n_heads, side by side.

    Inputs: query (batch, query_length, d_model), key and value
    (batch, key_length, d_model), mask as in `attention`, with heads.
    Output: (batch, query_length, d_model).
    Vaswani et al. 2017, section 3.2.2. ValueError if n_heads does not divide d_model.
    """

    # Set by record_attention for as long as its block lasts, None otherwise.
    observer: Callable[[Tensor], None] | None = None

    def __init__(self, d_model: int, n_heads: int):
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model={d_model} is not divisible by n_heads={n_heads}")
        self.n_heads = n_heads
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.output_projection = nn.Linear(d_model, d_model)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        return self.attend(query, *self.project(key, value), mask)

    def project(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of all heads, each (batch, heads, key_length, d_head)."""
        return (
            self.split_heads(self.key_projection(key)),
            self.split_heads(self.value_projection(value)),
        )

    def attend(
        self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """Attend from query (batch, query_length, d_model) to projected keys."""
        queries = self.split_heads(self.query_projection(query))
        if mask is not None:
            check_mask(mask, (*queries.shape[:3], keys.size(2)))
            mask = mask[(None,) * (4 - mask.dim())]  # PyTorch counts on four axes
        if self.observer is None:
            context = F.scaled_dot_product_attention(queries, keys, values, mask)
        else:
            context, weights = attention(queries, keys, values, mask)
            self.observer(weights)
        # Heads go back beside their features before they are joined.
        return self.output_projection(context.transpose(1, 2).flatten(2))

    def split_heads(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) -> (batch, heads, length, d_head)."""
        return x.unflatten(2, (self.n_heads, -1)).transpose(1, 2)


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Keep the weights of every MultiHeadAttention in the model, by its name.

    Gives a dict that fills while the block runs; each map has the shape
    (batch, heads, query_length, key_length). A module that is called more than once
    keeps its last map. Maps are detached from the graph.
    """
    maps: dict[str, Tensor] = {}
    recorded = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }

    def observer(name: str) -> Callable[[Tensor], None]:
        def keep(weights: Tensor) -> None:
            maps[name] = weights.detach()

        return keep

    for name, module in recorded.items():
        module.observer = observer(name)
    try:
        yield maps
    finally:
        for module in recorded.values():
            module.observer = None
