"""What must matter: the order of the words, and a position's own token; any length."""

import torch
from torch import Tensor, nn

from helpers.debugger.hooks import Call, along, close, trace
from helpers.debugger.hooks import where_it_stops as stops_at
from helpers.debugger.leaks import BASIS, DECODES, changes_by_word
from helpers.debugger.measures import change, in_double, other_words, spread
from helpers.debugger.state import in_mode
from helpers.debugger.structure import Block, blocks, embeddings, is_attention
from helpers.debugger.subject import Fails, Subject, Suspect, Unknown, named
from helpers.debugger.verdict import TOLERANCE, property_check

# A model with faint weights moves its logits by order far less than by words.
FAINT = 1e-5
SHUFFLE = [0, 4, 2, 6, 1, 3, 5]  # and the rest in place: distances change too


@property_check("runs", "finite")
def length_generic(subject: Subject) -> str:
    """The model takes sentences of any length, and of different ones on its sides.

    Up to `longest`. A learned table of positions has an end, and a model may refuse
    longer sentences by a ValueError: then ○ says how long they may be. To have no more
    asked of such a model, say `longest=`. A mask of fixed size is a fault.
    """
    longest = subject.longest
    for lengths in ((1, 1), (1, 5), (6, 2), (longest, 3), (2, longest)):
        batch = subject.sentences(*lengths, rows=2)
        try:
            logits = subject.logits(*batch)
        except Fails as failure:
            raise _too_long(subject, batch, failure) from failure
        if not logits.isfinite().all():
            raise Fails(f"for lengths {lengths} (source, target) not all are finite")
    return f"it takes every pair of lengths that was tried, from 1 to {longest}"


def _too_long(subject: Subject, batch: tuple, failure: Fails) -> Fails | Unknown:
    """What to say of a model that stops: a fault, or the end of a learned table."""
    where, most = stops_at(subject, *batch) or "", _limit(subject)
    if most == subject.longest:
        return Fails(f"{failure}; two sides of one length it does take")
    if isinstance(failure.__cause__, ValueError) or _is_table(subject, where, most):
        return Unknown(
            f"it takes {most} tokens at most: say longest={most} if so meant"
        )
    fixed = "a mask or a table of fixed size, too short for longer sentences"
    return Fails(
        f"{failure}; {most} tokens are the most it takes",
        suspects=[Suspect(where, fixed)],
    )


def _is_table(subject: Subject, where: str, most: int) -> bool:
    """Whether the model stopped in a learned table of about that many positions."""
    if not where:
        return False
    module = subject.module.get_submodule(where)
    return isinstance(module, nn.Embedding) and 0 <= module.num_embeddings - most <= 2


def _limit(subject: Subject) -> int:
    """How long the sentences of both sides may be, found by halving."""
    fits, fails = 0, subject.longest + 1
    while fails - fits > 1:
        middle = (fits + fails) // 2
        try:
            subject.logits(*subject.sentences(middle, middle, rows=2))
            fits = middle
        except Fails:
            fails = middle
    return fits


@property_check(*BASIS)
def order_aware(subject: Subject) -> str:
    """The order of the words matters, on both sides.

    A decoder's causal mask alone tells its upper layers something of the order. So on
    that side the first layer is asked: with two earlier words exchanged, does it give
    the same at the end? Relative positions (T5's bias, rotary ones, ALiBi) pass, since
    they act there. All in double precision, so that faint weights are no rounding: to
    change the order must do a hundred-thousandth of what other words do. Does not hold
    for a decoder that does without positions on purpose, or gives them to later layers
    only: `skip=("order aware",)`.
    """
    source, target = subject.sentences()
    with in_double(subject):
        if source is not None:
            _source_order(subject, source, target)
        if target is not None:
            _target_order(subject, source, target)
    sides = " and of the ".join(name for name, _ in subject.sides(source, target))
    return f"the order of the {sides} changes the logits"


def _source_order(subject: Subject, source: Tensor, target: Tensor | None) -> None:
    """Raise Fails if the encoder's side is a bag of words."""
    places = torch.tensor([*SHUFFLE, *range(len(SHUFFLE), source.size(1))])
    other = other_words(source, subject.source_vocab)
    before, shuffled, changed = (
        subject.logits(side, target) for side in (source, source[:, places], other)
    )
    if subject.kind == "encoder":  # the same states, in the new order
        before = before[:, places]
    by_order, by_words = (change(before, x).max() for x in (shuffled, changed))
    if by_order > FAINT * by_words:
        return
    calls = trace(subject, source, target)
    if by_words < FAINT:
        raise Fails(
            "the source does not matter at all", suspects=_of_memory(calls, source)
        )
    raise Fails(
        "the source in another order gives the same logits",
        suspects=_of_positions(subject, calls, source, "source"),
    )


def _of_memory(calls: list[Call], source: Tensor) -> list[Suspect]:
    """Who should read what the encoder gives."""
    read = [
        c.name
        for c in calls
        if c.name and any(along(t, source.size(1)) is not None for t in c.outputs)
    ]
    encoder = read[-1] if read else ""
    return [
        Suspect(
            encoder,
            "its output, the memory, is not read: is the decoder handed "
            "another tensor in its place?",
        ),
        Suspect(
            "",
            "the cross-attention's keys and values are not made of the source's memory",
        ),
    ]


def _target_order(subject: Subject, source: Tensor | None, target: Tensor) -> None:
    """Raise Fails if the decoder's first layer takes its input for a bag of words."""
    same = target[:, 1:2].expand(-1, target.size(1))  # one word, again and again
    logits = subject.logits(source, same)
    alike = (logits - logits[:, :1]).abs().max() <= TOLERANCE * logits.std()
    if not alike:
        return  # positions are added to the words
    calls = trace(subject, source, target)
    block = _first_block(subject, calls, target)
    if block is None:
        raise Unknown(
            "the order of the source matters; whether the target's does cannot be told "
            "without a module whose layers are in a list"
        )
    exchanged, other = target.clone(), target.clone()
    exchanged[:, [1, 3]] = target[:, [3, 1]]
    other[:, [1, 3]] = other_words(target, subject.target_vocab)[:, [1, 3]]
    at_end = [_at_end(subject, block, source, t) for t in (target, exchanged, other)]
    if close(at_end[0], at_end[1]) and not close(at_end[0], at_end[2]):
        raise Fails(
            "two words of the target exchanged give the same at its end, in "
            f"{named(block.name)}: only the causal mask tells their order",
            suspects=_of_positions(subject, calls, target, "target"),
        )


def _first_block(subject: Subject, calls: list[Call], tokens: Tensor) -> Block | None:
    """The first layer that gives something of the length of these tokens."""
    if subject.module is None:
        return None
    found = {block.name: block for block in blocks(subject.module)}
    for call in calls:
        lengths = [along(t, tokens.size(1)) for t in call.outputs]
        if call.name in found and any(axis is not None for axis in lengths):
            return found[call.name]
    return None


def _attention_in(block: Block) -> str:
    """The first attention inside a layer."""
    for name, part in block.module.named_modules():
        if name and is_attention(name, part):
            return f"{block.name}.{name}"
    return block.name


def _at_end(
    subject: Subject, block: Block, source: Tensor | None, target: Tensor
) -> Tensor:
    """What a layer gives at the last position."""
    for call in trace(subject, source, target):
        if call.name == block.name:
            (states, *_) = (
                t for t in call.outputs if along(t, target.size(1)) is not None
            )
            return states.select(along(states, target.size(1)), -1)
    raise Unknown(f"{named(block.name)} is not called")


def _of_positions(
    subject: Subject, calls: list[Call], tokens: Tensor, side: str
) -> list[Suspect]:
    """Between which two modules the positions should come in."""
    names = embeddings(calls, tuple(tokens.shape))
    lost = f"the {side}'s positions are not added behind it, or all are the same"
    suspects = [Suspect(name, lost) for name in names[:1]]
    if subject.module is not None:
        block = _first_block(subject, calls, tokens)
        never = f"it is handed the {side} without positions, and adds no relative ones"
        if block is not None:
            suspects.append(Suspect(_attention_in(block), never))
    return suspects or [Suspect("", lost.replace(" behind it", ""))]


@property_check(*BASIS, kinds=DECODES)
def reads_its_own_token(subject: Subject) -> str:
    """The logits at a position depend on the token that stands there.

    They are those of the *next* token. Where they do not move with the position's own
    token, they come one place late: the target was shifted twice. Holds for every model
    whose logits stand where `Subject` says.
    """
    changes = changes_by_word(subject, *subject.sentences())
    own, late = changes.diagonal()[1:], changes.diagonal(-1)[1:]
    if own.max() <= TOLERANCE < late.max():
        raise Fails(
            "no position's logits move with its own token, but those after it do: they "
            "come one place late",
            suspects=[
                Suspect(
                    "",
                    "the target is shifted once more inside: hand it over as it "
                    "is, and shift the labels only",
                ),
                Suspect("", "the logits are shifted before they are given back"),
            ],
        )
    return "every position's logits move with the token that stands there"


@property_check(*BASIS, kinds=("encoder-decoder",))
def steps_equal_parallel(subject: Subject) -> str:
    """Decoding token by token gives the logits of all tokens at once.

    Holds for every model whose caches are right.
    """
    if subject.steps is None:
        raise Unknown("no `steps` given")
    source, target = subject.sentences()
    with in_mode(subject.module, training=False), torch.no_grad():
        steps = subject.call(subject.steps, source, target)
    changes = change(subject.logits(source, target), steps)
    wrong = (changes > TOLERANCE).any(0).nonzero()
    if len(wrong):
        raise Fails(
            "step by step, the logits differ by up to "
            f"{spread(changes.max().item())}, first at position {int(wrong[0])}",
            suspects=[
                Suspect("", "positions that start anew with the cache at every step"),
                Suspect(
                    "",
                    "a cache that is overwritten, or a mask that only the "
                    "parallel run gets",
                ),
            ],
        )
    return "step by step and all at once the logits are the same"
