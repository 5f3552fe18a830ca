"""Trained readers with rotary positions get other angles (lesson 17)."""

import torch
from torch import Tensor

from helpers.experiments.long_texts import NOTHING, TextReader, texts
from helpers.masks import causal_mask


@torch.no_grad()
def right_at_the_end(
    reader: TextReader, angles: Tensor, task: str = "look back"
) -> float:
    """The share of right answers in the last 16 places, with these angles.

    The texts are as long as angles (length, d_head / 2) has rows; no training follows.
    """
    letters, answers = texts(task, 200, len(angles), seed=1)
    x = reader.embedding(letters)
    for block in reader.blocks:
        x = block(x, angles, causal_mask(len(angles)))
    logits, due = reader.projection(reader.norm(x))[:, -16:], answers[:, -16:]
    asked = due != NOTHING
    return (logits.argmax(dim=-1) == due)[asked].float().mean().item()
