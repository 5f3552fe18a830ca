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


@property_check("runs", "finite", kinds=("encoder-decoder",))
def attention_is_sound(subject: Subject) -> str:
    """Attention's rows sum to one, and a word gives no weight to hidden keys.

    What padding looks at is nobody's business: nothing reads its output. A row may be
    off its sum by a thousandth. Does not hold for attentions that are no softmax.
    """
    if subject.attention is None:
        raise Unknown("no `attention` given")
    source, target = subject.sentences()
    source[1:, -2:] = target[2:, -3:] = PAD
    with in_mode(subject.module, training=False), torch.no_grad():
        maps = subject.attention(source, target)
    if not any(maps.values()):
        raise Unknown("`attention` gives no map")
    hidden = _hidden(source, target)
    for kind, layers in maps.items():
        for layer, weights in enumerate(layers):
            where = f"{kind}, layer {layer}"
            _check_shape(weights, kind, source, target, where)
            _check_rows(weights, where)
            _check_hidden(weights, hidden[kind].expand_as(weights), where)
    return "every row of weights sums to one and leaves out what is hidden"


def _hidden(source: Tensor, target: Tensor) -> dict[str, Tensor]:
    """Which keys are hidden from which queries, of the queries that are words."""
    length = target.size(1)
    future = torch.ones(length, length, dtype=torch.bool, device=target.device).triu(1)
    padding = [x == PAD for x in (source, target)]
    source_keys, target_keys = (pads[:, None, None] for pads in padding)
    source_words, target_words = (~pads[:, None, :, None] for pads in padding)
    return {
        "encoder": source_keys & source_words,
        "decoder": (target_keys | future) & target_words,
        "cross": source_keys & target_words,
    }


def _check_shape(
    weights: Tensor, kind: str, source: Tensor, target: Tensor, where: str
) -> None:
    lengths = {"source": source.size(1), "target": target.size(1)}
    query, key = SIDES[kind]
    due = (len(source), lengths[query], lengths[key])
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
