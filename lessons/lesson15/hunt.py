"""What lesson 15 compares a model with: itself, step by step. And a fault to plant."""

from functools import partial

import torch
from torch import Tensor, nn

from transformer_checkup import Subject


def step_by_step(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    """The logits as writing makes them, (batch, target_length, target_vocab).

    At each step the model reads the tokens so far, and the newest place counts.
    """
    lengths = range(1, target.size(1) + 1)
    logits = [model(source, target[:, :n])[:, -1] for n in lengths]
    return torch.stack(logits, dim=1)


def as_subject(model: nn.Module, **options) -> Subject:
    """A model of the course as the check-up takes it; options as Subject's."""
    config, steps = model.config, partial(step_by_step, model)
    sizes = config.source_vocab, config.target_vocab
    return Subject(model, *sizes, steps=steps, **options)


def plant(model: nn.Module) -> None:
    """Let a model with the course's interface see the future, in one layer."""

    def opened(given: Tensor | None) -> Tensor | None:
        """A mask that hides padding alone; anything else as it is."""
        is_mask = given is not None and given.dtype is torch.bool
        return given.any(dim=-2, keepdim=True) if is_mask else given

    def open_the_mask(module: nn.Module, inputs: tuple, named: dict) -> tuple:
        return tuple(map(opened, inputs)), {k: opened(x) for k, x in named.items()}

    attention = model.decoder.layers[0].self_attention
    attention.register_forward_pre_hook(open_the_mask, with_kwargs=True)
