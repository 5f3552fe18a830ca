"""Find the stacks of a model, their blocks, and a block's sublayers, by their form."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from helpers.debugger.hooks import Call

LISTS = (nn.ModuleList, nn.Sequential)


@dataclass(frozen=True)
class Block:
    """A layer of a stack: its name, the module, and the name of the stack."""

    name: str
    module: nn.Module
    stack: str


def lists_of_modules(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every ModuleList and Sequential, by name, the outer before the inner."""
    for name, part in module.named_modules():
        if isinstance(part, LISTS):
            yield name, part


def blocks(module: nn.Module) -> list[Block]:
    """The attention layers of the outermost lists of modules of one class."""
    found: list[Block] = []
    for name, part in lists_of_modules(module):
        inside = any(name.startswith(f"{block.name}.") for block in found)
        if inside or len({type(child) for child in part}) != 1:
            continue
        made = [
            Block(f"{name}.{i}".lstrip("."), child, name)
            for i, child in enumerate(part)
            if attends(child) and matrices(child)
        ]
        found += made
    return found


def attends(module: nn.Module) -> bool:
    """Whether the name or class of a submodule says attention."""
    return any(
        "att" in f"{name.rpartition('.')[2]} {type(part).__name__}".lower()
        for name, part in module.named_modules()
        if name
    )


def is_attention(name: str, module: nn.Module) -> bool:
    """Whether a module is an attention by its own name or class."""
    return "att" in f"{name.rpartition('.')[2]} {type(module).__name__}".lower()


def is_norm(module: nn.Module | None) -> bool:
    """Whether a module is a normalisation by its class."""
    return module is not None and "norm" in type(module).__name__.lower()


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
