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


def _with_masks(
    change: Callable[[Tensor, Tensor], Tensor],
) -> Callable[[nn.Module], None]:
    """A fault of an attention: before it runs, its mask is changed."""

    def before(module: nn.Module, inputs: tuple, named: dict) -> tuple:
        query = named.get("query", *inputs[:1])

        def changed(given: Tensor | None) -> Tensor | None:
            is_mask = given is not None and given.dtype is torch.bool
            return change(given, query) if is_mask else given

        return tuple(map(changed, inputs)), {k: changed(x) for k, x in named.items()}

    return lambda module: module.register_forward_pre_hook(before, with_kwargs=True)


def _hides_words(mask: Tensor, query: Tensor) -> Tensor:
    """A mask of keys that hides all but the first, as many as there are queries."""
    return mask & (torch.arange(mask.size(-1)) < query.size(1)).to(mask.device)


def _drops_out(module: nn.Module) -> None:
    def after(module: nn.Module, inputs: tuple, output: Tensor) -> Tensor:
        return F.dropout(output, 0.1, training=True)

    module.register_forward_hook(after)


def _unscaled(attention: nn.Module) -> None:
    """The scores go into the softmax as they are; the rest is computed as before."""
    context = {}

    def before(
        module: nn.Module, sides: tuple[Tensor, ...], named: dict[str, Tensor]
    ) -> None:
        names = "query", "key", "value"
        given = dict(zip((*names, "mask"), sides, strict=False)) | named
        heads = [
            getattr(module, f"{name}_projection")(given[name])
            .unflatten(2, (module.n_heads, -1))
            .transpose(1, 2)
            for name in names
        ]
        mixed = F.scaled_dot_product_attention(*heads, given.get("mask"), scale=1.0)
        context["unscaled"] = mixed.transpose(1, 2).flatten(2)

    attention.register_forward_pre_hook(before, with_kwargs=True)
    attention.output_projection.register_forward_pre_hook(
        lambda projection, inputs: context.pop("unscaled")
    )


@dataclass(frozen=True)
class Fault:
    """Where in a layer it can be, how it shows, the checks that fail, and how."""

    places: tuple[str, ...]
    shown: str
    seen_by: tuple[str, ...]
    add_to: Callable[[nn.Module], None]


READS_ITSELF = "decoder.layers.{}.self_attention"
READS_SOURCE = "decoder.layers.{}.cross_attention"
IN_ENCODER = "encoder.layers.{}.self_attention"
FAULTS = {
    "sees the future": Fault(
        (READS_ITSELF,),
        "`is_causal` would be False",
        ("causal", "steps equal parallel"),
        _with_masks(lambda mask, query: mask.any(dim=-2, keepdim=True)),
    ),
    "sees padding": Fault(
        (IN_ENCODER, READS_SOURCE),
        "PADs behind a source would move logits",
        ("padding invariant",),
        _with_masks(lambda mask, query: torch.ones_like(mask)),
    ),
    "hides words": Fault(
        (READS_SOURCE,),
        "`is_causal` would hold, and `ways_apart` would not be 0",
        ("padding invariant", "steps equal parallel"),
        _with_masks(_hides_words),
    ),
    "drops out when evaluated": Fault(
        (READS_ITSELF, READS_SOURCE, "encoder.layers.{}.feed_forward"),
        "two equal runs would differ",
        ("same twice",),
        _drops_out,
    ),
    "does not scale": Fault(
        (IN_ENCODER, READS_ITSELF, READS_SOURCE),
        "a model would differ from `own` alone, never from itself",
        (),
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
