"""How the check-up is tried: on sound models for false alarms, on faults for places."""

from collections.abc import Sequence

from torch import nn

from faults import Fault, Specimen
from faults.specimens import COURSE, HUGGING_FACE, READING
from lessons.lesson15.adapters import of_course
from lessons.lesson16.adapters import of_reading
from transformer_checkup.adapters import of_hugging_face
from transformer_checkup.subject import Subject, Suspect

OFFERED = ("steps", "beams", "loss", "left_padding")  # beside its forward
ADAPTERS = {COURSE: of_course, HUGGING_FACE: of_hugging_face, READING: of_reading}


def subject_of(specimen: Specimen, model: nn.Module, **options) -> Subject:
    """A model as it is handed over: by the adapter of its code base, if it has one."""
    if specimen.code_base in ADAPTERS:
        return ADAPTERS[specimen.code_base](model, **options)
    linears = [m for m in model.projection.modules() if isinstance(m, nn.Linear)]
    offered = {n: getattr(model, n) for n in OFFERED if hasattr(model, n)}
    given = {"kind": specimen.kind, **offered, **options}
    return Subject(model, linears[0].out_features, **given)


def examined(fault: Fault, seed: int = 0, **options) -> Subject:
    """The model with a fault as it is handed over, with what builds it anew."""
    model = fault.build(seed=seed)
    rebuild = {"rebuild": lambda: examined(fault, seed=seed + 1)}
    return subject_of(fault.specimen, model, **rebuild, **options)


def names_it(fault: Fault, suspects: Sequence[Suspect]) -> bool:
    """Whether one of the suspects is right: its place, and a word of its kind."""
    return any(
        _lies_in(suspect.where, fault.where)
        and any(word in suspect.text for word in fault.cause)
        for suspect in suspects
    )


def _lies_in(where: str, places: Sequence[str]) -> bool:
    """Whether a module is one of these places, or inside one."""
    return any(
        where == place or (place != "" and where.startswith(f"{place}."))
        for place in places
    )
