"""Three sealed broken models, for the last exercise of lesson 15.

Which fault a number stands for follows from a hash, so that no line here says it, and
the broken classes answer to the names of the sound ones. `lessons.lesson15.exercises`
knows the answers; to read them there is to spoil the exercise.
"""

from functools import cache
from hashlib import sha256

from torch import nn

from helpers.transformer import Transformer
from lessons.lesson15 import mutants
from lessons.lesson15.breaking import MUTANTS, Mutant, small_model

# Kept from import on: a lesson that lists a fault anew does not reach these.
KEPT = dict(MUTANTS)
# The faults in the lesson's table, among which each of the three is.
SHOWN = (
    "heads split by view alone",
    "masks repeated in another order than heads",
    "norm over length and features",
    "result of masked_fill thrown away",
    "no causal mask",
    "causal mask one place too wide",
    "weights applied to the keys",
    "the residual taken and never added",
    "softmax before the cross-entropy",
    "the positional table is no buffer",
    "hidden scores filled with -1e9",
    "hidden scores filled with -inf",
    "no scale",
    "scale from d_head // heads",
    "norm by the unbiased standard deviation",
)


def sealed(number: int) -> Transformer:
    """The broken model number 1, 2 or 3: small, with random weights, in train mode.

    ValueError for another number.
    """
    model = small_model(number)
    secret(number).damage(model)
    disguise(model)
    return model


def secret(number: int) -> Mutant:
    """The fault of a sealed model. ValueError for a number without one."""
    pools = _pools()
    if number not in pools:
        raise ValueError(f"there are sealed models 1, 2 and 3, not {number!r}")
    text = f"model {number} is broken (second edition)"
    digest = sha256(text.encode()).digest()
    faults = sorted(pools[number])
    return KEPT[faults[int.from_bytes(digest[:4], "big") % len(faults)]]


@cache
def _pools() -> dict[int, list[str]]:
    """The faults that each number may stand for: found ever less easily."""
    seen = {fault: kept.caught_by for fault, kept in KEPT.items()}
    alike = [checks for checks in seen.values() if len(checks) > 1]
    return {
        1: [f for f, checks in seen.items() if len(checks) == 1],
        2: [f for f, checks in seen.items() if alike.count(checks) > 1],
        3: [f for f, checks in seen.items() if not checks and _keeps_shape(KEPT[f])],
    }


def _keeps_shape(kept: Mutant) -> bool:
    """Whether the broken model has the parameters of the sound one, no fewer."""
    model = small_model(0)
    names = [name for name, _ in model.named_parameters()]
    kept.damage(model)
    return [name for name, _ in model.named_parameters()] == names


def disguise(model: nn.Module) -> None:
    """Give every broken module's class the name and home of the sound one."""
    for module in model.modules():
        broken = type(module)
        if broken.__module__ == mutants.__name__:
            sound = next(c for c in broken.__mro__ if c.__module__ != mutants.__name__)
            names = {"__module__": sound.__module__, "__qualname__": sound.__qualname__}
            module.__class__ = type(sound.__name__, (broken,), names)
