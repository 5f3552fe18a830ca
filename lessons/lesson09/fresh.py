"""A translator before its training, with the same initial weights for every class."""

import torch
from torch import nn

from helpers import transformer as course
from helpers.translator.small import toy_config


@torch.no_grad()
def fresh_translator(kind: type = course.Transformer, seed: int = 0) -> nn.Module:
    """A `kind(config)` for toy sentences, with the weights of the course's by name."""
    torch.manual_seed(seed)
    weights = dict(course.Transformer(toy_config()).named_parameters())
    model = kind(toy_config())
    for name, weight in model.named_parameters():
        weight.copy_(weights[name])
    return model
