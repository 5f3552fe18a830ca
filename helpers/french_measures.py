"""What is measured of a writer of French numbers besides its loss (lesson 07)."""

from torch import Tensor

from helpers import PAD


def other_digits(source: Tensor, place: int) -> list[Tensor]:
    """The sources (batch, digits) with the nine other values of the digit there."""
    others = [source.clone() for _ in range(9)]
    for step, other in enumerate(others, start=1):
        other[:, place] = 4 + (source[:, place] - 4 + step) % 10
    return others


def right_by_place(said: Tensor, due: Tensor) -> list[float]:
    """The shares of right words at the second to the fifth place, padding left out."""
    places = [(said[:, place], due[:, place]) for place in range(1, 5)]
    return [
        (ours == theirs)[theirs != PAD].float().mean().item() for ours, theirs in places
    ]
