"""Do all layers of the decoder read the source?"""

import torch
from torch import Tensor

from transformer_checkup.hooks import Call, along, trace
from transformer_checkup.leaks import BASIS
from transformer_checkup.measures import change, in_double
from transformer_checkup.state import zeroed
from transformer_checkup.structure import Block, blocks, is_attention, matrices
from transformer_checkup.subject import Fails, Subject, Suspect, Unknown, named
from transformer_checkup.suspects import OF_TARGET
from transformer_checkup.verdict import module_of, property_check

NARROW = "its mask hides part of the source from early positions: is it a causal one?"


@property_check(*BASIS, kinds=("encoder-decoder",))
def layers_read_the_source(subject: Subject) -> str:
    """What one layer's cross-attention is handed, the others' are handed too.

    A cross-attention that is given the target twice leaves a sound model, only one that
    reads the source in fewer layers; so its siblings are asked, the modules of the same
    name and class in the other layers of the stack. Does not hold for layers that read
    the source by turns with modules of one name; those that hand it over in another
    form than (batch, length, features), or (length, batch, features), are not judged.
    Nor may each position of the target read more of the source than those before it.
    """
    module = module_of(subject)
    source, target = subject.sentences()
    calls = {call.name: call for call in trace(subject, source, target)}
    stacks: dict[str, list[Block]] = {}
    for block in blocks(module):
        call = calls.get(block.name)
        if call is not None and _has(call.outputs, target.size(1)):
            stacks.setdefault(block.stack, []).append(block)
    read = [
        f"{layers[0].name}.{name}"
        for layers in stacks.values()
        for name, _ in layers[0].module.named_modules()
        if name and _of_one_mind(layers, name, calls, source.size(1))
    ]
    if not read:
        raise Unknown("no list of layers with cross-attention inside is found")
    _reads_all(subject, read, source, target)
    return "what one layer's cross-attention is handed, the others' are handed too"


def _reads_all(
    subject: Subject, readers: list[str], source: Tensor, target: Tensor
) -> None:
    """Raise Fails if positions read ever more of the source, the first not all.

    The encoder's layers are at zero meanwhile, so that none tells what others say.
    """
    module, length = subject.module, target.size(1)
    with in_double(subject):
        calls = {c.name: c for c in trace(subject, source, target)}
        encoder = [b for b in blocks(module) if b.name in calls]
        encoder = [b for b in encoder if not _has(calls[b.name].outputs, length)]
        with zeroed([m for block in encoder for m in matrices(block.module)]):
            before, moved = subject.logits(source, target), []
            for place in range(source.size(1)):
                other, words = source.clone(), source[:, place]
                other[:, place] = subject.next_words(words, subject.source_vocab)
                moved.append(change(before, subject.logits(other, target)).amax(0))
    reads = torch.stack(moved) > 0  # (source places, target positions)
    blind = (reads.any(1) & ~reads[:, 0]).nonzero().flatten()
    grows = bool((reads[:, :-1] <= reads[:, 1:]).all())  # as a causal mask lets it
    if len(blind) and grows:
        parts = [n for n in readers if is_attention(n, module.get_submodule(n))]
        raise Fails(
            f"source word {int(blind[0])} moves later positions of the target and not "
            "the first",
            suspects=[Suspect((parts or readers)[0], NARROW)],
        )


def _of_one_mind(
    layers: list[Block], name: str, calls: dict[str, Call], length: int
) -> bool:
    """Whether these parts are handed the source; Fails if only some of them are."""
    kind = type(layers[0].module.get_submodule(name))
    handed = {
        path: _has(calls[path].inputs, length)
        for path, part in (
            (f"{layer.name}.{name}", dict(layer.module.named_modules()).get(name))
            for layer in layers
        )
        if path in calls and type(part) is kind
    }
    others = [path for path, reads in handed.items() if not reads]
    if others and len(others) < len(handed):
        reader = next(path for path, reads in handed.items() if reads)
        raise Fails(
            f"{named(reader)} is handed the source, {named(others[0])} is not",
            suspects=[Suspect(others[0], OF_TARGET)],
        )
    return bool(handed) and not others


def _has(tensors: list, length: int) -> bool:
    """Whether one of these has positions of this number."""
    return any(along(t, length) is not None for t in tensors)
