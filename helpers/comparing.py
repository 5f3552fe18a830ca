"""Whether two outputs, or their gradients, are the same; if not, what differs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

CUT = "no `detach`, `no_grad`, `.data`, numpy or `torch.tensor(…)` on the way"


@dataclass
class Outcome:
    """What came of an answer on a probe: an output with its gradients, or an error."""

    output: Any = None
    gradients: dict[str, Tensor | None] = field(default_factory=dict)
    error: BaseException | None = None

    def alike(self, other: "Outcome") -> bool:
        """Whether two outcomes cannot be told apart."""
        if self.error or other.error:
            return type(self.error) is type(other.error)
        return not differs(self.output, other.output)


def tidy(output: Any) -> Any:
    """Lists as tuples: which of the two holds the results does not matter."""
    return tuple(map(tidy, output)) if isinstance(output, list | tuple) else output


def shapes(output: Any) -> list:
    """The shapes of an output's tensors."""
    parts = output if isinstance(output, tuple) else (output,)
    return [getattr(part, "shape", None) for part in parts]


def differs(yours: Any, due: Any) -> str:
    """In which way, and where first, two outputs differ; "" if they do not.

    Floats agree up to rounding, NaN with NaN; modules with themselves alone.
    """
    kinds = [Tensor if isinstance(x, Tensor) else type(x) for x in (yours, due)]
    if kinds[0] is not kinds[1]:
        a, b = (x.__name__.replace("tuple", "list or tuple") for x in kinds)
        return f"is a {a} where a {b} is due"
    if isinstance(due, tuple):
        if len(yours) != len(due):
            return f"holds {len(yours)} things where {len(due)} are due"
        return next(filter(None, map(differs, yours, due)), "")
    if not isinstance(due, Tensor):
        plain = isinstance(due, int | float | str)  # of others, the kind must do
        return f"is {yours!r:.60}, not {due!r:.60}" if plain and yours != due else ""
    if yours.shape != due.shape:
        return f"has shape {tuple(yours.shape)} where {tuple(due.shape)} is due"
    for what in ("dtype", "device"):
        a, b = (getattr(x, what) for x in (yours, due))
        if a != b:
            return f"has {what} {a} where {b} is due"
    if due.is_meta:
        return ""
    a, b = (x.detach().to_dense() for x in (yours, due))
    apart = ~torch.isclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    if not apart.any():
        return ""
    place = apart.nonzero()[0].tolist()
    a, b = (f"{x[tuple(place)].item():.5g}" for x in (a, b))
    return f"is {a}{f' at {place}' * bool(place)} where {b} is due"


def unlike(yours: Mapping[str, Tensor], due: Mapping[str, Tensor]) -> str:
    """How the names or shapes of two modules' parameters differ; "" if they do not."""
    if yours.keys() != due.keys():
        missing, more = sorted(due.keys() - yours), sorted(yours.keys() - due)
        found = [("missing", missing), ("not expected", more)]
        texts = [f"{what}: {listed(names, 3)}" for what, names in found if names]
        others = "the parameters have other names than the course's, or are shared"
        return f"{others}: {'; '.join(texts)}"
    for name, x in yours.items():
        if x.shape != due[name].shape:
            return f"{name} has shape {tuple(x.shape)}, not {tuple(due[name].shape)}"
    return ""


def gradients(output: Any, leaves: Mapping[str, Any]) -> dict[str, Tensor | None]:
    """What reaches each leaf from the output, its numbers weighted at random."""
    parts = output if isinstance(output, tuple) else (output,)
    chance, total = torch.Generator().manual_seed(0), torch.zeros(())
    for part in parts:
        if getattr(part, "requires_grad", False) and not part.is_meta:
            weights = torch.randn(part.shape, generator=chance, dtype=part.dtype)
            total = total + (part * weights).sum()
    learn = {k: x for k, x in leaves.items() if getattr(x, "requires_grad", False)}
    if not total.requires_grad:
        return dict.fromkeys(learn)
    found = torch.autograd.grad(total, [*learn.values()], allow_unused=True)
    return dict(zip(learn, found, strict=True))


def cut(yours: Mapping, due: Mapping) -> str:
    """Which of the gradients that are due are missing or wrong, in words."""
    sizes = {name: abs(g).max() for name, g in due.items() if g is not None}
    # Rounding is no gradient: with one key, its weight is 1 whatever the query says.
    least = 1e-5 * max(sizes.values(), default=0)
    due = {name: due[name] for name, size in sizes.items() if size > least}
    lost = [name for name in due if yours[name] is None or not yours[name].any()]
    if lost:
        return (
            f"no gradient reaches {listed(lost, 3)}, so nothing could be learnt: {CUT}"
        )
    if broken := [name for name in due if yours[name].isnan().any()]:
        return f"the gradient that reaches {listed(broken, 3)} holds NaN"
    scale = {name: sizes[name].clamp(min=1) for name in due}
    bent = [k for k, by in scale.items() if differs(yours[k] / by, due[k] / by)]
    return f"not all of the gradient reaches {listed(bent, 3)}: {CUT}" if bent else ""


def listed(names: Sequence[str], most: int = 99) -> str:
    """a, b and c; of more than `most`, these and how many more."""
    if len(names) > most:
        names = [*names[:most], f"{len(names) - most} more"]
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
