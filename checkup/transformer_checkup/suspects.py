"""The usual suspects at the module where something first goes wrong."""

import re

from .hooks import Place
from .structure import attends, is_attention, is_norm
from .subject import Subject, Suspect

MIXED = (
    "its heads are cut or joined by `view` on mixed axes, or its softmax runs over "
    "another axis than the keys"
)
OVER_POSITIONS = (
    "it normalises over positions or sentences too, where it should over the features "
    "alone"
)
FILLED = (
    "its hidden scores are filled with -1e9, which 16 bits do not hold: take "
    "torch.finfo(scores.dtype).min"
)
OF_ALL = (
    "it mixes what stands at several positions or sentences: a mean, a maximum, a "
    "top-k, a capacity or a norm over the length or the batch"
)
REMEMBERS = "a state that is kept between calls: a cache, a counter"
CROSS = "cross|src_att|encoder_att|encdecatt|multihead_attn"
OF_TARGET = (
    "its keys and values are made of the target, where it should read the source"
)
CAUSES = {
    "future": "its causal mask is missing, too wide, turned round, or without effect",
    "padding": "its padding mask is missing, turned round, added as 0 and 1, or comes "
    "too late",
    "front": "its padding mask leaves the front out, or its positions depend on where "
    "the row starts: learned ones that are not counted from the first word, relative "
    "ones that are no distances",
    "batch": "batch and length are swapped (`batch_first`?), or its mask belongs to "
    "another sentence (`repeat` for `repeat_interleave`)",
}
OUTSIDE = {
    "future": "positions are mixed outside of its parts: is the target read shifted, "
    "or its causal mask made for another length?",
    "padding": "padding is counted outside of its parts, by a mean or a sum over the "
    "length without a mask, or positions are counted from the end",
    "front": "positions are counted from the row's start, not from the first word, or "
    "padding is counted outside of its parts",
    "batch": "sentences are mixed outside of its parts: axes of batch and length, or "
    "positions added along the batch",
}


def of_leak(subject: Subject, place: Place, leak: str) -> list[Suspect]:
    """Where a leak into the future, from padding or from the batch comes from.

    The place is the first that is touched.
    """
    where, cause = place.where, CAUSES[leak]
    if where is None:
        return [Suspect("", cause.replace("its ", "a ", 1))]
    if not where:
        return [Suspect("", OUTSIDE[leak], place.method)]
    first, then = cause, Suspect("", OUTSIDE[leak])
    module = subject.module.get_submodule(where)
    if is_norm(module):
        first, then = OVER_POSITIONS, Suspect(where, cause)
    elif leak != "front":
        attention = is_attention(where, module)
        if not attention and not attends(module):
            first, then = OF_ALL, Suspect(where, cause)
        elif leak == "future" and re.search(CROSS, where.lower()):
            then = Suspect(where, OF_TARGET)
        elif attention or leak != "batch":
            then = Suspect(where, MIXED)
    return [Suspect(where, first, place.method), then]
