"""What lesson 15 compares a model with: itself, step by step. And faults to plant."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def step_by_step(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    """The logits as writing makes them, (batch, target_length, target_vocab).

    At each step the model reads the tokens so far, and the newest place counts.
    """
    lengths = range(1, target.size(1) + 1)
    logits = [model(source, target[:, :n])[:, -1] for n in lengths]
    return torch.stack(logits, dim=1)


def _with_masks(change: Callable[[Tensor], Tensor]) -> Callable[[nn.Module], None]:
    """A fault of an attention: its masks are changed before it runs."""

    def changed(given: Tensor | None) -> Tensor | None:
        is_mask = given is not None and given.dtype is torch.bool
        return change(given) if is_mask else given

    def before(module: nn.Module, inputs: tuple, named: dict) -> tuple:
        return tuple(map(changed, inputs)), {k: changed(x) for k, x in named.items()}

    return lambda module: module.register_forward_pre_hook(before, with_kwargs=True)


def _with_output(change: Callable[[Tensor], Tensor]) -> Callable[[nn.Module], None]:
    """A fault of any module: its output is changed."""
    return lambda module: module.register_forward_hook(lambda m, x, out: change(out))


def _unscaled(attention: nn.Module) -> None:
    projection = attention.query_projection
    root = (projection.out_features // attention.n_heads) ** 0.5
    _with_output(lambda queries: queries * root)(projection)


@dataclass(frozen=True)
class Fault:
    """Where in a layer it can be, the check that tells it from the others, and how."""

    places: tuple[str, ...]
    seen_by: str  # "": no check sees it
    add_to: Callable[[nn.Module], None]


NETWORKS = ("encoder.layers.{}.feed_forward", "decoder.layers.{}.feed_forward")
FAULTS = {
    "sees the future": Fault(
        ("decoder.layers.{}.self_attention",),
        "causal",
        _with_masks(lambda mask: mask.any(dim=-2, keepdim=True)),
    ),
    "sees padding": Fault(
        ("decoder.layers.{}.cross_attention",),
        "padding invariant",
        _with_masks(torch.ones_like),
    ),
    "stops the gradient": Fault(
        NETWORKS, "all parameters learn", _with_output(torch.Tensor.detach)
    ),
    "drops out when evaluated": Fault(
        NETWORKS,
        "same twice",
        _with_output(lambda output: F.dropout(output, 0.1, training=True)),
    ),
    "does not scale": Fault(
        ("encoder.layers.{}.self_attention", "decoder.layers.{}.cross_attention"),
        "",
        _unscaled,
    ),
}


def secret(number: int) -> tuple[str, str]:
    """A module of a model with two layers a side, and a fault, drawn by this number."""
    chance = random.Random(number)
    name, fault = chance.choice([*FAULTS.items()])
    return chance.choice(fault.places).format(chance.randrange(2)), name


def plant(model: nn.Module, module: str, fault: str) -> nn.Module:
    """The model, one of lesson 08's interface, with this fault in this module."""
    FAULTS[fault].add_to(model.get_submodule(module))
    return model
