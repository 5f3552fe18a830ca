"""What passes between a slow memory and a fast one, counted (lesson 19)."""

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Memory:
    """A large, slow memory: it counts the numbers that are read and written.

    What is computed between a read and a write is thought to stay in the fast memory.
    """

    reads: int = 0
    writes: int = 0

    def read(self, tensor: Tensor) -> Tensor:
        """The tensor, fetched from the slow memory."""
        self.reads += tensor.numel()
        return tensor

    def write(self, tensor: Tensor) -> Tensor:
        """The tensor, stored in the slow memory."""
        self.writes += tensor.numel()
        return tensor

    @property
    def moved(self) -> int:
        """All numbers that have passed, either way."""
        return self.reads + self.writes
