"""How a sound Transformer is broken, and what must notice (lesson 15).

`mutant` lists a broken part with the property checks that see it. The list, MUTANTS, is
filled by `lessons.lesson15.mutants`.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson15.adapters import of_course
from transformer_checkup.subject import Subject


@dataclass(frozen=True)
class Mutant:
    """A fault, exactly the checks that see it, and what does the damage to a model."""

    fault: str
    caught_by: tuple[str, ...]
    damage: Callable[[Transformer], None]

    def build(self, seed: int = 0, **options) -> Subject:
        """A small model with this fault; options as Subject's."""
        model = small_model(seed)
        self.damage(model)
        return of_course(model, seed=seed, **options)


MUTANTS: dict[str, Mutant] = {}


def mutant(fault: str, *caught_by: str) -> Callable:
    """List a broken class, or a function that damages a model, under its fault."""

    def add(broken: Callable) -> Callable:
        damage = broken if inspect.isfunction(broken) else partial(swap, new=broken)
        MUTANTS[fault] = Mutant(fault, caught_by, damage)
        return broken

    return add


def swap(model: nn.Module, new: type) -> None:
    """Turn every module that `new` derives from into a `new`, its weights kept.

    ValueError if there is none: a fault planted before may have taken its place.
    """
    sound = [parent for parent in new.__mro__[1:] if parent is not nn.Module]
    found = [module for module in model.modules() if type(module) in sound]
    if not found:
        names = " or ".join(kind.__name__ for kind in sound if kind is not object)
        raise ValueError(f"{new.__name__} changes nothing: the model has no {names}")
    for module in found:
        module.__class__ = new


def small_model(seed: int, kind: type = Transformer, **changes) -> Transformer:
    """A small random Transformer, or a class derived from it."""
    torch.manual_seed(seed)
    sizes = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 2, "dropout": 0.0}
    changes = {"norm_first": True, "share_embeddings": False, **changes}
    source_vocab = 60 if changes["share_embeddings"] else 50
    return kind(TransformerConfig(source_vocab, 60, **{**sizes, **changes}))
