"""Bring answers into one form, whatever style they are written in, and compare them."""

import math
import sys
from collections.abc import Mapping, Sequence
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor


def plain(answer: Any) -> Any:
    """The answer in the one form in which answers are compared.

    Numbers, arrays and sequences of numbers become tensors, whose dtypes say only
    whether they are booleans, integers or not; other sequences become tuples. Gradients
    still flow through it.
    """
    if isinstance(answer, str):
        return answer
    if isinstance(answer, np.ndarray | np.generic):
        numbers = answer.dtype.kind in "biuf"
        return (
            _on_cpu(torch.from_numpy(np.array(answer))) if numbers else answer.tolist()
        )
    if isinstance(answer, Number) and not isinstance(answer, complex):
        if isinstance(answer, int) and abs(answer) < 2**63:
            return torch.tensor(answer)
        small = not abs(answer) > sys.float_info.max
        return torch.tensor(float(answer) if small else math.inf, dtype=torch.double)
    if isinstance(answer, Tensor):
        return _on_cpu(answer)
    if isinstance(answer, Mapping):
        return {key: plain(value) for key, value in answer.items()}
    if isinstance(answer, Sequence):
        array = _array(answer)
        return _joined([*map(plain, answer)]) if array is None else plain(array)
    return answer


def _array(answer: Sequence) -> np.ndarray | None:
    """Numbers in sequences as an array, which is faster than one by one."""
    if len(answer) == 0 or not _all_numbers(answer):
        return None
    try:
        return np.array(answer)
    except ValueError:  # of several lengths
        return None


def _all_numbers(answer: Any) -> bool:
    if isinstance(answer, list | tuple):
        return all(map(_all_numbers, answer))
    return isinstance(answer, int | float)


def _on_cpu(tensor: Tensor) -> Tensor:
    tensor = tensor.to_dense().cpu()
    if tensor.is_floating_point():
        return tensor.double()
    whole = tensor.dtype != torch.bool and not tensor.is_complex()
    return tensor.long() if whole else tensor


def _joined(parts: list) -> Any:
    """Parts that are alike as one tensor; others as a tuple."""
    if not parts:
        return torch.zeros(0, dtype=torch.long)
    if not all(isinstance(part, Tensor) for part in parts):
        return tuple(parts)
    if len({(part.shape, part.dtype == torch.bool) for part in parts}) > 1:
        return tuple(parts)
    dtype = torch.stack([part.new_zeros(()) for part in parts]).dtype
    return torch.stack([part.to(dtype) for part in parts])


def same(yours: Any, due: Any) -> bool:
    """Whether two answers in plain form agree.

    Floats agree up to rounding (NaN with NaN), integers and text exactly, and a
    boolean is no number.
    """
    if isinstance(due, tuple):
        return (
            isinstance(yours, tuple)
            and len(yours) == len(due)
            and all(map(same, yours, due))
        )
    if isinstance(due, dict):
        return (
            isinstance(yours, dict)
            and yours.keys() == due.keys()
            and all(same(yours[key], due[key]) for key in due)
        )
    if isinstance(due, Tensor):
        return isinstance(yours, Tensor) and _same_tensors(yours.detach(), due.detach())
    return type(yours) is type(due) and bool(yours == due)


def _same_tensors(yours: Tensor, due: Tensor) -> bool:
    kinds = {(x.dtype == torch.bool, x.is_complex()) for x in (yours, due)}
    if yours.shape != due.shape or len(kinds) > 1:
        return False
    if due.is_complex():
        return torch.equal(yours, due)
    if not due.is_floating_point():
        dtype = torch.promote_types(yours.dtype, due.dtype)
        return torch.equal(yours.to(dtype), due.to(dtype))
    return torch.allclose(yours.double(), due, rtol=1e-4, atol=1e-5, equal_nan=True)
