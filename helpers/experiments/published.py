"""Faults of the five documents that stop the program, each made once (lesson 15).

The letter says in which document; the code is ours, with the mistake of theirs.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

ENDING = "class Encoder: pass\nand now the decoder, which is a stack of layers\n"
DEFINED = "def hide(ones): return np.triu(ones, k=1)"


def truth_of_a_mask() -> None:
    """`if attn_mask:` where `if attn_mask is not None:` belongs."""
    if torch.ones(2, 8, 8):
        pass


def function_as_mask() -> Tensor:
    """The function `padding_mask` is handed on in place of the mask `attn_mask`."""

    def padding_mask(tokens: Tensor) -> Tensor:
        return tokens == 0

    return padding_mask.repeat(8, 1, 1)


def second_convolution_backwards() -> Tensor:
    """Both convolutions lead from model_dim to ffn_dim."""
    first, second = nn.Conv1d(32, 64, 1), nn.Conv1d(32, 64, 1)
    return second(first(torch.ones(2, 32, 8)))


def array_among_tensors() -> Tensor:
    """A table of numpy's below a row of PyTorch's."""
    return torch.cat([torch.zeros(1, 8), np.ones((3, 8))])


def name_before_itself() -> Tensor:
    """The right-hand side is the name that the left one makes."""
    embedding = embedding(torch.arange(3))  # noqa: F821
    return embedding


def method_of_another_library() -> None:
    """`add`, where PyTorch has `append`."""
    nn.Sequential().add(nn.Linear(8, 8))


def arguments_left_out() -> None:
    """A block of nine arguments gets five, so that each lands in a wrong place."""
    (lambda key, query, value, hidden, shape, inputs, inner, heads, dropout: None)(
        24, 48, 8, 0.5, False
    )


def states_overwritten() -> Tensor:
    """`X = self.attention_weights = [None] * n`: the input is gone."""
    states = weights = [None] * 2  # noqa: F841
    return nn.Linear(24, 24)(states)


def prose_between_classes() -> None:
    """Sentences without a comment sign."""
    compile(ENDING, "a lesson", "exec")


def name_not_imported() -> None:
    """`np` is used and not imported."""
    space: dict = {}
    exec(DEFINED, space)
    space["hide"](torch.ones(3, 3))


def misspelt_attribute() -> int:
    """`self.n_head` of a module that has `n_heads`."""

    class Attention(nn.Module):
        n_heads = 4

    return Attention().n_head


def view_of_permuted_axes() -> Tensor:
    """`view` after `permute`, where the numbers lie in another order."""
    return torch.ones(2, 4, 8, 8).permute(0, 2, 1, 3).view(2, 8, 32)


def mask_left_out() -> Tensor:
    """The default None is used as a tensor."""

    def attend(mask: Tensor | None = None) -> Tensor:
        return mask.unsqueeze(1)

    return attend()


LOUD: dict[str, tuple[str, Callable]] = {
    "if attn_mask: (a tensor)": ("D", truth_of_a_mask),
    "a function in place of the mask": ("D", function_as_mask),
    "the second convolution backwards": ("D", second_convolution_backwards),
    "torch.cat with an array of numpy": ("D", array_among_tensors),
    "a name used before it is made": ("D", name_before_itself),
    "Sequential.add": ("B", method_of_another_library),
    "five of nine arguments": ("B", arguments_left_out),
    "the input overwritten by a list": ("B", states_overwritten),
    "prose between the classes": ("C", prose_between_classes),
    "np not imported": ("C", name_not_imported),
    "n_head for n_heads": ("E", misspelt_attribute),
    "view of permuted axes": ("E", view_of_permuted_axes),
    "mask=None used as a tensor": ("E", mask_left_out),
}


def loud_errors() -> Iterator[tuple[str, str, str]]:
    """The document, the fault, and the error with which it stops; "" if it does not."""
    for name, (letter, function) in LOUD.items():
        try:
            function()
        except Exception as error:
            yield letter, name, type(error).__name__
        else:
            yield letter, name, ""
