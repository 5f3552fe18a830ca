"""The exercises of lesson 15: a model step by step, and a hunt."""

from typing import Any

import torch
from torch import Tensor, nn

from helpers import PAD
from helpers.exercise import UNTRIED, Exercise, Probe, Wrong
from helpers.transformer import Transformer
from lessons.lesson15 import hunt
from lessons.lesson15.breaking import small_model
from lessons.lesson15.patients import Patient

# ------------------------------------------------------------- 15.1 step_by_step


def _model(kind: type = Transformer, **changes) -> nn.Module:
    """A small model in evaluation mode; a check looks at its inputs' gradients."""
    return small_model(1, kind, **changes).eval().requires_grad_(False)


def _ids(batch: int, *lengths: int) -> list[Tensor]:
    """Ids of both sides; in the second row, both end with padding."""
    chance = torch.Generator().manual_seed(sum(lengths))
    both = [torch.randint(4, 50, (batch, n), generator=chance) for n in lengths]
    for side in both:
        side[1:2, -2:] = PAD
    return both


def _as_logits(output: Any, model: nn.Module, *sides: Tensor) -> Any:
    """The output, if the model is left in evaluation mode."""
    if model.training:
        raise Wrong("the model comes in evaluation mode: leave it so")
    return output


def _newest_alone(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    steps = [model(source, token[:, None])[:, -1] for token in target.unbind(1)]
    return torch.stack(steps, dim=1)


def _padded(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    lengths, steps = range(1, target.size(1) + 1), []
    for n in lengths:
        read = target.clone()
        read[:, n:] = PAD
        steps.append(model(source, read)[:, n - 1])
    return torch.stack(steps, dim=1)


step_by_step = Exercise(
    hunt.step_by_step,
    [
        Probe(_model(Patient), *_ids(3, 9, 5), praise="a model like the patient"),
        Probe(
            hunt.plant(_model(), "decoder.layers.0.self_attention", "sees padding"),
            *_ids(2, 4, 7),
            praise="a model that sees all of the target, its padding too",
        ),
        Probe(
            *(_model(norm_first=False, dropout=0.3), *_ids(1, 6, 1)),
            praise="a sound model, a single step",
        ),
    ],
    {
        "these are the logits all at once: at step n, the model reads `target[:, :n]` "
        "and nothing later": lambda model, *sides: model(*sides),
        "at step n, the model reads all n tokens so far, not the newest alone": (
            _newest_alone
        ),
        "at step n, later tokens are not there: PAD in their places is not the same": (
            _padded
        ),
    },
    read=_as_logits,
    lesson="15",
)

# ------------------------------------------------------------- 15.2 a blind hunt


def blind_hunt(number: int, answer: Any) -> None:
    """Print whether the answer, (module, fault), is what this secret has planted."""
    module, fault = hunt.secret(number)
    if answer is None:
        print(UNTRIED)
    elif not (isinstance(answer, tuple | list) and [*map(type, answer)] == [str, str]):
        print("✗ give two texts: (module, fault)")
    elif answer[1] not in hunt.FAULTS:
        print(f"✗ the fault is one of these: {', '.join(hunt.FAULTS)}")
    elif answer[1] != fault:
        shown = hunt.FAULTS[answer[1]].shown
        print(f"✗ it is another fault: with “{answer[1]}”, {shown}")
    elif answer[0] not in dict(_model().named_modules()):
        print("✓ this is the fault", "✗ no module has this name", sep="\n")
    elif not f"{answer[0]}.".startswith(f"{module}."):
        print("✓ this is the fault", "✗ it sits in another module", sep="\n")
    else:
        print(f"✓ found: `{module}` {fault}")
