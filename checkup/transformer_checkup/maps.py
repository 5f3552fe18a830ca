"""Attention maps, where a model shows them."""

import torch
from torch import Tensor
from torch.nn import functional as F

from .state import in_mode
from .subject import Fails, Subject, Suspect, Unknown
from .verdict import property_check

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
    sides = dict(zip(subject.sides, subject.sentences(), strict=True))
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
        query, key = (sides[side] for side in known[kind])
        for layer, weights in enumerate(layers):
            _check_map(subject, weights, query, key, f"{kind}, layer {layer}")
    return "every row of weights sums to one and leaves out what is hidden"


def _check_map(
    subject: Subject, weights: Tensor, query: Tensor, key: Tensor, where: str
) -> None:
    """Raise Fails if a map is too small, a row off its sum, or a hidden key is read."""
    rows, due = len(query), (query.size(1), key.size(1))
    further = [n - least for n, least in zip(weights.shape[2:], due, strict=False)]
    if weights.dim() != 4 or len(weights) != rows or min(further) < 0:
        raise Fails(
            f"{where}: the weights have the shape {tuple(weights.shape)}, not "
            f"({rows}, heads, {due[0]}, {due[1]})"
        )
    off = (weights.float().sum(-1) - 1).abs()
    if not off.max() <= 1e-3:  # NaN fails too
        raise Fails(
            f"{where}: a row of weights is off its sum of 1 by ≈ {off.max():.2f}",
            [Suspect("", f"the softmax of {where}: its axis, or what follows")],
        )
    longer = zip((query, key), further, strict=True)
    query, key = (F.pad(side, (0, n), value=subject.pad) for side, n in longer)
    hidden = (key == subject.pad)[:, None, None]
    if where.startswith("decoder"):
        future = torch.ones(query.size(1), key.size(1), device=key.device).triu(1)
        hidden = hidden | future.bool()
    leak = weights * (hidden & (query != subject.pad)[:, None, :, None])
    if leak.max() > 1e-6:
        _, head, at, seen = (int(i[0]) for i in (leak == leak.max()).nonzero().T)
        raise Fails(
            f"{where}, head {head}: query {at} gives ≈ {leak.max():.2f} to key {seen}, "
            "which is hidden from it",
            [Suspect("", f"the mask of {where}: missing, turned round or too late")],
        )
