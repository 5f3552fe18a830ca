"""The course's Transformer as the check-up takes it (lesson 15)."""

import re

import torch
from torch import Tensor

from helpers.attention import record_attention
from helpers.decoding import start_decoding
from helpers.transformer import Transformer
from transformer_checkup.subject import Subject

# What Subject calls the kinds of attention, and their modules in the course's models.
MODULES = {
    "encoder": r"encoder\.layers\.\d+\.self_attention",
    "decoder": r"decoder\.layers\.\d+\.self_attention",
    "cross": r"decoder\.layers\.\d+\.cross_attention",
}


def of_course(model: Transformer, **options) -> Subject:
    """A Transformer of the course, with its caches and its attention maps."""

    def steps(source: Tensor, target: Tensor) -> Tensor:
        decoding = start_decoding(model, source)
        return torch.stack([decoding.step(token) for token in target.unbind(1)], dim=1)

    def attention(source: Tensor, target: Tensor) -> dict[str, list[Tensor]]:
        with record_attention(model) as maps:
            model(source, target)
        return {
            kind: [x for name, x in maps.items() if re.fullmatch(module, name)]
            for kind, module in MODULES.items()
        }

    config = model.config
    given = {"source_vocab": config.source_vocab, "target_vocab": config.target_vocab}
    given |= {"steps": steps, "attention": attention}
    if config.share_embeddings:
        given["tied"] = (("projection.weight", "source_embedding.weight"),)
    return Subject(model, **{**given, **options})
