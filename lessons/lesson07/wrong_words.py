"""Let a writer go on from a beginning that may be wrong (lesson 07)."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from helpers import BOS
from lessons.lesson07.french import IDS, SMALL
from lessons.lesson07.writer import greedy_decode


def beginnings(numbers: Sequence[int], *, true: bool) -> Tensor:
    """<bos> and a first word (batch, 2) for numbers from 200.

    The word is the number's own, or that of another hundred from two to nine, drawn at
    random.
    """
    chance = torch.Generator().manual_seed(0)
    steps = torch.randint(1, 8, (len(numbers),), generator=chance).tolist()
    hundreds = (
        n // 100 if true else 2 + (n // 100 - 2 + step) % 8
        for n, step in zip(numbers, steps, strict=True)
    )
    return torch.tensor([[BOS, IDS[SMALL[digit]]] for digit in hundreds])


class GoesOn(nn.Module):
    """A writer that has read a beginning in place of what it wrote first."""

    def __init__(self, writer: nn.Module, start: Tensor):
        super().__init__()
        self.writer, self.start = writer, start
        self.encode, self.project = writer.encode, writer.project

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """As the writer's, its first tokens replaced by the beginning."""
        begun = self.start[:, : target.size(1)]
        read = torch.cat([begun, target[:, begun.size(1) :]], dim=1)
        return self.writer.decode(read, memory, source)


def go_on(writer: nn.Module, source: Tensor, start: Tensor) -> Tensor:
    """Ids (batch, length), as `greedy_decode` writes them after <bos> and a word.

    The first column is what the writer itself would have said.
    """
    return greedy_decode(GoesOn(writer, start), source, max_length=8)
