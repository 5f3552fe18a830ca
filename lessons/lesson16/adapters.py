"""The five readings as the check-up takes them (lesson 16)."""

import torch
from torch import Tensor

from helpers.decoding import start_decoding
from lessons.lesson16.readings.interface import Translator
from transformer_checkup.subject import Subject

# The checks that ask a reading as a whole; the others look at its submodules, or more.
ASKED = (
    "same twice",
    "causal",
    "padding invariant",
    "independent of neighbours",
    "length generic",
    "order aware",
    "steps equal parallel",
    "attention is sound",
    "initial loss",
    "all parameters learn",
    "state moves",
    "finite in half precision",
    "finite without source",
)


def of_reading(model: Translator, **options) -> Subject:
    """One of lesson 16's five readings, with the maps that it keeps or returns.

    model is what `lessons.lesson16.readings.build_reading` gives for A to D, or an
    AttentionOnlyTranslator, which is E.
    """

    def steps(source: Tensor, target: Tensor) -> Tensor:
        decoding = start_decoding(model, source)
        return torch.stack([decoding.step(token) for token in target.unbind(1)], dim=1)

    config = model.config
    sizes = {"source_vocab": config.source_vocab, "target_vocab": config.target_vocab}
    seen = {"steps": steps, "attention": model.attention_maps}
    return Subject(model, **{**sizes, **seen, **options})
