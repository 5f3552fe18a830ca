"""Changes of a fresh Transformer: what do its first logits come from (lesson 08)?"""

import math

import torch
from torch import nn

from helpers.batching import Batch
from helpers.layers import Residual
from helpers.transformer import Transformer


def no_residual(model: Transformer) -> None:
    """A decoder's sublayer replaces the stream, instead of adding to it."""
    for module in model.decoder.modules():
        if isinstance(module, Residual):
            norm, first = module.norm, module.norm_first
            module.forward = lambda x, f, n=norm, first=first: (
                f(n(x)) if first else n(f(x))
            )


def no_positions(model: Transformer) -> None:
    """Embeddings without their positions."""
    model.positions = nn.Identity()


def the_row_alone(model: Transformer) -> None:
    """Neither positions nor sublayers: only the row is in the decoder's stream."""
    no_positions(model)
    _silence(model.decoder)


def later_layers_silent(model: Transformer) -> None:
    """Only the decoder's first two layers add to its stream."""
    _silence(model.decoder.layers[2:])


def _silence(layers: nn.Module) -> None:
    for module in layers.modules():
        if isinstance(module, Residual):
            module.forward = lambda x, f: x


@torch.no_grad()
def divided_by(model: Transformer, batch: Batch) -> float:
    """By what the decoder's norms divide what is in its stream, all together.

    It is the product of the mean standard deviations of their inputs: of every norm
    for norm last, and of the one at the end for norm first.
    """
    deviations, residuals = [], model.decoder.modules()
    norms = [module.norm for module in residuals if isinstance(module, Residual)]
    if model.config.norm_first:
        norms = [model.decoder.norm]

    def note(norm: nn.Module, inputs: tuple) -> None:
        deviations.append(inputs[0].std(dim=-1).mean().item())

    hooks = [norm.register_forward_pre_hook(note) for norm in norms]
    model(batch.source, batch.decoder_input)
    for hook in hooks:
        hook.remove()
    return math.prod(deviations)
