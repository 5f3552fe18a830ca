"""What a trained model's layer norms remove: the mean, or another direction (17)."""

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from helpers.batching import IdPair
from helpers.layers import LayerNorm
from helpers.training import evaluate_loss


class RemoveAndScale(nn.Module):
    """A LayerNorm's gain and bias around RMSNorm, on x without some directions.

    With (1, …, 1) / √d_model alone this is the LayerNorm itself. Directions have norm
    1, and are perpendicular.
    """

    def __init__(self, norm: LayerNorm, directions: Sequence[Tensor]):
        super().__init__()
        self.norm, self.directions = norm, directions

    def forward(self, x: Tensor) -> Tensor:
        """(…, d_model) -> the same shape."""
        for direction in self.directions:
            x = x - (x @ direction)[..., None] * direction
        root = (x.square().mean(dim=-1, keepdim=True) + self.norm.eps).sqrt()
        return self.norm.gain * x / root + self.norm.bias


def loss_without(
    model: nn.Module, pairs: Sequence[IdPair], *directions: Tensor
) -> float:
    """The loss where all norms remove these directions, and not the mean by itself."""
    changed = copy.deepcopy(model)
    for module in [*changed.modules()]:
        for name, part in [*module.named_children()]:
            if isinstance(part, LayerNorm):
                setattr(module, name, RemoveAndScale(part, directions))
    return evaluate_loss(changed, pairs)


def mean_shares(model: nn.Module, pairs: Sequence[IdPair]) -> dict[str, float]:
    """Which share of the mean square the mean holds, at the input of each norm.

    Of the last batch that the norm has seen, padding included.
    """
    shares = {}

    def listen(name: str, norm: nn.Module) -> torch.utils.hooks.RemovableHandle:
        def hook(_: nn.Module, given: tuple[Tensor]) -> None:
            (x,) = given
            mean = x.mean(dim=-1).square().mean()
            shares[name] = (mean / x.square().mean()).item()

        return norm.register_forward_pre_hook(hook)

    norms = [x for x in model.named_modules() if isinstance(x[1], LayerNorm)]
    handles = [listen(name, norm) for name, norm in norms]
    evaluate_loss(model, pairs)
    for handle in handles:
        handle.remove()
    return shares
