"""What is registered, and so moves and is saved with the model."""

import io
from collections.abc import Mapping
from contextlib import suppress

import torch
from torch import Tensor, nn

from transformer_checkup.hooks import close
from transformer_checkup.hooks import where_it_stops as stops_at
from transformer_checkup.leaks import BASIS
from transformer_checkup.measures import change, spread
from transformer_checkup.state import converted
from transformer_checkup.subject import Fails, Subject, Suspect, Unknown
from transformer_checkup.suspects import REMEMBERS
from transformer_checkup.verdict import TOLERANCE, in_32_bits, module_of, property_check

LIST = "a plain list or dict of modules: take nn.ModuleList or nn.ModuleDict"
UNTIED = "tied before loading and no longer behind it: tie again, or copy into `.data`"
TENSOR = "a plain tensor: make it a buffer by `register_buffer`, or a parameter"


@property_check("runs")
def state_moves(subject: Subject) -> str:
    """What the model computes with is registered: parameters, buffers, modules.

    Anything else stays behind when the model moves to another device. A plain tensor
    may be the output of an earlier call, or be moved by hand at every use. So we put a
    copy of it on another device, "meta", which holds no numbers: if the model still
    runs, or says that it cannot fetch the numbers from there, all is well. Then the
    whole model moves there: a tensor that is made without `device=` is told by the
    error. Holds for every model.
    """
    module = module_of(subject)
    batch = subject.sentences()
    before = {id(value) for part in module.modules() for value in vars(part).values()}
    subject.logits(*batch)  # what earlier calls leave behind is there from now on
    for owner_name, owner in module.named_modules():
        for name, value in _attributes(owner):
            path = f"{owner_name}.{name}".lstrip(".")
            if _holds(value, nn.Module) and not isinstance(value, nn.Module):
                raise Fails(
                    f"{path} is a plain {type(value).__name__} of modules: their "
                    "parameters are neither trained, moved nor saved",
                    suspects=[Suspect(path, LIST)],
                )
            if isinstance(value, Tensor) and _stays_behind(
                subject, owner, name, value, batch
            ):
                made = TENSOR if id(value) in before else REMEMBERS
                raise Fails(
                    f"{path} is a plain tensor, no parameter and no buffer: it stays "
                    "behind when the model moves to another device",
                    suspects=[Suspect(path, made), Suspect(owner_name, made)],
                )
    _moves_as_a_whole(subject, module, batch)
    return "all it computes with moves with the model"


def _attributes(owner: nn.Module) -> list[tuple[str, object]]:
    """A module's attributes, without Module's own tables of what is registered."""
    return [
        (name, value)
        for name, value in vars(owner).items()
        if not (name.startswith("_") and isinstance(value, dict))
    ]


def _holds(value: object, kind: type) -> bool:
    """Whether value is a `kind`, or a plain container with one in it."""
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return isinstance(value, kind)
    return any(_holds(x, kind) for x in value)


def _stays_behind(
    subject: Subject,
    owner: nn.Module,
    name: str,
    value: Tensor,
    batch: tuple[Tensor | None, Tensor | None],
) -> bool:
    """Whether the model fails once the plain tensor owner.name is elsewhere."""
    setattr(owner, name, value.to("meta"))
    try:
        logits = subject.logits(*batch)
    except Fails as failure:
        return "out of meta tensor" not in str(failure.__cause__)
    finally:
        setattr(owner, name, value)
    return logits.device.type == "meta"


def _moves_as_a_whole(subject: Subject, module: nn.Module, batch: tuple) -> None:
    """Raise Fails if the model mixes devices once all of it is on "meta"."""
    moved = [side if side is None else side.to("meta") for side in batch]
    with converted(module, lambda tensor: tensor.to("meta")):
        try:
            subject.logits(*moved)
        except Fails as failure:
            if "same device" not in str(failure.__cause__):
                return  # it asks for a number, which "meta" does not have
            where = stops_at(subject, *moved)
            raise Fails(
                f"moved to another device, it mixes two: {failure}",
                suspects=[Suspect(where or "", "a tensor made without `device=`")],
            ) from failure


@property_check(*BASIS)
def state_is_saved(subject: Subject) -> str:
    """A saved state gives the model back: the same logits after loading.

    All registered tensors are spoilt in between; with `rebuild`, the state is loaded
    into another instance, which also finds what was drawn at random and not saved.
    Holds for every model.
    """
    module_of(subject)
    batch = subject.sentences()
    other = subject if subject.rebuild is None else subject.rebuild()
    with in_32_bits(other):  # as this one's weights are
        moved = change(subject.logits(*batch), _reloaded(subject, other, batch))
    if moved.max() > TOLERANCE:
        lost = (
            "something that it computes with is in no state: a tensor drawn at random"
        )
        places = _unsaved(subject.module, other.module) or [""]
        raise Fails(
            "after saving and loading, the logits differ by "
            f"{spread(moved.max().item())}",
            suspects=[Suspect(place, lost) for place in places],
        )
    return "saved and loaded, the model gives the same logits"


def _unsaved(module: nn.Module, other: nn.Module) -> list[str]:
    """The owners of the buffers that are in no state and differ in another build."""
    saved, theirs = module.state_dict(), dict(other.named_buffers())
    return [
        name.rpartition(".")[0]
        for name, buffer in module.named_buffers()
        if name not in saved
        and name in theirs
        and close(buffer, theirs[name]) is not True
    ]


def _reloaded(subject: Subject, other: Subject, batch: tuple) -> Tensor:
    """The logits of the other model, its state spoilt and then loaded."""
    file = io.BytesIO()
    torch.save(subject.module.state_dict(), file)
    file.seek(0)
    state = torch.load(file, map_location=subject.device, weights_only=True)
    held = {id(t) for t in other.module.state_dict(keep_vars=True).values()}
    before = other.logits(*batch)

    def spoilt(tensor: Tensor) -> Tensor:
        one = int(tensor.is_floating_point())
        return tensor * 0 + one if id(tensor) in held else tensor

    with converted(other.module, spoilt):
        with suppress(Fails):
            if torch.equal(before, other.logits(*batch)):
                raise Unknown("the logits do not depend on anything that is saved")
        ties = _ties(other.module)
        try:
            other.module.load_state_dict(state)
        except RuntimeError as error:
            said = str(error).splitlines()[0]
            raise Fails(f"its own state cannot be loaded: {said}") from error
        for names in ties - _ties(other.module):
            raise Fails(
                f"{' and '.join(sorted(names))} are one before loading, two after it",
                suspects=[Suspect(n.rpartition(".")[0], UNTIED) for n in sorted(names)],
            )
        return other.logits(*batch)


def _ties(module: nn.Module) -> set[frozenset[str]]:
    """The names of parameters that are one tensor."""
    names: dict[int, set[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), set()).add(name)
    return {frozenset(group) for group in names.values() if len(group) > 1}
