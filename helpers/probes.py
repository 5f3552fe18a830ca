"""Measurements: what reaches what (lesson 03), time (04), memory (08)."""

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn


def best_time(function: Callable, *inputs: object, runs: int = 10) -> float:
    """Seconds that function(*inputs) takes on one thread, the best of so many runs."""
    threads, times = torch.get_num_threads(), []
    torch.set_num_threads(1)
    for _ in range(runs):
        start = time.perf_counter()
        function(*inputs)
        times.append(time.perf_counter() - start)
    torch.set_num_threads(threads)
    return min(times)


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
    # (1, out_length, out_features, 1, length, features); in float64, so that the
    # square of a small derivative does not become 0
    return blocks.squeeze((0, 3)).double().norm(dim=(1, 3)).to(x.dtype)


@torch.no_grad()
def future_change(layer: Callable[[Tensor], Tensor], x: Tensor) -> float:
    """The largest change of layer(x[:, :k]) against layer(x)[:, :k], over all k.

    layer maps (batch, length, …) to (batch, length, …). If no output depends on a later
    input, it is 0 up to rounding.
    """
    whole, changes = layer(x), []
    for k in range(1, x.size(1) + 1):
        difference = layer(x[:, :k]) - whole[:, :k]
        changes.append(difference.abs().max())
    return torch.stack(changes).max().item()


def kept_numbers(model: nn.Module, loss: Callable[[], Tensor]) -> int:
    """How many floats `loss()` keeps for the backward pass, parameters left out."""
    own, found = {p.data_ptr() for p in model.parameters()}, {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if tensor.is_floating_point() and storage.data_ptr() not in own:
            found[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = loss()
    del result  # until here, it held all that was kept
    return sum(found.values())
