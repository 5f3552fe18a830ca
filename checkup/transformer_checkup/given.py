"""Is what a Subject is given such that it can be examined? ValueError says why not."""

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from torch import nn

if TYPE_CHECKING:
    from transformer_checkup.subject import Subject

KINDS = ("encoder-decoder", "decoder", "encoder")
FEWEST = 4  # words, beside the ids that are none


def check_given(subject: "Subject") -> None:
    """Raise ValueError if something has another type or size than it must have."""
    _check_model(subject)
    if subject.kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}: {subject.kind!r}")
    for name in ("source_vocab", "target_vocab", "longest", "seed", "pad", "bos"):
        value = getattr(subject, name)
        optional = name in ("target_vocab", "longest", "bos")
        if not isinstance(value, int) and not (optional and value is None):
            raise ValueError(f"{name} must be a whole number: {value!r}")
    for name in ("source_vocab", "target_vocab"):
        size = getattr(subject, name)
        none = {i for i in subject.no_words if i < (size or 0)}
        if size is not None and size - len(none) < FEWEST:
            least = FEWEST + len({*subject.no_words})
            raise ValueError(
                f"{name} must be at least {least}, four words beside PAD, UNK, BOS and "
                f"EOS, or what `special` names: {size}"
            )
        if size is not None and not 0 <= subject.pad < size:
            raise ValueError(f"pad must be an id below {name}: {subject.pad}")
    if subject.longest is not None and subject.longest < 1:
        raise ValueError(f"longest must be at least 1: {subject.longest}")
    _check_functions(subject)
    for name in ("unused", "skip"):
        names = getattr(subject, name)
        if isinstance(names, str) or not all(isinstance(n, str) for n in names):
            raise ValueError(f"{name} must be names in a tuple, not {names!r}")


def _check_model(subject: "Subject") -> None:
    """Raise ValueError if the model is no function, or the module none."""
    if isinstance(subject.model, type):
        name = subject.model.__name__
        raise ValueError(f"model is a class: hand over an instance, {name}(…)")
    if not callable(subject.model):
        kind = type(subject.model).__name__
        raise ValueError(f"model must be a function of ids, not a {kind}")
    if not isinstance(subject.module, nn.Module | None):
        kind = type(subject.module).__name__
        raise ValueError(f"module must be an nn.Module, not a {kind}")


def _check_functions(subject: "Subject") -> None:
    """Raise ValueError if what should be a function is none, or is not used."""
    for name in ("steps", "beams", "loss", "attention", "rebuild"):
        value = getattr(subject, name)
        if value is not None and not callable(value):
            raise ValueError(f"{name} must be a function, not {value!r}")
        of_decoders = name in ("steps", "beams", "loss")
        if value is not None and of_decoders and subject.kind == "encoder":
            raise ValueError(f"{name} is not used: an encoder does not decode")


def check_names(
    module: nn.Module, tied: tuple[tuple[str, str], ...], unused: tuple[str, ...]
) -> None:
    """Raise ValueError if `tied` or `unused` names what the module has not."""
    parameters = dict(module.named_parameters(remove_duplicate=False))
    parts = dict(module.named_modules(remove_duplicate=False))
    for name in (name for pair in tied for name in pair):
        if name not in parameters:
            raise ValueError(f"tied: no parameter {name!r}; {_near(name, parameters)}")
    for name in unused:
        if not any(path.startswith(name) for path in (*parts, *parameters)):
            raise ValueError(f"unused: no module {name!r}; {_near(name, parts)}")


def _near(name: str, names: Mapping[str, object]) -> str:
    """What there is, with what looks like the name first."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    shown = list(dict.fromkeys([*close, *filter(None, names)]))
    return f"there are {', '.join(shown[:8])}" + (" and others" * (len(shown) > 8))
