"""Attention maps, where a model shows them."""

import functools

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_checkup.drawing import draw_heatmap
from transformer_checkup.measures import about
from transformer_checkup.state import in_mode
from transformer_checkup.subject import Fails, Subject, Suspect, Unknown
from transformer_checkup.verdict import property_check

SIDES = {
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}


@property_check("runs", "finite")
def attention_is_sound(subject: Subject) -> str:
    """Attention's rows sum to one, and a word gives no weight to hidden keys.

    What padding looks at is nobody's business: nothing reads its output. A model that
    pads its input has larger maps: their further rows and columns are padding, too. A
    row may be off its sum by a thousandth. Does not hold for attentions that are no
    softmax.
    """
    if subject.attention is None:
        raise Unknown("no `attention` given")
    sides = dict(subject.sides(*subject.sentences()))
    for name, pads in (("source", 2), ("target", 3)):
        if name in sides:
            sides[name][pads - 1 :, -pads:] = subject.pad
    with in_mode(subject.module, training=False), torch.no_grad():
        maps = subject.attention(*sides.values())
    if not any(maps.values()):
        raise Unknown("`attention` gives no map")
    known = {kind: pair for kind, pair in SIDES.items() if {*pair} <= {*sides}}
    if not maps.keys() <= known.keys():
        due, given = ", ".join(known), ", ".join(maps)
        raise Fails(f"`attention` gives maps of {given}, where there is {due}")
    for kind, layers in maps.items():
        for layer, weights in enumerate(layers):
            where = f"{kind}, layer {layer}"
            query, key = _as_large(
                subject, weights, [sides[side] for side in known[kind]], where
            )
            _check_rows(weights, where)
            hidden = _hidden(subject, query, key, causal=kind == "decoder")
            _check_hidden(weights, hidden.expand_as(weights), where)
    return "every row of weights sums to one and leaves out what is hidden"


def _as_large(
    subject: Subject, weights: Tensor, sides: list[Tensor], where: str
) -> list[Tensor]:
    """Query and key, with PADs up to the size of the map; Fails if it is too small."""
    lengths = [side.size(1) for side in sides]
    fits = weights.dim() == 4 and len(weights) == len(sides[0])
    further = [n - due for n, due in zip(weights.shape[2:], lengths, strict=False)]
    if not fits or min(further) < 0:
        raise Fails(
            f"{where}: the weights have the shape {tuple(weights.shape)}, not "
            f"({len(sides[0])}, heads, {lengths[0]}, {lengths[1]})"
        )
    longer = zip(sides, further, strict=True)
    return [F.pad(side, (0, n), value=subject.pad) for side, n in longer]


def _hidden(subject: Subject, query: Tensor, key: Tensor, *, causal: bool) -> Tensor:
    """Which keys are hidden from which queries that are words."""
    unseen = (key == subject.pad)[:, None, None]
    if causal:
        shape = query.size(1), key.size(1)
        unseen = unseen | torch.ones(shape, device=key.device).triu(1).bool()
    return unseen & (query != subject.pad)[:, None, :, None]


def _check_rows(weights: Tensor, where: str) -> None:
    off = (weights.float().sum(-1) - 1).abs()
    if not off.max() <= 1e-3:  # NaN fails too
        raise Fails(
            f"{where}: a row of weights is off its sum of 1 by {about(off)}",
            suspects=[
                Suspect("", f"the softmax of {where}: its axis, or what follows")
            ],
        )


def _check_hidden(weights: Tensor, hidden: Tensor, where: str) -> None:
    leak = weights * hidden
    if leak.max() > 1e-6:
        row, head, query, key = (int(i[0]) for i in (leak == leak.max()).nonzero().T)
        shown = weights[row, head]
        raise Fails(
            f"{where}, head {head}: query {query} gives {about(leak)} to key {key}, "
            "which is hidden from it",
            functools.partial(_draw_weights, shown, where),
            [Suspect("", f"the mask of {where}: missing, turned round or too late")],
        )


def _draw_weights(weights: Tensor, where: str) -> None:
    """A heatmap of the weights in which hidden keys have a share."""
    draw_heatmap(
        weights,
        *map(range, weights.shape),
        title=f"Weight on hidden keys: {where}",
        xlabel="key",
        ylabel="query",
        label="weight",
    )
