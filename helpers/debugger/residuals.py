"""Does every layer hand its input on, beside what its sublayers add?"""

from torch import Tensor, nn

from helpers.debugger.hooks import Call, close, trace
from helpers.debugger.leaks import BASIS
from helpers.debugger.measures import other_words
from helpers.debugger.state import zeroed
from helpers.debugger.structure import Block, blocks, matrices, sublayers
from helpers.debugger.subject import Fails, Subject, Suspect, Unknown, named
from helpers.debugger.verdict import module_of, property_check


@property_check(*BASIS)
def residuals_carry(subject: Subject) -> str:
    """Each layer hands its input on, beside what its sublayers add.

    With all matrices of the layers at zero, every sublayer gives a constant; what comes
    out then still depends on what went in, position by position, if and only if each
    residual connection of the layer is there. This holds for norm first, norm last and
    parallel sublayers alike, and for gated ones. Layers are the members of a list of
    modules that have an attention inside; models without such lists are not judged.
    """
    module = module_of(subject)
    found = blocks(module)
    if not found:
        raise Unknown("no list of layers with attention inside is found")
    lost = _lost(subject, found, [p for b in found for p in matrices(b.module)])
    if not lost:
        return f"each of {len(found)} layers hands its input on"
    block = lost[0]
    raise Fails(
        f"once the sublayers of {named(block.name)} give constants, its output no "
        "longer depends on its input",
        suspects=_of_residual(subject, found, block),
    )


def _lost(
    subject: Subject, found: list[Block], zero: list[nn.Parameter]
) -> list[Block]:
    """The layers whose output does not move with their input while `zero` are 0."""
    source, target = subject.sentences()
    others = (
        None if source is None else other_words(source, subject.source_vocab),
        None if target is None else other_words(target, subject.target_vocab),
    )
    with zeroed(zero):
        runs = [trace(subject, *batch) for batch in ((source, target), others)]
    calls = [{call.name: call for call in reversed(run)} for run in runs]
    lost = []
    for block in found:
        if not all(block.name in run for run in calls):
            continue
        (states, out), (other_states, other_out) = (
            _through(r[block.name]) for r in calls
        )
        if (
            states is not None
            and not close(states, other_states)
            and close(out, other_out)
        ):
            lost.append(block)
    return lost


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
    suspects = []
    for name, own in sublayers(block):
        kept = {id(p) for p in own}
        if block not in _lost(
            subject, [block], [p for p in everything if id(p) not in kept]
        ):
            suspects.append(
                Suspect(
                    name, "its residual connection is lost: `x +` is missing around it"
                )
            )
    around = (
        "a residual connection is lost: `x +` is missing around one of its sublayers"
    )
    return [*suspects, Suspect(block.name, around)]
