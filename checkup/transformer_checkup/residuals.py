"""Does every layer hand on its input, and what its attention adds?"""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from .hooks import Call, close, disturbed, trace
from .measures import other_words
from .state import zeroed
from .structure import Block, blocks, is_attention, matrices, sublayers, values_of
from .subject import Fails, Subject, Suspect, Unknown, named
from .verdict import BASIS, module_of, property_check

STALE = (
    "its residual is lost: behind the feed-forward part, the layer adds to what it was "
    "given, not to what the attention left"
)
LOST = "its residual connection is lost: `x +` is missing around it"
LOST_INSIDE = (
    "a residual connection is lost: `x +` is missing around one of its sublayers"
)
Matrices = Sequence[nn.Parameter]


@property_check(*BASIS, rouse=True)
def residuals_carry(subject: Subject) -> str:
    """Each layer hands its input on, beside what its sublayers add.

    With all matrices of the layers at zero, every sublayer gives a constant; what comes
    out then still depends on what went in if and only if each residual connection of
    the layer is there, be it norm first, norm last, parallel or gated. With the
    feed-forward part at zero, what an attention adds must come out too: a layer that
    returns x + mlp(y) where it means y + mlp(y) loses it. Layers are the members of a
    list of modules that have an attention inside; other models are not judged.
    """
    found = blocks(module_of(subject))
    if not found:
        raise Unknown("no list of layers with attention inside is found")
    everything = [p for block in found for p in matrices(block.module)]
    carries = _carries(subject, found, everything)
    if not carries:
        raise Unknown(
            f"{named(found[0].name)} and its like are never called with states: the "
            "model computes its layers elsewhere"
        )
    for block in found:
        if carries.get(block.name) is False:
            raise Fails(
                f"once the sublayers of {named(block.name)} give constants, its output "
                "no longer depends on its input",
                _of_residual(subject, block, everything),
            )
    for block in found:
        if block.name in carries:
            _check_branches(subject, block)
    missing = [block.name for block in found if block.name not in carries]
    if missing:
        raise Unknown(f"{len(carries)} layers carry; {named(missing[0])} is not called")
    return f"each of {len(found)} layers hands its input on"


def _carries(subject: Subject, found: list[Block], zero: Matrices) -> dict[str, bool]:
    """Whether a layer's output moves with its input while `zero` are 0, by its name.

    Of those that could be looked at.
    """
    batch = subject.sentences()
    with zeroed(subject.module, zero):
        runs = [trace(subject, *b) for b in (batch, other_words(subject, batch))]
    calls = [{call.name: call for call in reversed(run)} for run in runs]
    carries = {}
    for block in found:
        if any(block.name not in run for run in calls):
            continue
        (states, out), (others, other_out) = (_through(r[block.name]) for r in calls)
        if out is not None and not out.isfinite().all():
            raise Unknown("its matrices cannot be taken as zero: that makes NaN")
        if states is not None and not close(states, others):
            carries[block.name] = not close(out, other_out)
    return carries


def _through(call: Call) -> tuple[Tensor | None, Tensor | None]:
    """The input of the shape of a layer's output, and that output."""
    given = [t for t in call.inputs if t.is_floating_point()]
    for out in call.outputs:
        alike = [t for t in given if t.shape == out.shape and t.dim() == 3]
        if alike:
            return alike[0], out
    return None, None


def _of_residual(subject: Subject, block: Block, everything: Matrices) -> list[Suspect]:
    """Around which sublayer: with its matrices alone, the input comes through."""
    suspects, parts = [], sublayers(block)
    for name, own in parts if len(parts) > 1 else ():
        kept = {id(p) for p in own}
        others = [p for p in everything if id(p) not in kept]
        if _carries(subject, [block], others).get(block.name) is not False:
            suspects.append(Suspect(name, LOST))
    return [*suspects, Suspect(block.name, LOST_INSIDE)]


def _check_branches(subject: Subject, block: Block) -> None:
    """Raise Fails if what an attention adds goes to the feed-forward part alone.

    Each of that part's matrices then stands in its way, although the layer's own input
    reaches that part without the attention.
    """
    parts, module = dict(sublayers(block)), subject.module
    names = [n for n in parts if is_attention(n, module.get_submodule(n))]
    rest = [p for n, own in parts.items() if n not in names for p in own]
    values = [] if names else values_of(block)
    if values:  # its attention is no module: what widens is the feed-forward part
        rest = [p for p in matrices(block.module) if p.size(0) != p.size(-1)]
        own = [p for p in matrices(block.module) if all(p is not q for q in rest)]
        names, parts = values, dict.fromkeys(values, own)
    for name in names if rest else ():
        if _comes_out(subject, block, name, rest):
            continue
        apart = any(_comes_out(subject, block, name, [p]) for p in rest)
        if apart or not _comes_out(subject, block, name, []):
            continue
        if _reads_input(subject, parts[name], rest):
            raise Fails(
                f"what {named(name)} adds comes out of its layer through the "
                "feed-forward part alone",
                [Suspect(name, STALE), Suspect(block.name, STALE)],
            )


def _comes_out(subject: Subject, block: Block, name: str, zero: Matrices) -> bool:
    """Whether noise in what a sublayer gives leaves its layer while `zero` are 0."""
    part, ends = subject.module.get_submodule(name), []
    noisy = disturbed(part, lambda output: output + torch.randn_like(output))
    with zeroed(subject.module, zero):
        for context in (nullcontext(), noisy):
            with context:
                calls = trace(subject, *subject.sentences())
            ends += [c.outputs[0] for c in calls if c.name == block.name][-1:]
    known = len(ends) == 2 and all(end.isfinite().all() for end in ends)
    return not known or close(*ends) is not True


def _reads_input(subject: Subject, own: Matrices, rest: Matrices) -> bool:
    """Whether what the first of `rest` is given moves with the words, `own` being 0."""
    wanted = {id(p) for p in rest}
    holders = {
        name
        for name, part in subject.module.named_modules()
        if any(id(p) in wanted for p in part.parameters(recurse=False))
    }
    batch, given = subject.sentences(), []
    with zeroed(subject.module, own):
        for sides in (batch, other_words(subject, batch)):
            calls = trace(subject, *sides)
            inputs = [c.inputs[0] for c in calls if c.name in holders and c.inputs]
            given += inputs[:1]
    return len(given) == 2 and close(*given) is False
