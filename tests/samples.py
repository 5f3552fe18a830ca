"""Small random models and sentences; chance is the test's, see conftest.py."""

import torch
from torch import nn

from helpers import BOS, PAD
from helpers.averaging import WeightAverage
from helpers.layers import LayerSizes
from helpers.transformer import Transformer, TransformerConfig

SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 48, "n_layers": 2, "max_length": 40}


def layer_sizes(norm_first=False, dropout=0.1) -> LayerSizes:
    """The sizes of a layer of `small_model`."""
    options = {"norm_first": norm_first, "dropout": dropout, **SIZES}
    return TransformerConfig(9, 9, **options).layer_sizes()


def small_model(norm_first=False, **changes) -> Transformer:
    """A model in eval mode whose every parameter, biases too, is random."""
    config = TransformerConfig(
        50, 50, norm_first=norm_first, **{"share_embeddings": False, **SIZES, **changes}
    )
    return randomise(Transformer(config)).eval()


def sentences(rows=3, source_length=7, target_length=6):
    """Random ids; later rows end in more and more padding."""
    source = torch.randint(4, 50, (rows, source_length))
    target = torch.randint(4, 50, (rows, target_length))
    target[:, 0] = BOS
    for row in range(rows):
        source[row, source_length - row :] = PAD
        target[row, target_length - row :] = PAD
    return source, target


def randomise(module: nn.Module) -> nn.Module:
    """Give every parameter, biases and gains too, a random value; returns module."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            noise = torch.randn(parameter.shape)
            middle = 1.0 if name.endswith("gain") else 0.0
            spread = 0.3 if parameter.dim() == 1 else parameter.size(-1) ** -0.5
            parameter.copy_(middle + spread * noise)
    return module


def average_weights(states):
    """The mean of several state_dicts."""
    average = WeightAverage()
    for state in states:
        average.add(state)
    return average.weights()
