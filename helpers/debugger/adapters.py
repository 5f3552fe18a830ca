"""Models as `properties` takes them (lesson 15).

`of_reading` takes the five readings of lesson 16.
"""

import re
from collections.abc import Callable

import torch
from torch import Tensor, nn

from helpers.attention import record_attention
from helpers.debugger.properties import Subject
from helpers.decoding import start_decoding
from helpers.plots.pages import KINDS
from helpers.readings.interface import Translator
from helpers.transformer import Transformer

# What Subject calls the kinds of attention, and what the pages of maps call them.
NAMES = {
    "encoder": "encoder self-attention",
    "decoder": "decoder self-attention",
    "cross": "cross-attention",
}


def of_course(model: Transformer, **options) -> Subject:
    """A Transformer of the course, with its caches and its attention maps."""

    def attention(source: Tensor, target: Tensor) -> dict[str, list[Tensor]]:
        with record_attention(model) as maps:
            model(source, target)
        modules = {kind: KINDS[name].module for kind, name in NAMES.items()}
        return {
            kind: [maps[name] for name in maps if _numbered(name, module)]
            for kind, module in modules.items()
        }

    return _subject(model, attention, options)


def of_reading(model: Translator, **options) -> Subject:
    """One of lesson 16's five readings, with the maps that it keeps or returns.

    model is what `helpers.readings.build_reading` gives for A to D, or an
    AttentionOnlyTranslator, which is E.
    """
    return _subject(model, model.attention_maps, options)


def _numbered(name: str, module: str) -> bool:
    """Whether name is that of the module with some number for its {}."""
    return re.fullmatch(module.replace("{}", r"\d+"), name) is not None


def _subject(model: nn.Module, attention: Callable, options: dict) -> Subject:
    """A model with the course's interface, which can be run step by step."""

    def steps(source: Tensor, target: Tensor) -> Tensor:
        decoding = start_decoding(model, source)
        return torch.stack([decoding.step(token) for token in target.unbind(1)], dim=1)

    config = model.config
    sizes = {"source_vocab": config.source_vocab, "target_vocab": config.target_vocab}
    seen = {"steps": steps, "attention": attention}
    return Subject(model, **{**sizes, **seen, **options})
