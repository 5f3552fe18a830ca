"""What must matter: the order of the words, and a position's own token."""

import torch
from torch import Tensor
from torch.nn import functional as F

from .hooks import Call, along, close, has_states, trace
from .leaks import changes_by_word
from .measures import FAINT, change, exactly, other_words
from .state import in_mode, shaken
from .structure import Block, blocks, embeddings, is_attention
from .subject import Batch, Fails, Subject, Suspect, Unknown, named, says
from .verdict import BASIS, DECODES, TOLERANCE, property_check

UNREAD = "its output, the memory, is not read: is the decoder handed another tensor?"
NOT_OF_SOURCE = (
    "the cross-attention's keys and values are not made of the source's memory"
)
PASSED_OVER = (
    "its causal mask is aligned with the wrong end, or its keys are repeated along the "
    "length in place of the heads"
)
SHIFTED_INSIDE = (
    "the target is shifted once more inside: hand it over as it is, and shift the "
    "labels only"
)
SHIFTED_LOGITS = "the logits are shifted before they are given back"
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
    the same at the end? Relative positions pass, since they act there. To change the
    order must do a hundred-thousandth of what other words do, in double precision.
    Where it does less, we ask again with noise in all weights, as positions may start
    faint. Does not hold for a decoder that does without positions on purpose, or gives
    them to later layers only: `skip=("order aware",)`.
    """
    with exactly(subject):
        try:
            _order_matters(subject)
        except Fails:
            if subject.module is None:
                raise
            with shaken(subject.module, 0.1):
                _order_matters(subject)
    return f"the order of the {' and of the '.join(subject.sides)} changes the logits"


def _order_matters(subject: Subject) -> None:
    """Raise Fails if a side's order does not matter."""
    batch = subject.sentences()
    if "source" in subject.sides:
        _source_order(subject, batch)
    if "target" in subject.sides:
        _target_order(subject, batch)


def _source_order(subject: Subject, batch: Batch) -> None:
    """Raise Fails if the encoder's side is a bag of words."""
    source, *target = batch
    places = torch.tensor([*SHUFFLE, *range(len(SHUFFLE), source.size(1))])
    other = other_words(subject, batch)[0]
    before, shuffled, changed = (
        subject.logits(side, *target) for side in (source, source[:, places], other)
    )
    if subject.kind == "encoder":  # the same states, in the new order
        before = before[:, places]
    by_order, by_words = (change(before, x).max() for x in (shuffled, changed))
    if by_order > FAINT * by_words:
        return
    calls = trace(subject, *batch)
    if by_words >= FAINT:
        raise Fails(
            "the source in another order gives the same logits",
            _of_positions(subject, calls, source, "source"),
        )
    encoded = [
        c.name for c in calls if has_states(c.outputs, source.size(1)) and c.name
    ]
    memory = encoded[-1] if encoded else ""
    suspects = [Suspect(memory, UNREAD), Suspect("", NOT_OF_SOURCE)]
    raise Fails("the source does not matter at all", suspects)


def _target_order(subject: Subject, batch: Batch) -> None:
    """Raise Fails if the decoder's first layer takes its input for a bag of words."""
    *source, target = batch
    same = target[:, 1:2].expand(-1, target.size(1))  # one word, again and again
    logits = subject.logits(*source, same)
    if (logits - logits[:, :1]).abs().max() > TOLERANCE * logits.std():
        return  # positions are added to the words
    calls = trace(subject, *batch)
    block = _first_block(subject, calls, target)
    if block is None:
        raise Unknown(
            "whether the order of the target matters cannot be told without a module "
            "in which a list of layers with attention is found"
        )
    exchanged, other = target.clone(), target.clone()
    exchanged[:, [1, 3]] = target[:, [3, 1]]
    other[:, [1, 3]] = other_words(subject, batch)[-1][:, [1, 3]]
    before, by_order, by_words = (
        _at_end(subject, block, *source, t) for t in (target, exchanged, other)
    )
    if close(before, by_order) and not close(before, by_words):
        raise Fails(
            "two words of the target exchanged give the same at its end, in "
            f"{named(block.name)}: only the causal mask tells their order",
            _of_positions(subject, calls, target, "target"),
        )


def _first_block(subject: Subject, calls: list[Call], tokens: Tensor) -> Block | None:
    """The first layer that gives something of the length of these tokens."""
    found = blocks(subject.module) if subject.module is not None else []
    layers = {block.name: block for block in found}
    for call in calls:
        if call.name in layers and has_states(call.outputs, tokens.size(1)):
            return layers[call.name]
    return None


def _at_end(subject: Subject, block: Block, *batch: Tensor) -> Tensor:
    """What a layer gives at the last position of the target."""
    call = next(c for c in trace(subject, *batch) if c.name == block.name)
    axes = [(t, along(t, batch[-1].size(1))) for t in call.outputs]
    return next(t.select(axis, -1) for t, axis in axes if axis is not None)


def _attention_in(block: Block | None) -> str:
    """The first attention inside a layer; of one in another the inner."""
    if block is None:
        return ""
    found = ""
    for name, part in block.module.named_modules():
        inner = name.startswith(f"{found}.") and any(part.children())
        if name and is_attention(name, part) and (not found or inner):
            found = name
    return f"{block.name}.{found}".rstrip(".")


def _of_positions(
    subject: Subject, calls: list[Call], tokens: Tensor, side: str
) -> list[Suspect]:
    """Between which two modules the positions should come in."""
    lost = f"the {side}'s positions are not added behind it, or all are the same"
    never = f"it is handed the {side} without positions, and adds no relative ones"
    names = embeddings(calls, tuple(tokens.shape))
    suspects = [Suspect(name, lost) for name in names[:1]]
    if reader := _attention_in(_first_block(subject, calls, tokens)):
        suspects.append(Suspect(reader, never))
    return suspects or [Suspect("", lost.replace(" behind it", ""))]


@property_check(*BASIS, kinds=DECODES, rouse=True)
def reads_its_own_token(subject: Subject) -> str:
    """The logits at a position depend on the token there, and leave out none before it.

    They are those of the *next* token. Where they do not move with the position's own
    token, they come one place late: the target was shifted twice. Nor may a token be
    passed over that is nearer than another one that is read; a window passes, a
    dilated one does not. A `loss` is the mean cross-entropy of each token given those
    before it, to a thousandth of a nat.
    """
    batch = subject.sentences()
    with exactly(subject):
        changes = changes_by_word(subject, *batch)
    own, late = changes.diagonal()[1:], changes.diagonal(-1)[1:]
    if own.max() <= TOLERANCE < late.max():
        raise Fails(
            "no position's logits move with its own token, but those after it do: they "
            "come one place late",
            [Suspect("", SHIFTED_INSIDE), Suspect("", SHIFTED_LOGITS)],
        )
    if not own.all():
        raise Unknown("no logits move with the token that stands there")
    _no_gap(subject, changes, batch)
    said = "every position's logits move with the token that stands there"
    return said if subject.loss is None else said + _check_loss(subject, batch)


def _no_gap(subject: Subject, changes: Tensor, batch: Batch) -> None:
    """Raise Fails if a token moves nothing at a later position that reads further."""
    for position, row in enumerate(changes):
        read = row[1:position].nonzero().flatten() + 1
        passed = [k for k in range(1, position) if not row[k] and (read < k).any()]
        if passed:
            block = _first_block(subject, trace(subject, *batch), batch[-1])
            raise Fails(
                f"the logits of position {position} move with token {int(read[0])}, "
                f"and not with token {passed[0]}, which is nearer",
                [Suspect(place, PASSED_OVER) for place in (_attention_in(block), "")],
            )


def _check_loss(subject: Subject, batch: Batch) -> str:
    """Raise Fails if the loss is that of other labels than the next tokens."""
    with torch.no_grad(), in_mode(subject.module, training=False):
        try:
            loss = float(subject.loss(*batch))
        except Exception as error:
            raise Fails(f"`loss` stops with {says(error)}") from error
    logits, target = subject.logits(*batch), batch[-1]
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
            [Suspect("", SHIFTED[near[0]])],
        )
    return ""
