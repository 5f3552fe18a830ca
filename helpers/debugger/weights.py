"""What is registered, shared and saved."""

import io
from collections.abc import Mapping
from itertools import combinations

import torch
from torch import Tensor, nn

from helpers.debugger.hooks import where_it_stops as stops_at
from helpers.debugger.leaks import BASIS
from helpers.debugger.measures import change, spread
from helpers.debugger.state import converted
from helpers.debugger.structure import lists_of_modules, matrices
from helpers.debugger.subject import Fails, Subject, Suspect, Unknown, named
from helpers.debugger.verdict import TOLERANCE, module_of, property_check

LIST = "a plain list or dict of modules: take nn.ModuleList or nn.ModuleDict"
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
    subject.logits(*batch)  # what earlier calls leave behind is there from now on
    for owner_name, owner in module.named_modules():
        for name, value in list(vars(owner).items()):
            path = f"{owner_name}.{name}".lstrip(".")
            if name.startswith("_") and isinstance(value, dict):
                continue  # Module's own tables of what is registered
            if _holds(value, nn.Module) and not isinstance(value, nn.Module):
                raise Fails(
                    f"{path} is a plain {type(value).__name__} of modules: their "
                    "parameters are neither trained, moved nor saved",
                    suspects=[Suspect(path, LIST)],
                )
            if isinstance(value, Tensor) and _stays_behind(
                subject, owner, name, value, batch
            ):
                raise Fails(
                    f"{path} is a plain tensor, no parameter and no buffer: it stays "
                    "behind when the model moves to another device",
                    suspects=[Suspect(path, TENSOR), Suspect(owner_name, TENSOR)],
                )
    _moves_as_a_whole(subject, module, batch)
    return "all it computes with moves with the model"


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


@property_check("runs")
def weights_shared_as_meant(subject: Subject) -> str:
    """Layers have weights of their own, and what is said to be tied is one tensor.

    A module that is listed twice, or a sublayer that all layers share, halves the model
    in silence; so does a list of copies that start equal and get equal gradients. Does
    not hold for models that share layers on purpose, by listing one twice: ALBERT,
    which calls one layer again and again, passes. `tied` names pairs of parameters that
    must be one. nn.TransformerEncoder starts its layers as copies, which is told as ○.
    """
    module = module_of(subject)
    for name, part in lists_of_modules(module):
        children = [(f"{name}.{i}".lstrip("."), child) for i, child in enumerate(part)]
        for (one, first), (other, second) in combinations(children, 2):
            _not_the_same(one, first, other, second)
    named_parameters = dict(module.named_parameters(remove_duplicate=False))
    for one, other in subject.tied:
        if named_parameters[one] is not named_parameters[other]:
            untied = "should be tied to the other of the pair: one tensor to share"
            raise Fails(
                f"{one} and {other} should be one parameter and are two",
                suspects=[Suspect(p.rpartition(".")[0], untied) for p in (one, other)],
            )
    if not subject.trained:
        _no_copies(module)
    return "no layer shares its weights with another, and what should be tied is"


def _not_the_same(one: str, first: nn.Module, other: str, second: nn.Module) -> None:
    """Raise Fails if two members of a list share a parameter."""
    if type(first) is not type(second):
        return
    theirs = {id(p): name for name, p in second.named_parameters()}
    shared = [
        (name, theirs[id(p)]) for name, p in first.named_parameters() if id(p) in theirs
    ]
    if not shared:
        return
    if first is second:
        what = "the same module, listed twice: its weights are shared"
        raise Fails(
            f"{one} and {other} are the same module",
            suspects=[Suspect(other, what), Suspect(one, what)],
        )
    ours, their = shared[0]
    what = "made once and shared by all layers: the same weights"
    parts = [f"{other}.{their}".rpartition(".")[0], f"{one}.{ours}".rpartition(".")[0]]
    inner = _holder(second, {t for _, t in shared})
    places = (
        [f"{base}.{inner}".rstrip(".") for base in (other, one)] if inner else parts
    )
    raise Fails(
        f"{one} and {other} share {len(shared)} parameters, {ours} among them",
        suspects=[Suspect(place, what) for place in places],
    )


def _holder(module: nn.Module, names: set[str]) -> str:
    """The smallest submodule that holds all these parameters."""
    common = [n.split(".")[:-1] for n in names]
    held = []
    for parts in zip(*common, strict=False):
        if len({*parts}) > 1:
            break
        held.append(parts[0])
    return ".".join(held)


def _no_copies(module: nn.Module) -> None:
    """Raise Fails if the layers of a list start as copies of each other."""
    for name, part in lists_of_modules(module):
        children = [*part]
        if len(children) < 2 or len({type(child) for child in children}) > 1:
            continue
        first, second = (matrices(child) for child in children[:2])
        random = [m for m in first if m.numel() > 1 and m.std() > 0]
        if not random or not list(children[0].children()):
            continue
        if all(torch.equal(a, b) for a, b in zip(first, second, strict=True)):
            if isinstance(
                children[0], nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
            ):
                raise Unknown(
                    f"the layers of {named(name)} start as copies of one, as PyTorch "
                    "leaves them: draw their weights anew"
                )
            what = (
                "layers that start as copies of one, the same weights: draw them anew"
            )
            raise Fails(
                f"the layers of {name} start out equal",
                suspects=[Suspect(f"{name}.1", what), Suspect(name, what)],
            )


@property_check(*BASIS)
def state_is_saved(subject: Subject) -> str:
    """A saved state gives the model back: the same logits after loading.

    All registered tensors are spoilt in between; with `rebuild`, the state is loaded
    into another instance, which also finds what was drawn at random and not saved.
    Holds for every model.
    """
    module_of(subject)
    batch = subject.sentences()
    moved = change(subject.logits(*batch), _reloaded(subject, batch)).max().item()
    if moved > TOLERANCE:
        lost = (
            "something that it computes with is in no state: a tensor drawn at random"
        )
        raise Fails(
            f"after saving and loading, the logits differ by {spread(moved)}",
            suspects=[Suspect("", lost)],
        )
    return "saved and loaded, the model gives the same logits"


def _reloaded(subject: Subject, batch: tuple) -> Tensor:
    """The logits of a model whose state was spoilt and then loaded, or of another."""
    file = io.BytesIO()
    torch.save(subject.module.state_dict(), file)
    file.seek(0)
    state = torch.load(file, map_location=subject.device)
    other = subject if subject.rebuild is None else subject.rebuild()
    held = {id(t) for t in other.module.state_dict(keep_vars=True).values()}
    with converted(other.module, lambda t: t * 0 if id(t) in held else t):
        try:
            other.module.load_state_dict(state)
        except RuntimeError as error:
            said = str(error).splitlines()[0]
            raise Fails(f"its own state cannot be loaded: {said}") from error
        return other.logits(*batch)
