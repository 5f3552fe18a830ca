"""Do all layers of the decoder read the source?"""

import torch

from .hooks import Call, has_states, trace
from .measures import change, exactly
from .state import zeroed
from .structure import Block, blocks, is_attention, matrices
from .subject import Fails, Subject, Suspect, Unknown, named
from .suspects import OF_TARGET
from .verdict import BASIS, module_of, property_check

NARROW = "its mask hides part of the source from early positions: is it a causal one?"


@property_check(*BASIS, kinds=("encoder-decoder",))
def layers_read_the_source(subject: Subject) -> str:
    """What one layer's cross-attention is handed, the others' are handed too.

    A cross-attention that is given the target twice leaves a sound model that reads the
    source in fewer layers; so its siblings are asked, the modules of the same name and
    class in the other layers of the stack. Does not hold for layers that read the
    source by turns with modules of one name. Nor may each position of the target read
    more of the source than those before it.
    """
    module = module_of(subject)
    source, target = subject.sentences()
    calls = {call.name: call for call in trace(subject, source, target)}
    called = [block for block in blocks(module) if block.name in calls]
    decoder = [b for b in called if has_states(calls[b.name].outputs, target.size(1))]
    stacks: dict[str, list[Block]] = {}
    for block in decoder:
        stacks.setdefault(block.name.rpartition(".")[0], []).append(block)
    read = [
        f"{layers[0].name}.{name}"
        for layers in stacks.values()
        for name, _ in layers[0].module.named_modules()
        if name and _of_one_mind(layers, name, calls, source.size(1))
    ]
    if not read:
        raise Unknown("no list of layers with cross-attention inside is found")
    encoder = [block.name for block in called if block not in decoder]
    _reads_all(subject, read, encoder)
    return "what one layer's cross-attention is handed, the others' are handed too"


def _of_one_mind(
    layers: list[Block], name: str, calls: dict[str, Call], length: int
) -> bool:
    """Whether these parts are handed the source; Fails if only some of them are."""
    kind = type(layers[0].module.get_submodule(name))
    alike = [
        f"{layer.name}.{name}"
        for layer in layers
        if type(dict(layer.module.named_modules()).get(name)) is kind
    ]
    handed = {
        path: has_states(calls[path].inputs, length) for path in alike if path in calls
    }
    reading = [path for path, reads in handed.items() if reads]
    others = [path for path, reads in handed.items() if not reads]
    if reading and others:
        raise Fails(
            f"{named(reading[0])} is handed the source, {named(others[0])} is not",
            [Suspect(others[0], OF_TARGET)],
        )
    return bool(reading)


def _reads_all(subject: Subject, readers: list[str], encoder: list[str]) -> None:
    """Raise Fails if positions read ever more of the source, the first not all.

    The encoder's layers are at zero meanwhile, so that none tells what others say.
    """
    module, (source, target) = subject.module, subject.sentences()
    with exactly(subject):
        silent = [m for name in encoder for m in matrices(module.get_submodule(name))]
        with zeroed(module, silent):
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
            [Suspect((parts or readers)[0], NARROW)],
        )
