"""Contexts in which a model is in another state, and after which it is as before."""

import random
import sys
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@contextmanager
def in_mode(module: nn.Module | None, *, training: bool) -> Iterator[None]:
    """Train or eval mode for a block; each submodule's mode comes back."""
    parts = module.modules() if module is not None else ()
    before = [(part, part.training) for part in parts]
    for part, mode in before:
        if mode != training:  # to set an attribute of a Module takes long
            part.training = training
    try:
        yield
    finally:
        for part, mode in before:
            if part.training != mode:
                part.training = mode


@contextmanager
def kept_buffers(module: nn.Module | None) -> Iterator[None]:
    """What a batch norm counts, or a cache of plain tensors, comes back as it was."""
    buffers = module.buffers() if module is not None else ()
    before = [(b, b.detach().clone()) for b in buffers if b.device.type != "meta"]
    plain = [(part, _plain(part)) for part in module.modules()] if module else []
    try:
        yield
    finally:
        for part, tensors in plain:
            for name in _plain(part).keys() - tensors.keys():
                delattr(part, name)
            vars(part).update(tensors)
        with torch.no_grad():
            for buffer, value in before:
                if not torch.equal(buffer, value):
                    buffer.copy_(value)


def _plain(part: nn.Module) -> dict[str, object]:
    """A module's attributes that are tensors, or None."""
    return {
        name: value
        for name, value in vars(part).items()
        if value is None or isinstance(value, Tensor)
    }


@contextmanager
def converted(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """change(tensor) for each registered parameter and buffer, as `.to` would do it.

    The tensors themselves are not touched: others stand in their places for a block.
    """
    before, made = [], {}
    for part in module.modules():
        for table in (part._parameters, part._buffers):
            before.append((table, dict(table)))
            for name, tensor in table.items():
                if tensor is not None and id(tensor) not in made:
                    made[id(tensor)] = _like(tensor, change(tensor).detach())
                table[name] = made.get(id(tensor))
    _refresh_networks(module)
    try:
        yield
    finally:
        for table, tensors in before:
            table.update(tensors)
        _refresh_networks(module)


def copied(module: nn.Module) -> AbstractContextManager:
    """A block with copies in place of all tensors: what they learn is forgotten."""
    return converted(module, Tensor.clone)


def zeroed(
    module: nn.Module, parameters: Sequence[nn.Parameter]
) -> AbstractContextManager:
    """A block in which these parameters are zero."""
    chosen = {id(p) for p in parameters}
    return converted(module, lambda t: torch.zeros_like(t) if id(t) in chosen else t)


def awake(module: nn.Module | None) -> AbstractContextManager:
    """A block in which what starts as zeros has a little noise in its place.

    A matrix, a gain or a gate of zeros hides all that stands before it. Biases of zeros
    hide nothing, and stay.
    """
    asleep = {
        id(parameter)
        for name, parameter in (module.named_parameters() if module else ())
        if not name.endswith("bias") and parameter.dtype in FLOATS
        if parameter.numel() and not parameter.any()
    }
    return shaken(module, 0.05, asleep) if asleep else nullcontext()


def shaken(
    module: nn.Module, scale: float, only: Set[int] | None = None
) -> AbstractContextManager:
    """A block with noise of this size in all parameters, or in those with these ids."""

    def noisy(tensor: Tensor) -> Tensor:
        chosen = isinstance(tensor, nn.Parameter) and tensor.is_floating_point()
        if not chosen or (only is not None and id(tensor) not in only):
            return tensor
        return tensor + scale * torch.randn_like(tensor)

    return converted(module, noisy)


def _like(tensor: Tensor, value: Tensor) -> Tensor:
    """The value as a parameter, if the tensor is one."""
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(value, tensor.requires_grad)
    return value


def _refresh_networks(module: nn.Module) -> None:
    """Recurrent networks keep a list of their weights beside the registered ones."""
    for part in module.modules():
        if isinstance(part, nn.RNNBase):
            part._flat_weights = [
                getattr(part, name, None) for name in part._flat_weights_names
            ]


class _NothingDropped(TorchFunctionMode):
    """Takes the dropout out of PyTorch's functions, whatever rate they are given."""

    def __torch_function__(self, function, types, args=(), kwargs=None):  # noqa: ANN001
        kwargs = dict(kwargs or {})
        if function in (F.dropout, torch.dropout):
            return args[0] if args else kwargs["input"]
        if function is F.scaled_dot_product_attention:
            args = (*args[:4], 0.0, *args[5:]) if len(args) > 4 else args
            kwargs.pop("dropout_p", None)
        return function(*args, **kwargs)


@contextmanager
def without_dropout(module: nn.Module) -> Iterator[None]:
    """Every dropout is 0: modules, attributes of such a name, and functions."""
    before = []
    for part in module.modules():
        for name, value in list(vars(part).items()):
            drops = isinstance(part, nn.modules.dropout._DropoutNd) and name == "p"
            if isinstance(value, float) and (drops or "drop" in name.lower()):
                before.append((part, name, value))
                setattr(part, name, 0.0)
    try:
        with _NothingDropped():
            yield
    finally:
        for part, name, value in before:
            setattr(part, name, value)


@contextmanager
def plain_path() -> Iterator[None]:
    """Without the fast path of PyTorch's encoder in eval mode.

    It gives NaN for a sentence of nothing but padding and stops in half precision on a
    CPU, which its ordinary path does not. The model that uses it is not to blame.
    """
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def as_before(module: nn.Module | None, seed: int) -> Iterator[None]:
    """A block in eval mode with its own random numbers; it leaves nothing behind."""
    numpy = sys.modules.get("numpy")  # whoever draws with it has loaded it
    states = random.getstate(), numpy and numpy.random.get_state()
    with (
        torch.random.fork_rng(),
        kept_buffers(module),
        in_mode(module, training=False),
        plain_path(),
    ):
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(states[0])
            if numpy:
                numpy.random.set_state(states[1])
