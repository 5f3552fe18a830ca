"""Attention maps, where a model shows them."""

import functools

import torch
from matplotlib import pyplot as plt
from torch import Tensor

from helpers import PAD
from helpers.debugger.measures import about
from helpers.debugger.state import in_mode
from helpers.debugger.subject import Fails, Subject, Suspect, Unknown
from helpers.debugger.verdict import property_check
from helpers.plots import heatmap

SIDES = {
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}


@property_check("runs", "finite")
def attention_is_sound(subject: Subject) -> str:
    """Attention's rows sum to one, and a word gives no weight to hidden keys.

    What padding looks at is nobody's business: nothing reads its output. A row may be
    off its sum by a thousandth. Does not hold for attentions that are no softmax.
    """
    if subject.attention is None:
        raise Unknown("no `attention` given")
    sides = dict(subject.sides(*subject.sentences()))
    for name, pads in (("source", 2), ("target", 3)):
        if name in sides:
            sides[name][pads - 1 :, -pads:] = PAD
    with in_mode(subject.module, training=False), torch.no_grad():
        maps = subject.attention(*sides.values())
    if not any(maps.values()):
        raise Unknown("`attention` gives no map")
    hidden = _hidden(sides)
    if not maps.keys() <= hidden.keys():
        due, given = ", ".join(hidden), ", ".join(maps)
        raise Fails(f"`attention` gives maps of {given}, where there is {due}")
    for kind, layers in maps.items():
        for layer, weights in enumerate(layers):
            where = f"{kind}, layer {layer}"
            _check_shape(weights, [sides[side] for side in SIDES[kind]], where)
            _check_rows(weights, where)
            _check_hidden(weights, hidden[kind].expand_as(weights), where)
    return "every row of weights sums to one and leaves out what is hidden"


def _hidden(sides: dict[str, Tensor]) -> dict[str, Tensor]:
    """Which keys are hidden from which queries that are words, by the kind of map."""
    hidden = {}
    for kind, (query, key) in SIDES.items():
        if query not in sides or key not in sides:
            continue
        queries, keys = (sides[name] == PAD for name in (query, key))
        unseen = keys[:, None, None]
        if kind == "decoder":
            length = keys.size(1)
            ones = torch.ones(length, length, dtype=torch.bool, device=keys.device)
            unseen = unseen | ones.triu(1)
        hidden[kind] = unseen & ~queries[:, None, :, None]
    return hidden


def _check_shape(weights: Tensor, sides: list[Tensor], where: str) -> None:
    query, key = sides
    due = (*query.shape, key.size(1))
    if weights.dim() != 4 or (len(weights), *weights.shape[2:]) != due:
        raise Fails(
            f"{where}: the weights have the shape {tuple(weights.shape)}, not "
            f"({due[0]}, heads, {due[1]}, {due[2]})"
        )


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
    heatmap(
        weights, *map(range, weights.shape), title=f"Weight on hidden keys: {where}"
    )
    plt.show()
