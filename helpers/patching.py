"""Replace what one head hands on, and see what changes (lesson 06)."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from helpers.attention import MultiHeadAttention


@contextmanager
def replace_contexts(
    attention: MultiHeadAttention,
    heads: int | list[int],
    by: Tensor | float,
    where: Tensor | None = None,
) -> Iterator[None]:
    """In the block, these heads hand on `by` instead of their own contexts.

    `by` broadcasts to (batch, length, heads, d_head). `where` (batch, length) is True
    at the places where it is put in: at all of them without it.
    """

    def replace(layer: nn.Module, inputs: tuple[Tensor]) -> Tensor:
        contexts = inputs[0].unflatten(-1, (attention.n_heads, -1))
        chosen = torch.zeros_like(contexts[:1, :1, :, :1], dtype=torch.bool)
        chosen[:, :, heads] = True
        if where is not None:
            chosen = chosen & where[:, :, None, None]
        return torch.where(chosen, by, contexts).flatten(-2)

    hook = attention.output_projection.register_forward_pre_hook(replace)
    try:
        yield
    finally:
        hook.remove()
