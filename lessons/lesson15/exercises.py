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
    """A small model in evaluation mode."""
    model = small_model(1, kind, **changes).eval()
    model.register_forward_pre_hook(_some_target)
    return model.requires_grad_(False)  # a check looks at the gradients of its inputs


def _some_target(model: nn.Module, sides: tuple) -> None:
    if sides and not sides[-1].size(1):
        raise Wrong("a step reads no token: at the first step the model reads one")


def _sees_all() -> nn.Module:
    return hunt.plant(_model(), "decoder.layers.0.self_attention", "sees padding")


def _ids(batch: int, *lengths: int) -> list[Tensor]:
    """Ids of both sides; in the second row, both end with padding."""
    chance = torch.Generator().manual_seed(sum(lengths))
    both = [torch.randint(4, 50, (batch, n), generator=chance) for n in lengths]
    for side in both:
        side[1:2, -2:] = PAD
    return both


def _each(model: nn.Module, source: Tensor, target: Tensor) -> list[Tensor]:
    """What the model gives for each beginning of the target."""
    return [model(source, target[:, :n]) for n in range(1, target.size(1) + 1)]


def _as_logits(output: Any, model: nn.Module, *sides: Tensor) -> Any:
    """The output, if it can be logits and the model is left in evaluation mode."""
    if model.training:
        raise Wrong("the model comes in evaluation mode: leave it so")
    if isinstance(output, list | tuple):
        raise Wrong("stack the steps to one tensor: `torch.stack(…, dim=1)`")
    if isinstance(output, Tensor) and output.is_floating_point():
        shares = [output.sum(-1), output.exp().sum(-1)]
        if any((total - 1).abs().max() < 1e-3 for total in shares if total.numel()):
            raise Wrong("return the logits as they are, no softmax and no logarithm")
    return output


def _padded(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    lengths, steps = range(1, target.size(1) + 1), []
    for n in lengths:
        read = target.clone()
        read[:, n:] = PAD
        steps.append(model(source, read)[:, n - 1])
    return torch.stack(steps, dim=1)


def _all_at_once(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    return model(source, target)


def _first_place(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    return torch.stack([x[:, 0] for x in _each(model, source, target)], dim=1)


def _length_first(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    return torch.stack([x[:, -1] for x in _each(model, source, target)])


def _one_too_few(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    return hunt.step_by_step(model, source, target)[:, :-1]


def _newest_alone(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    steps = [model(source, token[:, None])[:, -1] for token in target.unbind(1)]
    return torch.stack(steps, dim=1)


def _states(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    memory, lengths = model.encode(source), range(1, target.size(1) + 1)
    steps = [model.decode(target[:, :n], memory, source)[:, -1] for n in lengths]
    return torch.stack(steps, dim=1)


def _own_words(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    read, steps = target[:, :1], []
    for _ in range(target.size(1)):
        steps.append(model(source, read)[:, -1])
        read = torch.cat([read, steps[-1].argmax(-1, keepdim=True)], dim=1)
    return torch.stack(steps, dim=1)


step_by_step = Exercise(
    hunt.step_by_step,
    [
        Probe(_model(Patient), *_ids(3, 9, 5), praise="a model like the patient"),
        Probe(
            *(_sees_all(), *_ids(2, 4, 7)),
            praise="a model that sees all of the target, its padding too",
        ),
        Probe(
            *(_model(norm_first=False, dropout=0.3), *_ids(1, 6, 1)),
            praise="a sound model, a single step",
            when="with a target of one token: ",
        ),
    ],
    {
        "these are the logits all at once: at step n, the model reads `target[:, :n]` "
        "and nothing later": _all_at_once,
        "at each step, the newest place counts: `[:, -1]`": _first_place,
        "the steps stand in front of the batch: `torch.stack(…, dim=1)`": _length_first,
        "a step is missing: the last one reads the whole target": _one_too_few,
        "at step n, the model reads all n tokens so far, not the newest alone": (
            _newest_alone
        ),
        "`decode` gives states: `model.project(…)` turns them into logits": _states,
        "the model reads the given target, not its own words": _own_words,
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
        print("✓ this is the fault")
        print(
            "✗ no module has this name: write all of it, from `encoder.` or `decoder.`"
        )
    elif not f"{answer[0]}.".startswith(f"{module}."):
        print("✓ this is the fault")
        print("✗ it sits in another module: which is the first whose output differs?")
    else:
        print(f"✓ found: `{module}` {fault}")
