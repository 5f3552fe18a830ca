"""Try the dropout of an exercise's answer: it falls on what sublayers add, alone."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from helpers.exercise import Wrong


class InTraining(nn.Module):
    """Runs a layer or a stack in training, without its norms.

    One of its sublayers (modules of these names) adds 1 to what is 1, the others add
    nothing. Wrong, if anything else is dropped than this `share` of what it adds.
    """

    def __init__(self, module: nn.Module, sublayers: Sequence[str], share: float):
        super().__init__()
        self.module, self.sublayers, self.share = module, sublayers, share

    def __getattr__(self, name: str) -> Any:
        """The module's, where an exercise asks for attributes."""
        module = super().__getattr__("module")
        return module if name == "module" else getattr(module, name)

    def forward(self, *inputs: Tensor) -> str:
        """inputs as the module's."""
        parts = dict(self.module.named_modules())
        for part in parts.values():
            if isinstance(getattr(part, "norm", None), nn.Module):
                part.norm = nn.Identity()
        x, *others = map(torch.ones_like, inputs)
        names = [name for name in parts if name.split(".")[-1] in self.sublayers]
        for own in names:
            for name in names:
                parts[name].forward = partial(_added, x * (name == own))
            self._look(self.module(x, *others) - x, own)
        return "dropped"

    def _look(self, added: Tensor, name: str) -> None:
        dropped, most = added.abs() < 1e-4, added.max().item()
        found = dropped.float().mean().item()
        text = f"of what `{name}` adds, training must drop the share {self.share}: "
        if not (dropped | ((added - most).abs() < 1e-3)).all():
            raise Wrong(f"{text}x loses numbers, too")
        if abs(found - self.share) > 0.06:
            raise Wrong(f"{text}yours drops {found:.2f}")
        if abs(most - 1 / (1 - self.share)) > 1e-3:
            raise Wrong(f"{text}what is left is not multiplied by 1 / (1 - dropout)")


def _added(result: Tensor, *inputs: Tensor | None, **named: Tensor | None) -> Tensor:
    """What a sublayer gives; it must not read numbers that have been dropped."""
    read = [x for x in (*inputs, *named.values()) if isinstance(x, Tensor)]
    if any((x == 0).any() for x in read if x.is_floating_point()):
        raise Wrong("dropout falls on what a sublayer reads: it falls on what it adds")
    return result
