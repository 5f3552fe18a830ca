"""Masks: boolean, True = may attend (lesson 03).

Every mask broadcasts to (batch, heads, query_length, key_length), which is what
`torch.nn.functional.scaled_dot_product_attention` takes.
"""

import torch
from torch import Tensor

from helpers import PAD


def padding_mask(tokens: Tensor) -> Tensor:
    """Hide the keys that are padding, from every query.

    tokens (batch, length) -> (batch, 1, 1, length).
    """
    return (tokens != PAD)[:, None, None, :]


def causal_mask(length: int, *, device: torch.device | None = None) -> Tensor:
    """Hide from each position the positions after it.

    Returns (1, 1, length, length), lower triangular.
    Vaswani et al. 2017, section 3.2.3.
    """
    ones = torch.ones(length, length, dtype=torch.bool, device=device)
    return ones.tril()[None, None]


def decoder_mask(tokens: Tensor) -> Tensor:
    """Hide what comes later and what is padding.

    tokens (batch, length) -> (batch, 1, length, length).
    """
    return padding_mask(tokens) & causal_mask(tokens.size(1), device=tokens.device)


def four_axes(mask: Tensor) -> Tensor:
    """Put axes of size 1 in front: (length, length) -> (1, 1, length, length).

    PyTorch's fused attention knows masks of two axes and of four, not of three.
    """
    while mask.dim() < 4:
        mask = mask[None]
    return mask


def check_mask(mask: Tensor, scores_shape: tuple[int, ...]) -> None:
    """ValueError unless the mask is boolean and broadcasts to scores_shape.

    A float mask would be added to the scores and a 0/1 integer mask has two readings,
    so neither may pass unnoticed.
    """
    shape, target = tuple(mask.shape), tuple(scores_shape)
    if mask.dtype != torch.bool:
        raise ValueError(f"a mask must be boolean, True = may attend, not {mask.dtype}")
    fits = len(shape) <= len(target) and all(
        size in (1, wanted)
        for size, wanted in zip(reversed(shape), reversed(target), strict=False)
    )
    if not fits:
        raise ValueError(f"mask of shape {shape} does not broadcast to {target}")
