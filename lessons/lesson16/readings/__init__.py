"""Five readings of one paper, each made to work in its own words (lesson 16).

A reading is somebody's Transformer after Vaswani et al. 2017. It keeps its own names,
argument order and choices; its slips are repaired, and what it left open is filled in.
`notebooks/five_readings.md` lists every part, what it is called here, and how it
deviates. `lessons.lesson16.mapping` copies weights into the course's own model.
"""

from importlib import import_module

from torch import nn

from helpers.transformer import TransformerConfig

# What each is called, its module, and the function there that builds it.
READINGS = {
    "A": ("notes on the Annotated Transformer's parts", "annotated", "parts_model"),
    "B": ("a notebook in the blocks of d2l", "d2l_blocks", "blocks_model"),
    "C": ("the Annotated Transformer with comments", "annotated", "frame_model"),
    "D": ("a long tutorial", "lengths", "lengths_model"),
    "E": ("a notebook on attention alone", "pure_attention", "attention_block"),
}


def build_reading(
    key: str, source_vocab: int, target_vocab: int, **sizes: float
) -> nn.Module:
    """The reading "A" to "E", untrained, for two vocabularies of their own.

    sizes are those of TransformerConfig. A to D have the interface of Transformer; E
    has no model, so it gives its attention block. ValueError for another key.
    """
    if key not in READINGS:
        raise ValueError(f"the readings are {', '.join(READINGS)}: not {key!r}")
    options = {"share_embeddings": False, **sizes}
    config = TransformerConfig(source_vocab, target_vocab, **options)
    _, module, builder = READINGS[key]
    # Imported only now, because d2l takes seconds.
    module = import_module(f"lessons.lesson16.readings.{module}")
    return getattr(module, builder)(config)
