"""Five readings of one paper, each made to work in its own words (lesson 16).

A reading is somebody's Transformer after Vaswani et al. 2017. It keeps its own names,
argument order and choices; what its text got wrong is repaired, and what it left open
is filled in. `build_reading` gives A to D the interface of `helpers.transformer`, so
that the course's training and decoding run on them; `lessons.lesson16.mapping` copies
their weights into the course's own model. A part whose name the course has taken is
called something else here (EncoderLayer is NormFirstEncoderLayer in reading C), so that
the two can stand side by side; `lessons.lesson16.readings.names` lists all names.
"""

from dataclasses import dataclass
from importlib import import_module

from torch import nn

from helpers.transformer import TransformerConfig


@dataclass(frozen=True)
class Reading:
    """What a reading is called, what its text is, and the function that builds it."""

    name: str
    text: str
    module: str
    builder: str


READINGS = {
    "A": Reading(
        "A, the notes",
        "notes on the Annotated Transformer's parts",
        "annotated",
        "parts_model",
    ),
    "B": Reading(
        "B, the d2l reading",
        "a notebook in the blocks of d2l, which breaks off in the decoder",
        "d2l_blocks",
        "blocks_model",
    ),
    "C": Reading(
        "C, the frame",
        "the Annotated Transformer, annotated line by line",
        "annotated",
        "frame_model",
    ),
    "D": Reading(
        "D, the tutorial",
        "a long tutorial, from attention to the whole model",
        "lengths",
        "lengths_model",
    ),
    "E": Reading(
        "E, attention alone",
        "a short notebook: positions and attention, no blocks",
        "pure_attention",
        "attention_block",
    ),
}


def build_reading(
    key: str, source_vocab: int, target_vocab: int, **sizes: float
) -> nn.Module:
    """The reading "A" to "E", untrained, for two vocabularies of their own.

    sizes are those of TransformerConfig: d_model, n_heads, d_ff, n_layers, dropout,
    max_length, with the paper's base model as defaults. A to D have the interface of
    Transformer; E has no model, so it gives its attention block of these sizes.
    ValueError for another key, or for sizes that do not fit each other.
    """
    if key not in READINGS:
        raise ValueError(f"the readings are {', '.join(READINGS)}: not {key!r}")
    reading = READINGS[key]
    config = TransformerConfig(
        source_vocab, target_vocab, share_embeddings=False, **sizes
    )
    # Imported only now, because d2l takes seconds.
    module = import_module(f"lessons.lesson16.readings.{reading.module}")
    return getattr(module, reading.builder)(config)
