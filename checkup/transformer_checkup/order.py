"""What must matter: the order of the words, and a position's own token."""

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_checkup.hooks import Call, along, close, trace
from transformer_checkup.leaks import BASIS, DECODES, changes_by_word
from transformer_checkup.measures import FAINT, change, in_double, other_words
from transformer_checkup.state import in_mode, shaken
from transformer_checkup.structure import Block, blocks, embeddings, is_attention
from transformer_checkup.subject import Fails, Subject, Suspect, Unknown, named, says
from transformer_checkup.verdict import TOLERANCE, property_check

PASSED_OVER = (
    "its causal mask is aligned with the wrong end, or its keys are repeated along the "
    "length in place of the heads"
)
LABELS = {1: "the next token", 2: "the next token but one", 0: "the token itself"}
SHIFTED = {
    2: "the labels are shifted twice: by whoever calls the loss, and by the loss",
    0: "the labels are not shifted: each token is asked for its own",
}
SHUFFLE = [0, 4, 2, 6, 1, 3, 5]  # and the rest in place: distances change too


@property_check(*BASIS, rouse=True)
def order_aware(subject: Subject) -> str:
    """The order of the words matters, on both sides.

    A decoder's causal mask alone tells its upper layers something of the order. So on
    that side the first layer is asked: with two earlier words exchanged, does it give
    the same at the end? Relative positions (T5's bias, rotary ones, ALiBi) pass, since
    they act there. All in double precision, so that faint weights are no rounding: to
    change the order must do a hundred-thousandth of what other words do. Where it does
    less, we ask again with noise in all weights, as positions may start even fainter.
    Does not hold for a decoder that does without positions on purpose, or gives them to
    later layers only: `skip=("order aware",)`.
    """
    batch = subject.sentences()
    with in_double(subject):
        try:
            _order_matters(subject, *batch)
        except Fails:
            if subject.module is None:
                raise
            with shaken(subject.module, 0.1):
                _order_matters(subject, *batch)
    sides = " and of the ".join(name for name, _ in subject.sides(*batch))
    return f"the order of the {sides} changes the logits"


def _order_matters(
    subject: Subject, source: Tensor | None, target: Tensor | None
) -> None:
    """Raise Fails if a side's order does not matter."""
    if source is not None:
        _source_order(subject, source, target)
    if target is not None:
        _target_order(subject, source, target)


def _source_order(subject: Subject, source: Tensor, target: Tensor | None) -> None:
    """Raise Fails if the encoder's side is a bag of words."""
    places = torch.tensor([*SHUFFLE, *range(len(SHUFFLE), source.size(1))])
    other = other_words(subject, source, subject.source_vocab)
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
            "whether the order of the target matters cannot be told without a module "
            "in which a list of layers with attention is found"
        )
    exchanged, other = target.clone(), target.clone()
    exchanged[:, [1, 3]] = target[:, [3, 1]]
    other[:, [1, 3]] = other_words(subject, target, subject.target_vocab)[:, [1, 3]]
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
    """The first attention inside a layer; of one in another the inner."""
    found = ""
    for name, part in block.module.named_modules():
        inner = name.startswith(f"{found}.") and any(part.children())
        if name and is_attention(name, part) and (not found or inner):
            found = name
    return f"{block.name}.{found}".rstrip(".")


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


@property_check(*BASIS, kinds=DECODES, rouse=True)
def reads_its_own_token(subject: Subject) -> str:
    """The logits at a position depend on the token there, and leave out none before it.

    They are those of the *next* token. Where they do not move with the position's own
    token, they come one place late: the target was shifted twice. Nor may a token be
    passed over that is nearer than another one that is read; a window passes, a
    dilated one does not. A `loss` is the mean cross-entropy of each token given those
    before it, to a thousandth of a nat. Holds for every model whose logits stand where
    `Subject` says.
    """
    batch = subject.sentences()
    with in_double(subject):
        changes = changes_by_word(subject, *batch)
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
    if not own.all():
        raise Unknown("no logits move with the token that stands there")
    _no_gap(subject, changes, batch)
    said = "every position's logits move with the token that stands there"
    return said if subject.loss is None else said + _check_loss(subject, batch)


def _no_gap(subject: Subject, changes: Tensor, batch: tuple) -> None:
    """Raise Fails if a token moves nothing at a later position that reads further."""
    for position, row in enumerate(changes[:, 1:], start=0):
        read = row[:position].nonzero().flatten() + 1
        passed = [k for k in range(1, position) if not row[k - 1] and read.numel()]
        passed = [k for k in passed if k > read[0]]
        if passed:
            block = _first_block(subject, trace(subject, *batch), batch[1])
            where = "" if block is None else _attention_in(block)
            raise Fails(
                f"the logits of position {position} move with token {int(read[0])}, "
                f"and not with token {passed[0]}, which is nearer",
                suspects=[Suspect(where, PASSED_OVER), Suspect("", PASSED_OVER)],
            )


def _check_loss(subject: Subject, batch: tuple) -> str:
    """Raise Fails if the loss is that of other labels than the next tokens."""
    with torch.no_grad(), in_mode(subject.module, training=False):
        try:
            loss = float(subject.loss(*(side for side in batch if side is not None)))
        except Exception as error:
            raise Fails(f"`loss` stops with {says(error)}") from error
    logits, target = subject.logits(*batch), batch[1]
    by_shift = {
        shift: F.cross_entropy(
            logits[:, : target.size(1) - shift].flatten(0, 1),
            target[:, shift:].flatten(),
        ).item()
        for shift in LABELS
    }
    near = [shift for shift, due in by_shift.items() if abs(loss - due) < 1e-3]
    if not near:
        return "; `loss` is no plain cross-entropy, and is not judged"
    if 1 not in near:
        raise Fails(
            f"`loss` is that of {LABELS[near[0]]}: ≈ {loss:.3f} nats, where the next "
            f"token's is ≈ {by_shift[1]:.3f}",
            suspects=[Suspect("", SHIFTED[near[0]])],
        )
    return ""
