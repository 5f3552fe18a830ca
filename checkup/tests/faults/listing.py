"""What a fault is: a sound model, the damage, the module in which it sits, its kind."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from faults.specimens import SOUND, Specimen


@dataclass(frozen=True)
class Fault:
    """A single fault, made by `damage` in the sound model named `base`.

    A suspect is the right one if the module that it names is one of `where`, or lies
    within one (patterns as in fnmatch), and if it says one of the words of `cause`. ""
    in `where` is the model as a whole. `unseen` gives the reason why no property can
    tell the model from a sound one, where that is expected.
    """

    name: str
    base: str
    where: tuple[str, ...]
    cause: tuple[str, ...]
    damage: Callable[[nn.Module], None]
    unseen: str = ""

    @property
    def specimen(self) -> Specimen:
        """The sound model that the fault is made in."""
        return SOUND[self.base]

    @property
    def from_outside(self) -> bool:
        """Whether it was thought of without knowledge of the checks."""
        return self.damage.__module__.endswith(("from_outside", "from_reports"))

    def build(self, vocab: int = 60, seed: int = 0) -> nn.Module:
        """A small model with this fault."""
        model = self.specimen.build(vocab, seed)
        self.damage(model)
        return model


FAULTS: dict[str, Fault] = {}


def fault(name: str, base: str, where: str, cause: str, unseen: str = "") -> Callable:
    """List a function that damages a model; blanks part `where` and `cause`, - is "".

    The function's docstring names the report on which it is modelled, if there is one.
    """

    def add(damage: Callable[[nn.Module], None]) -> Callable[[nn.Module], None]:
        places = tuple("" if place == "-" else place for place in where.split())
        words = tuple(cause.split())
        FAULTS[name] = Fault(name, base, places, words, damage, unseen)
        return damage

    return add
