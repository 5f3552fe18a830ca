"""What is registered, and so moves and is saved; and which weights are shared."""

import io
from collections.abc import Mapping
from contextlib import suppress
from itertools import combinations
from posixpath import commonpath

import torch
from torch import Tensor, nn

from .hooks import close, stops_at
from .measures import change, spread
from .state import converted
from .structure import blocks, lists_of_modules, matrices
from .subject import Batch, Fails, Subject, Suspect, Unknown, named
from .suspects import REMEMBERS
from .verdict import BASIS, TOLERANCE, in_32_bits, module_of, property_check

LIST = "a plain list or dict of modules: take nn.ModuleList or nn.ModuleDict"
MADE_ELSEWHERE = "a tensor made without `device=`"
TENSOR = "a plain tensor: make it a buffer by `register_buffer`, or a parameter"
LOST = "something that it computes with is in no state: a tensor drawn at random"
UNTIED_BY_LOADING = (
    "tied before loading and no longer behind it: tie again, or copy into `.data`"
)
LISTED_TWICE = "the same module, listed twice: its weights are shared"
SHARED = "made once and shared by all layers: the same weights"
TWO_NAMES = "two names for the same weights: say `tied` if they are to be shared"
UNTIED = "should be tied to the other of the pair: one tensor to share"
COPIES = "layers that start as copies of one, the same weights: draw them anew"


# --- What moves -----------------------------------------------------------------------


@property_check("runs")
def state_moves(subject: Subject) -> str:
    """What the model computes with is registered: parameters, buffers, modules.

    Anything else stays behind when the model moves to another device. A plain tensor
    may be the output of an earlier call, or be moved by hand at every use. So a copy of
    it is put on the device "meta", which holds no numbers: if the model still runs, or
    says that it cannot fetch them, all is well. Then the whole model moves there, and
    the error tells a tensor that is made without `device=`. Holds for every model.
    """
    module = module_of(subject)
    batch = subject.sentences()
    before = {id(value) for part in module.modules() for value in vars(part).values()}
    subject.logits(*batch)  # what earlier calls leave behind is there from now on
    for owner_name, owner in module.named_modules():
        for name, value in [*vars(owner).items()]:
            if name.startswith("_") and isinstance(value, dict):
                continue  # Module's own tables of what is registered
            path = f"{owner_name}.{name}".lstrip(".")
            if _holds_modules(value) and not isinstance(value, nn.Module):
                raise Fails(
                    f"{path} is a plain {type(value).__name__} of modules: their "
                    "parameters are neither trained, moved nor saved",
                    [Suspect(path, LIST)],
                )
            if isinstance(value, Tensor) and _stays_behind(subject, owner, name, batch):
                made = TENSOR if id(value) in before else REMEMBERS
                raise Fails(
                    f"{path} is a plain tensor, no parameter and no buffer: it stays "
                    "behind when the model moves to another device",
                    [Suspect(path, made), Suspect(owner_name, made)],
                )
    moved = [side.to("meta") for side in batch]
    with converted(module, lambda tensor: tensor.to("meta")):
        try:
            subject.logits(*moved)
        except Fails as failure:
            # Or it asks for a number, which "meta" does not have.
            if "same device" in str(failure.__cause__):
                suspects = [Suspect(stops_at(subject, *moved), MADE_ELSEWHERE)]
                said = f"moved to another device, it mixes two: {failure}"
                raise Fails(said, suspects) from failure
    return "all it computes with moves with the model"


def _holds_modules(value: object) -> bool:
    """Whether value is a module, or a plain container with one in it."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, list | tuple):
        return any(map(_holds_modules, value))
    return isinstance(value, nn.Module)


def _stays_behind(subject: Subject, owner: nn.Module, name: str, batch: Batch) -> bool:
    """Whether the model fails once the plain tensor owner.name is elsewhere."""
    value = getattr(owner, name)
    setattr(owner, name, value.to("meta"))
    try:
        logits = subject.logits(*batch)
    except Fails as failure:
        return "out of meta tensor" not in str(failure.__cause__)
    finally:
        setattr(owner, name, value)
    return logits.device.type == "meta"


# --- What is saved --------------------------------------------------------------------


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
        places = _unsaved(subject.module, other.module) or [""]
        raise Fails(
            "after saving and loading, the logits differ by "
            f"{spread(moved.max().item())}",
            [Suspect(place, LOST) for place in places],
        )
    return "saved and loaded, the model gives the same logits"


def _unsaved(module: nn.Module, other: nn.Module) -> list[str]:
    """The owners of the buffers that are in no state and differ in another build."""
    saved, theirs = module.state_dict(), dict(other.named_buffers())
    both = {n: b for n, b in module.named_buffers() if n in theirs and n not in saved}
    return [_owner(n) for n, b in both.items() if close(b, theirs[n]) is not True]


def _reloaded(subject: Subject, other: Subject, batch: Batch) -> Tensor:
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
        left = _ties(other.module)
        for names in ties:
            if names not in left:
                raise Fails(
                    f"{' and '.join(names)} are one before loading, two after it",
                    [Suspect(_owner(name), UNTIED_BY_LOADING) for name in names],
                )
        return other.logits(*batch)


def _ties(module: nn.Module, prefix: str = "") -> list[list[str]]:
    """The names of parameters that are one tensor, in order."""
    names: dict[int, list[str]] = {}
    for name, p in module.named_parameters(prefix, remove_duplicate=False):
        names.setdefault(id(p), []).append(name)
    return [sorted(group) for group in names.values() if len(group) > 1]


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


# --- What is shared -------------------------------------------------------------------


@property_check("runs")
def weights_shared_as_meant(subject: Subject) -> str:
    """Layers have weights of their own, and what is said to be tied is one tensor.

    A module that is listed twice, or a sublayer that all layers share, halves the model
    in silence; so does a list of copies that start equal. Does not hold for models that
    list a layer twice on purpose: ALBERT, which calls one again and again, passes. One
    matrix under two names in a layer is a fault unless it is said to be `tied`.
    nn.TransformerEncoder starts its layers as copies, which is told as ○.
    """
    module = module_of(subject)
    lists = [*lists_of_modules(module)]
    for name, part in lists:
        children = [(f"{name}.{i}".lstrip("."), c) for i, c in part._modules.items()]
        for one, other in combinations(children, 2):
            _check_not_shared(*one, *other)
    for block in blocks(module):
        for first, second, *_ in _ties(block.module, block.name):
            if {first, second} not in [{*pair} for pair in subject.tied]:
                raise Fails(
                    f"{first} and {second} are one parameter",
                    [Suspect(_owner(name), TWO_NAMES) for name in (second, first)],
                )
    parameters = dict(module.named_parameters(remove_duplicate=False))
    for one, other in subject.tied:
        if parameters[one] is not parameters[other]:
            raise Fails(
                f"{one} and {other} should be one parameter and are two",
                [Suspect(_owner(name), UNTIED) for name in (one, other)],
            )
    for name, part in () if subject.trained else lists:
        _check_no_copies(name, part)
    if not lists and not subject.tied:
        raise Unknown("no list of layers is found, and nothing is said to be `tied`")
    return "no layer shares its weights with another, and what should be tied is"


def _check_not_shared(
    one: str, first: nn.Module, other: str, second: nn.Module
) -> None:
    """Raise Fails if two members of a list share a parameter."""
    theirs = {id(p): name for name, p in second.named_parameters()}
    shared = [
        (name, theirs[id(p)]) for name, p in first.named_parameters() if id(p) in theirs
    ]
    if not shared or type(first) is not type(second):
        return
    if first is second:
        raise Fails(
            f"{one} and {other} are the same module",
            [Suspect(name, LISTED_TWICE) for name in (other, one)],
        )
    ours, their = shared[0]
    # The smallest submodule that holds all that is shared, or the owner of the first.
    paths = [_owner(name).replace(".", "/") for _, name in shared]
    inner = commonpath(paths).replace("/", ".")
    parts = (f"{other}.{inner or _owner(their)}", f"{one}.{inner or _owner(ours)}")
    raise Fails(
        f"{one} and {other} share {len(shared)} parameters, {ours} among them",
        [Suspect(part.rstrip("."), SHARED) for part in parts],
    )


def _check_no_copies(name: str, part: nn.Module) -> None:
    """Raise Fails if the layers of a list start as copies of each other."""
    children = [*part.children()]
    if len(children) < 2 or len({type(child) for child in children}) > 1:
        return
    first, second = (matrices(child) for child in children[:2])
    random = any(m.numel() > 1 and m.std() > 0 for m in first)
    equal = all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    if not random or not equal or not [*children[0].children()]:
        return
    of_pytorch = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer
    if isinstance(children[0], of_pytorch):
        raise Unknown(
            f"the layers of {named(name)} start as copies of one, as PyTorch leaves "
            "them: draw their weights anew"
        )
    raise Fails(
        f"the layers of {name} start out equal",
        [Suspect(f"{name}.1", COPIES), Suspect(name, COPIES)],
    )
