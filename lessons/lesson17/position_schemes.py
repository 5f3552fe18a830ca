"""Trained readers with rotary positions get other places or angles (lesson 17)."""

from collections.abc import Iterable

import torch
from torch import Tensor

from helpers.masks import causal_mask
from helpers.modern.rotary import rotary_angles
from lessons.lesson17.long_texts import NOTHING, TextReader, texts


def right_at_the_end(
    reader: TextReader, angles: Tensor, task: str = "look back"
) -> float:
    """The share of right answers in the last 16 places, with these angles.

    The texts are as long as angles (length, d_head / 2) has rows; no training follows.
    """
    letters, answers = texts(task, 200, len(angles), seed=1)
    logits, due = _read(reader, letters, angles)[:, -16:], answers[:, -16:]
    asked = due != NOTHING
    return (logits.argmax(dim=-1) == due)[asked].float().mean().item()


def right_with_one_far(reader: TextReader, distances: Iterable[int]) -> dict:
    """{distance: how often it looks back rightly} from the last of 17 letters.

    16 letters stand one after the other, and one so far before the last of them.
    """
    letters, answers = texts("look back", 200, 64, seed=1)
    angles = rotary_angles(64, reader.d_model // reader.n_heads)
    found = {}
    for distance in distances:
        kept = [63 - distance, *range(48, 64)]
        logits = _read(reader, letters[:, kept], angles[kept])[:, -1]
        found[distance] = (
            (logits.argmax(dim=-1) == answers[:, 63]).float().mean().item()
        )
    return found


@torch.no_grad()
def _read(reader: TextReader, letters: Tensor, angles: Tensor) -> Tensor:
    """Logits (batch, length, letters) for letters (batch, length), at these angles."""
    x = reader.embedding(letters)
    for block in reader.blocks:
        x = block(x, angles, causal_mask(len(angles)))
    return reader.projection(reader.norm(x))
