"""The exercise of lesson 00: a first answer to mend."""

import torch
from torch import Tensor

from lessons.checking.comparing import plain
from lessons.checking.engine import Exercise, Part

ROWS = "a French word is a row, so compare the numbers of a row"


def _weights(rows: int, columns: int, seed: int) -> tuple[Tensor]:
    """Attention weights of random scores (rows, columns)."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, columns, generator=generator).softmax(dim=-1),)


def _as_index(output: object, weights: Tensor) -> object:
    """The places; half a place off where they are floats, which cannot be an index."""
    places = plain(output)
    floats = isinstance(places, Tensor) and places.is_floating_point()
    return places + 0.5 if floats else places


looks_at = Exercise(
    """\
def looks_at(weights):
    return weights.argmax(dim=-1)
""",
    Part(
        "looks_at",
        {
            f"the largest weight of each column is found: {ROWS}": {"-1": "0"},
            f"one place is found for the whole table: {ROWS}": {"dim=-1": ""},
            "the smallest weight is found": {"argmax": "argmin"},
            "the largest weight itself is given, not its place": {"argmax": "amax"},
            "two tensors are given, weights and places: only the places are due": {
                "argmax": "max"
            },
            "every row stays a list of one: drop its axis": {
                "dim=-1": "dim=-1, keepdim=True"
            },
            "a place is a whole number, but these are floats": {
                "argmax(dim=-1)": "argmax(dim=-1).float()"
            },
            "places are counted from 1: the first column has place 0": {
                "argmax(dim=-1)": "argmax(dim=-1) + 1"
            },
        },
        lambda seed: [
            _weights(*size, seed) for size in ((6, 5), (3, 9), (7, 7), (60, 50))
        ],
        ["for each French word, the place of the largest weight"],
        measure=_as_index,
    ),
)
