"""Trained readers with rotary positions get clocks of another speed (lesson 17)."""

import torch
from torch import Tensor

from helpers.experiments.long_texts import TextReader, texts
from helpers.masks import causal_mask


@torch.no_grad()
def right_at_the_end(reader: TextReader, angles: Tensor) -> float:
    """The share of letters three places back that it gets right, in the last 16 places.

    The texts are as long as angles (length, d_head / 2) has rows; no training follows.
    """
    letters, answers = texts("look back", 200, len(angles), seed=1)
    x = reader.embedding(letters)
    for block in reader.blocks:
        x = block(x, angles, causal_mask(len(angles)))
    hits = reader.projection(reader.norm(x)).argmax(dim=-1) == answers
    return hits[:, -16:].float().mean().item()
