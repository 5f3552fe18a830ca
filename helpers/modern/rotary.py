"""Rotary positions: turn queries and keys by an angle for each place (lesson 17)."""

import torch
from torch import Tensor


def rotary_angles(length: int, d_head: int, *, base: float = 10_000.0) -> Tensor:
    """The angle of each pair of features at each position, (length, d_head / 2).

    Pair i turns by base^(-2i / d_head) a position, as the sinusoids do.
    Su et al. 2021, section 3.2.2. ValueError if d_head is odd.
    """
    if d_head % 2:
        raise ValueError(f"d_head must be even to turn features in pairs: {d_head}")
    position = torch.arange(length, dtype=torch.float64)[:, None]
    speed = base ** (-torch.arange(0, d_head, 2, dtype=torch.float64) / d_head)
    return (position * speed).to(torch.get_default_dtype())


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turn feature i with feature i + d_head / 2, as Hugging Face's Llama does.

    x (…, length, d_head), angles (length, d_head / 2) -> the shape of x.
    Su et al. 2021, section 3.2.2, where a pair are neighbours.
    ValueError unless there is an angle for each position and pair.
    """
    *_, length, d_head = x.shape
    if angles.shape != (length, d_head // 2):
        raise ValueError(
            f"angles must be {(length, d_head // 2)} for x of shape "
            f"{tuple(x.shape)}, not {tuple(angles.shape)}"
        )
    first, second = x.chunk(2, dim=-1)  # each (…, length, d_head / 2)
    cosine, sine = angles.cos(), angles.sin()
    turned = (first * cosine - second * sine, first * sine + second * cosine)
    return torch.cat(turned, dim=-1)
