"""The exercise of lesson 00: what the decoder reads, and what it is to say."""

import torch
from torch import Tensor

from helpers import BOS, EOS, PAD
from helpers.exercise import Exercise, Probe


def shifted(target: Tensor) -> tuple[Tensor, Tensor]:
    """(batch, length) -> read, say: (batch, length - 1) each.

    They are `decoder_input` and `labels` of helpers.batching.Batch.
    """
    return target[:, :-1], target[:, 1:]


shift = Exercise(
    shifted,
    [
        Probe(
            torch.tensor([[BOS, 7, 5, 9, EOS], [BOS, 8, EOS, PAD, PAD]]),
            praise="at each place, `say` has the token that follows in the sentence",
        ),
        Probe(torch.tensor([[BOS, 4, 6, 5, 8, 7, EOS]] * 3), praise="other sizes, too"),
        Probe(torch.tensor([[BOS, 6, EOS]]), when="for a single sentence: "),
    ],
    {
        "nothing is shifted: at each place the decoder reads the very token to say": (
            lambda target: (target, target)
        ),
        "the two are swapped: `read` begins with <bos>, and comes first": (
            lambda target: (target[:, 1:], target[:, :-1])
        ),
        "both lack the last column: `say` is to lack the first": (
            lambda target: (target[:, :-1], target[:, :-1])
        ),
        "whole sentences are left out: the first axis is the batch. Slice the second, "
        "`target[:, …]`": lambda target: (target[:-1], target[1:]),
    },
    results=["read", "say"],
)
