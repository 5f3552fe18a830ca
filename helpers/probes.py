"""Measurements on a finished model: which input reaches which output (lesson 03)."""

from collections.abc import Callable

import torch
from torch import Tensor


def influence(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """How strongly each output position depends on each input position.

    function maps x (1, length, features) to (1, out_length, out_features). Returns
    (out_length, length): at [i, j] the norm of the block ∂ output_i / ∂ input_j, the
    root of the sum of its squares. It is exactly 0 where nothing passes from j to i.
    ValueError for more than one sentence.
    """
    if x.dim() != 3 or len(x) != 1:
        raise ValueError(f"x must be (1, length, features), not {tuple(x.shape)}")
    blocks = torch.autograd.functional.jacobian(function, x)
    # (1, out_length, out_features, 1, length, features)
    return blocks.squeeze((0, 3)).norm(dim=(1, 3))
