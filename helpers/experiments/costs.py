"""What autograd keeps, measured (lesson 08)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


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
