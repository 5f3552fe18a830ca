"""Does every layer hand on its input, and what its attention adds?"""

from contextlib import nullcontext

import torch
from torch import Tensor, nn

from transformer_checkup.hooks import Call, close, disturbed, last_output, trace
from transformer_checkup.leaks import BASIS
from transformer_checkup.measures import other_words
from transformer_checkup.state import zeroed
from transformer_checkup.structure import (
    Block,
    blocks,
    is_attention,
    matrices,
    sublayers,
    values_of,
)
from transformer_checkup.subject import Fails, Subject, Suspect, Unknown, named
from transformer_checkup.verdict import module_of, property_check

STALE = (
    "its residual is lost: behind the feed-forward part, the layer adds to what it was "
    "given, not to what the attention left"
)


@property_check(*BASIS, rouse=True)
def residuals_carry(subject: Subject) -> str:
    """Each layer hands its input on, beside what its sublayers add.

    With all matrices of the layers at zero, every sublayer gives a constant; what comes
    out then still depends on what went in, position by position, if and only if each
    residual connection of the layer is there. This holds for norm first, norm last and
    parallel sublayers alike, and for gated ones. With the feed-forward part at zero,
    what an attention adds must come out too: a layer that returns x + mlp(y) where it
    means y + mlp(y) loses it. Layers are the members of a list of modules that have an
    attention inside; models without such lists are not judged.
    """
    module = module_of(subject)
    found = blocks(module)
    if not found:
        raise Unknown("no list of layers with attention inside is found")
    lost, seen = _lost(subject, found, [p for b in found for p in matrices(b.module)])
    if not seen:
        raise Unknown(
            f"{named(found[0].name)} and its like are never called with states: the "
            "model computes its layers elsewhere"
        )
    if not lost:
        for layer in seen:
            _check_branches(subject, layer)
        if len(seen) < len(found):
            missing = next(b for b in found if b not in seen)
            raise Unknown(
                f"{len(seen)} layers carry; {named(missing.name)} is not called"
            )
        return f"each of {len(found)} layers hands its input on"
    block = lost[0]
    raise Fails(
        f"once the sublayers of {named(block.name)} give constants, its output no "
        "longer depends on its input",
        suspects=_of_residual(subject, found, block),
    )


def _lost(
    subject: Subject, found: list[Block], zero: list[nn.Parameter]
) -> tuple[list[Block], list[Block]]:
    """The layers whose output does not move with their input while `zero` are 0.

    And all that could be looked at.
    """
    with zeroed(zero):
        runs = [trace(subject, *batch) for batch in _two_batches(subject)]
    calls = [{call.name: call for call in reversed(run)} for run in runs]
    lost, seen = [], []
    for block in found:
        if not all(block.name in run for run in calls):
            continue
        (states, out), (other_states, other_out) = (
            _through(r[block.name]) for r in calls
        )
        if out is not None and not out.isfinite().all():
            raise Unknown("its matrices cannot be taken as zero: that makes NaN")
        if states is None or close(states, other_states):
            continue
        seen.append(block)
        if close(out, other_out):
            lost.append(block)
    return lost, seen


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
                suspects=[Suspect(name, STALE), Suspect(block.name, STALE)],
            )


def _comes_out(
    subject: Subject, block: Block, name: str, zero: list[nn.Parameter]
) -> bool:
    """Whether noise in what a sublayer gives leaves its layer while `zero` are 0."""
    part, batch, ends = subject.module.get_submodule(name), subject.sentences(), []
    noisy = disturbed(part, lambda output: output + torch.randn_like(output))
    with zeroed(zero):
        for context in (nullcontext(), noisy):
            with context:
                ends.append(last_output(subject, block.name, *batch))
    known = all(end is not None and end.isfinite().all() for end in ends)
    return not known or close(*ends) is not True


def _reads_input(
    subject: Subject, own: list[nn.Parameter], rest: list[nn.Parameter]
) -> bool:
    """Whether what the first of `rest` is given moves with the words, `own` being 0."""
    wanted = {id(p) for p in rest}
    holders = {
        name
        for name, part in subject.module.named_modules()
        if any(id(p) in wanted for p in part.parameters(recurse=False))
    }
    given = []
    with zeroed(own):
        for batch in _two_batches(subject):
            calls = (
                c for c in trace(subject, *batch) if c.name in holders and c.inputs
            )
            given += [call.inputs[0] for call in list(calls)[:1]]
    return len(given) == 2 and close(*given) is False


def _two_batches(subject: Subject) -> list[tuple]:
    """Sentences, and others in their places."""
    source, target = subject.sentences()
    others = (
        None if source is None else other_words(subject, source, subject.source_vocab),
        None if target is None else other_words(subject, target, subject.target_vocab),
    )
    return [(source, target), others]


def _through(call: Call) -> tuple[Tensor | None, Tensor | None]:
    """A layer's output, and the input of its shape."""
    given = [t for t in call.inputs if t.is_floating_point()]
    for out in call.outputs:
        alike = [t for t in given if t.shape == out.shape and t.dim() == 3]
        if alike:
            return alike[0], out
    return None, None


def _of_residual(subject: Subject, found: list[Block], block: Block) -> list[Suspect]:
    """Around which sublayer: with its matrices alone, the input comes through."""
    everything = [p for b in found for p in matrices(b.module)]
    suspects, parts = [], sublayers(block)
    for name, own in parts if len(parts) > 1 else ():
        kept = {id(p) for p in own}
        others = [p for p in everything if id(p) not in kept]
        if block not in _lost(subject, [block], others)[0]:
            suspects.append(
                Suspect(
                    name, "its residual connection is lost: `x +` is missing around it"
                )
            )
    around = (
        "a residual connection is lost: `x +` is missing around one of its sublayers"
    )
    return [*suspects, Suspect(block.name, around)]
