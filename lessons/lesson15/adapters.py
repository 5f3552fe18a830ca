"""The course's Transformer as the check-up takes it (lesson 15)."""

import re
from collections.abc import Callable

import torch
from torch import Tensor, nn

from helpers.attention import record_attention
from helpers.decoding import start_decoding
from helpers.transformer import Transformer
from transformer_checkup.subject import Subject

# What Subject calls the kinds of attention, and their modules in the course's models.
MODULES = {
    "encoder": "encoder.layers.{}.self_attention",
    "decoder": "decoder.layers.{}.self_attention",
    "cross": "decoder.layers.{}.cross_attention",
}


def of_course(model: Transformer, **options) -> Subject:
    """A Transformer of the course, with its caches and its attention maps."""
    if model.config.share_embeddings:
        pairs = (("projection.weight", "source_embedding.weight"),)
        options = {"tied": pairs, **options}

    def attention(source: Tensor, target: Tensor) -> dict[str, list[Tensor]]:
        with record_attention(model) as maps:
            model(source, target)
        return {
            kind: [maps[name] for name in maps if _numbered(name, module)]
            for kind, module in MODULES.items()
        }

    return _subject(model, attention, options)


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
