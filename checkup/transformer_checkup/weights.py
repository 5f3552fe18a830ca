"""Which layers share their weights, and whether they are meant to."""

from itertools import combinations

import torch
from torch import nn

from transformer_checkup.structure import Block, blocks, lists_of_modules, matrices
from transformer_checkup.subject import Fails, Subject, Suspect, Unknown, named
from transformer_checkup.verdict import module_of, property_check


@property_check("runs")
def weights_shared_as_meant(subject: Subject) -> str:
    """Layers have weights of their own, and what is said to be tied is one tensor.

    A module that is listed twice, or a sublayer that all layers share, halves the model
    in silence; so does a list of copies that start equal and get equal gradients. Does
    not hold for models that share layers on purpose, by listing one twice: ALBERT,
    which calls one layer again and again, passes. `tied` names pairs of parameters that
    must be one, within a layer too, where one matrix under two names is a fault unless
    it is said to be tied. nn.TransformerEncoder starts its layers as copies, which is
    told as ○.
    """
    module, lists = module_of(subject), [*lists_of_modules(subject.module)]
    for name, part in lists:
        children = [(f"{name}.{i}".lstrip("."), c) for i, c in part._modules.items()]
        for (one, first), (other, second) in combinations(children, 2):
            _not_the_same(one, first, other, second)
    for block in blocks(module):
        _not_under_two_names(block, {frozenset(pair) for pair in subject.tied})
    named_parameters = dict(module.named_parameters(remove_duplicate=False))
    for one, other in subject.tied:
        if named_parameters[one] is not named_parameters[other]:
            untied = "should be tied to the other of the pair: one tensor to share"
            raise Fails(
                f"{one} and {other} should be one parameter and are two",
                suspects=[Suspect(p.rpartition(".")[0], untied) for p in (one, other)],
            )
    if not subject.trained:
        _no_copies(lists)
    if not lists and not subject.tied:
        raise Unknown("no list of layers is found, and nothing is said to be `tied`")
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


def _not_under_two_names(block: Block, tied: set[frozenset[str]]) -> None:
    """Raise Fails if a layer has one parameter in two places."""
    names: dict[int, str] = {}
    for name, p in block.module.named_parameters(block.name, remove_duplicate=False):
        first = names.setdefault(id(p), name)
        if first != name and frozenset((first, name)) not in tied:
            what = "two names for the same weights: say `tied` if they are to be shared"
            places = [path.rpartition(".")[0] for path in (name, first)]
            raise Fails(
                f"{first} and {name} are one parameter",
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


def _no_copies(lists: list[tuple[str, nn.Module]]) -> None:
    """Raise Fails if the layers of a list start as copies of each other."""
    for name, part in lists:
        children = [*part.children()]
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
