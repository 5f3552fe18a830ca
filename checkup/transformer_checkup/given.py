"""Is what a Subject is given such that it can be examined? ValueError says why not."""

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from .subject import Subject

KINDS = ("encoder-decoder", "decoder", "encoder")
FEWEST = 4  # words, beside the ids that are none


def check_given(subject: "Subject") -> None:
    """Raise ValueError if something has another type or size than it must have."""
    model, module = subject.model, subject.module
    model_kind, module_kind = type(model).__name__, type(module).__name__
    if isinstance(model, type):
        name = model.__name__
        raise ValueError(f"model is a class: hand over an instance, {name}(…)")
    if not callable(model):
        raise ValueError(f"model must be a function of ids, not a {model_kind}")
    if not isinstance(module, nn.Module | None):
        raise ValueError(f"module must be an nn.Module, not a {module_kind}")
    if subject.kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}: {subject.kind!r}")
    for name in ("source_vocab", "target_vocab", "longest", "seed", "pad", "bos"):
        value = getattr(subject, name)
        optional = name in ("target_vocab", "longest", "bos")
        if not isinstance(value, int) and not (optional and value is None):
            raise ValueError(f"{name} must be a whole number: {value!r}")
    if subject.longest is not None and subject.longest < 1:
        raise ValueError(f"longest must be at least 1: {subject.longest}")
    for name in ("source_vocab", "target_vocab"):
        if getattr(subject, name) is not None:
            _check_size(subject, name, getattr(subject, name))
    for name in ("steps", "beams", "loss", "attention", "rebuild"):
        value = getattr(subject, name)
        if value is not None and not callable(value):
            raise ValueError(f"{name} must be a function, not {value!r}")
        of_decoders = name in ("steps", "beams", "loss")
        if value is not None and of_decoders and subject.kind == "encoder":
            raise ValueError(f"{name} is not used: an encoder does not decode")
    for name in ("unused", "skip"):
        names = getattr(subject, name)
        if isinstance(names, str) or not all(isinstance(n, str) for n in names):
            raise ValueError(f"{name} must be names in a tuple, not {names!r}")


def _check_size(subject: "Subject", name: str, size: int) -> None:
    """Raise ValueError if a vocabulary has too few words, or no PAD."""
    if size - len({i for i in subject.no_words if i < size}) < FEWEST:
        least = FEWEST + len({*subject.no_words})
        raise ValueError(
            f"{name} must be at least {least}, four words beside PAD, UNK, BOS and "
            f"EOS, or what `special` names: {size}"
        )
    if not 0 <= subject.pad < size:
        raise ValueError(f"pad must be an id below {name}: {subject.pad}")


def check_names(subject: "Subject") -> None:
    """Raise ValueError if `tied` or `unused` names what the module has not."""
    parameters = dict(subject.module.named_parameters(remove_duplicate=False))
    parts = dict(subject.module.named_modules(remove_duplicate=False))
    for name in (name for pair in subject.tied for name in pair):
        if name not in parameters:
            raise ValueError(f"tied: no parameter {name!r}; {_near(name, parameters)}")
    for name in subject.unused:
        if not any(path.startswith(name) for path in (*parts, *parameters)):
            raise ValueError(f"unused: no module {name!r}; {_near(name, parts)}")


def _near(name: str, names: Mapping[str, object]) -> str:
    """What there is, with what looks like the name first."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    shown = list(dict.fromkeys([*close, *filter(None, names)]))
    return f"there are {', '.join(shown[:8])}" + (" and others" * (len(shown) > 8))
