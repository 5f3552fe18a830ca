"""Scaled dot-product attention (lesson 02) and multi-head attention (lesson 04)."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn import functional as F

from helpers.masks import check_mask, four_axes


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
    d_head = query.size(-1)
    scores = query @ key.transpose(-2, -1)  # (…, query_length, key_length)
    scores = scores / math.sqrt(d_head)
    if mask is not None:
        check_mask(mask, scores.shape)
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    if mask is not None:
        # Only matters where a whole row is hidden: softmax gives NaN there.
        weights = weights.masked_fill(~mask, 0.0)
    context = weights @ value  # (…, query_length, d_value)
    return context, weights


class MultiHeadAttention(nn.Module):
    """Attention in n_heads subspaces of size d_model / n_heads, side by side.

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
        """query (batch, query_length, d_model) -> the same shape.

        key and value (batch, key_length, d_model), mask as in `attention`, with heads.
        ValueError for a mask of wrong type or shape.
        """
        key_heads, value_heads = self.project(key, value)
        return self.attend(query, key_heads, value_heads, mask)

    def project(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of all heads, each (batch, heads, key_length, d_head)."""
        key_heads = self.split_heads(self.key_projection(key))
        value_heads = self.split_heads(self.value_projection(value))
        return key_heads, value_heads

    def attend(
        self,
        query: Tensor,
        key_heads: Tensor,
        value_heads: Tensor,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Attend from query (batch, query_length, d_model) to projected heads."""
        batch, query_length, _ = query.shape
        n_heads, key_length = self.n_heads, key_heads.size(2)
        if mask is not None:
            check_mask(mask, (batch, n_heads, query_length, key_length))
            mask = four_axes(mask)
        query_heads = self.split_heads(self.query_projection(query))
        if self.observer is None:
            context = F.scaled_dot_product_attention(
                query_heads, key_heads, value_heads, mask
            )  # (batch, heads, query_length, d_head)
        else:
            context, weights = attention(query_heads, key_heads, value_heads, mask)
            self.observer(weights)
        joined = context.transpose(1, 2).flatten(2)  # (batch, query_length, d_model)
        return self.output_projection(joined)

    def split_heads(self, x: Tensor) -> Tensor:
        """(batch, length, d_model) -> (batch, heads, length, d_head)."""
        return x.unflatten(2, (self.n_heads, -1)).transpose(1, 2)


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Keep the weights of every multi-head attention in the model, by its name.

    Gives a dict that fills while the block runs; each map has the shape
    (batch, heads, query_length, key_length). A module that is called more than once
    keeps its last map. Maps are detached from the graph. A module of other hands counts
    if it has MultiHeadAttention's names: its weights are computed beside it.
    """
    maps: dict[str, Tensor] = {}
    observed, hooks = [], []

    def observer(name: str) -> Callable[[Tensor], None]:
        def keep(weights: Tensor) -> None:
            maps[name] = weights.detach()

        return keep

    def beside(name: str) -> Callable:
        def hook(module: nn.Module, inputs: tuple, named: dict) -> None:
            given = dict(zip(("query", "key", "value", "mask"), inputs, strict=False))
            given |= named
            query = module.query_projection(given["query"])
            key = module.key_projection(given["key"])
            query, key = (
                x.unflatten(2, (module.n_heads, -1)).transpose(1, 2)
                for x in (query, key)
            )
            maps[name] = attention(query, key, key, given.get("mask"))[1].detach()

        return hook

    for name, module in model.named_modules():
        if hasattr(module, "observer"):
            module.observer = observer(name)
            observed.append(module)
        elif hasattr(module, "query_projection") and hasattr(module, "n_heads"):
            hook = module.register_forward_pre_hook(beside(name), with_kwargs=True)
            hooks.append(hook)
    try:
        yield maps
    finally:
        for module in observed:
            module.__dict__.pop("observer", None)  # the class's own is seen again
        for hook in hooks:
            hook.remove()
