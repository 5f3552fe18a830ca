"""The vectors inside a reader of stories, and what might be read there (lesson 06)."""

import torch
from torch import Tensor

from helpers.experiments.stories import Stories, StoryReader, places
from helpers.masks import padding_mask


@torch.no_grad()
def states(model: StoryReader, data: Stories) -> list[Tensor]:
    """The vectors (stories, length, d_model): embedded, and after each layer."""
    vectors = [model.positions(model.embedding(data.tokens))]
    for layer in model.encoder.layers:
        vectors.append(layer(vectors[-1], padding_mask(data.tokens)))
    return vectors


def labels(data: Stories, at: str, what: str) -> Tensor:
    """At told or asked names, in order: the number of the "name" or of the "drink"."""
    numbers = data.tokens - 1 if what == "name" else data.answers
    return numbers[places(data)[at]]
