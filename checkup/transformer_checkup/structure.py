"""Find the stacks of a model, their blocks, and a block's sublayers, by their form."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from torch import nn

from .hooks import Call

LISTS = (nn.ModuleList, nn.Sequential)
# q, wq, to_q, q_proj, query, qkv, kv_linear, …
MADE = re.compile(
    "(?:w_?|to_?|in_?)?(q|k|v|qkv|kv|query|key|value|queries|keys|values)"
    "(?:_?(?:proj|projection|lin|linear|layer|w|weight))?"
)


class Block(NamedTuple):
    """A layer of a stack."""

    name: str
    module: nn.Module


def lists_of_modules(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every ModuleList, Sequential and dict of layers, by name, the outer first."""
    for name, part in module.named_modules():
        of_layers = isinstance(part, nn.ModuleDict) and _is_stack(part)
        attending = of_layers and all(map(attends, part.children()))
        if isinstance(part, LISTS) or attending:
            yield name, part


def blocks(module: nn.Module) -> list[Block]:
    """The attention layers of the outermost lists of layers."""
    found: list[Block] = []
    for name, part in module.named_modules():
        inside = any(name.startswith(f"{block.name}.") for block in found)
        for key, child in part.named_children() if _is_stack(part) else ():
            if not inside and attends(child) and matrices(child):
                found.append(Block(f"{name}.{key}".lstrip("."), child))
    return found


def _is_stack(part: nn.Module) -> bool:
    """Whether a list has layers: of one class, or each with an attention inside.

    A dict is a list of layers only if two or more are of one class.
    """
    children = [*part.children()]
    alike = len({type(child) for child in children}) == 1
    if isinstance(part, nn.ModuleDict):
        return alike and len(part) > 1
    if not isinstance(part, LISTS):
        return False
    return alike or all(
        attends(child)
        and bool(matrices(child))
        and (is_layer(child) or not is_attention("", child))
        for child in children
    )


def attends(module: nn.Module) -> bool:
    """Whether a submodule is an attention, or the module is a layer that holds one."""
    inside = any(name and is_attention(name, m) for name, m in module.named_modules())
    return inside or is_layer(module)


def is_layer(module: nn.Module) -> bool:
    """Whether a module holds both an attention's matrices and a feed-forward part's.

    So a layer is told from a bare attention, whose residual may be outside of it.
    """
    return _makes_queries(module) and _feeds_forward(module)


def is_attention(name: str, module: nn.Module) -> bool:
    """Whether a module is an attention by its name or class, or by what it holds."""
    called = f"{name.rpartition('.')[2]} {type(module).__name__}".lower()
    return bool(re.search("att|mha|sdpa", called)) or _makes_queries(module)


def _makes_queries(module: nn.Module) -> bool:
    """Whether it holds what makes queries, keys and values, by their usual names."""
    names = [*module._parameters, *module._modules]
    letters = {found[1] for name in names if (found := MADE.fullmatch(name.lower()))}
    letters = {letter[0] if len(letter) > 3 else letter for letter in letters}
    return "qkv" in letters or ("q" in letters and bool({"k", "kv"} & letters))


def values_of(block: Block) -> list[str]:
    """The layers that make the values, or all three, in a block's own forward."""
    return [
        f"{block.name}.{name}"
        for name, part in block.module.named_children()
        if isinstance(part, nn.Linear)
        and (found := MADE.fullmatch(name.lower()))
        and "v" in found[1]
    ]


def _feeds_forward(module: nn.Module) -> bool:
    """Whether there are three matrices beside an attention's, two that widen."""
    own = {
        id(p)
        for names in (module._parameters, module._modules)
        for name, part in names.items()
        if MADE.fullmatch(name.lower())
        for p in ([part] if isinstance(part, nn.Parameter) else part.parameters())
    }
    others = [p for p in matrices(module) if id(p) not in own]
    wide = [p for p in others if p.dim() == 2 and p.size(0) != p.size(1)]
    return len(others) > 2 and len(wide) > 1


def is_norm(module: nn.Module) -> bool:
    """Whether a module is a normalisation by its class."""
    return "norm" in type(module).__name__.lower()


def matrices(module: nn.Module) -> list[nn.Parameter]:
    """The parameters of two axes or more, those of norms left out."""
    return [
        parameter
        for part in module.modules()
        if not is_norm(part)
        for parameter in part.parameters(recurse=False)
        if parameter.dim() > 1
    ]


def sublayers(block: Block) -> list[tuple[str, list[nn.Parameter]]]:
    """A block's attentions, and all its other matrices together, by name."""
    holders = [
        (f"{block.name}.{name}", child)
        for name, child in block.module.named_children()
        if matrices(child)
    ]
    if len(holders) == 1 and isinstance(holders[0][1], LISTS):  # as T5 nests them
        name, inner = holders[0]
        return [(f"{name}.{i}", matrices(child)) for i, child in enumerate(inner)]
    attentions = [(n, matrices(m)) for n, m in holders if is_attention(n, m)]
    rest = [(n, matrices(m)) for n, m in holders if not is_attention(n, m)]
    if rest:  # named after the last, at whose output the residual belongs
        attentions.append((rest[-1][0], [p for _, found in rest for p in found]))
    return attentions


def embeddings(calls: list[Call], tokens_shape: tuple[int, ...]) -> list[str]:
    """The innermost modules that take ids of this shape and give vectors."""
    found = [
        call.name
        for call in calls
        if any(tuple(t.shape) == tokens_shape for t in call.inputs)
        and not any(t.is_floating_point() for t in call.inputs)
        and any(t.is_floating_point() and t.dim() == 3 for t in call.outputs)
        and call.name
    ]
    return [n for n in found if not any(m.startswith(f"{n}.") for m in found)]
