"""Replace what one head hands on, and see what changes (lesson 06)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from helpers.attention import MultiHeadAttention


@contextmanager
def record_contexts(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Keep what the heads of every MultiHeadAttention hand to its output projection.

    Gives {name of the module: (batch, length, heads, d_head)}, filled in the block.
    """
    contexts: dict[str, Tensor] = {}

    def keeper(name: str, n_heads: int) -> Callable:
        def keep(layer: nn.Module, inputs: tuple[Tensor]) -> None:
            contexts[name] = inputs[0].detach().unflatten(-1, (n_heads, -1))

        return keep

    hooks = [
        module.output_projection.register_forward_pre_hook(keeper(name, module.n_heads))
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    ]
    try:
        yield contexts
    finally:
        for hook in hooks:
            hook.remove()


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
