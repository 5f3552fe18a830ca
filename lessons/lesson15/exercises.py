"""The exercises of lesson 15: a model step by step, and a model for the check-up."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from helpers import PAD
from helpers.exercise import Exercise, Probe, Wrong
from helpers.transformer import Transformer
from lessons.lesson15 import hunt
from lessons.lesson15.breaking import small_model
from lessons.lesson15.patients import Patient
from transformer_checkup import Subject

# ------------------------------------------------------------- 15.1 step_by_step


def _model(kind: type = Transformer, **changes) -> nn.Module:
    """A small model in evaluation mode."""
    model = small_model(1, kind, **changes).eval()
    return model.requires_grad_(False)  # a check looks at the gradients of its inputs


def _sees_the_future() -> nn.Module:
    model = _model()
    hunt.plant(model)
    return model


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


def _source_cut(model: nn.Module, source: Tensor, target: Tensor) -> Tensor:
    lengths = range(1, target.size(1) + 1)
    steps = [model(source[:, :n], target[:, :n])[:, -1] for n in lengths]
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
            *(_sees_the_future(), *_ids(2, 4, 7)),
            praise="a model that sees the future, with padding on both sides",
        ),
        Probe(
            *(_model(norm_first=False), *_ids(1, 6, 1)),
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
        "the source stays whole at every step; only the target grows": _source_cut,
        "the model reads the given target, not its own words": _own_words,
    },
    lesson="15",
)

# ------------------------------------------------------------- 15.2 as_subject


def _handed_over(output: Any, model: nn.Module, **options) -> tuple:
    """What the check-up gets to see of a Subject."""
    if not isinstance(output, Subject):
        raise Wrong(f"return a Subject, not something of type {type(output).__name__}")
    source, target = hunt.as_subject(model).sentences(rows=2)
    steps = output.steps and output.steps(source, target)
    sizes = output.source_vocab, output.target_vocab, output.trained
    return *sizes, output.model(source, target), steps


def _changed(change: Callable[[nn.Module], dict], keep: bool = True) -> Callable:
    """As a Subject with some fields changed; without `keep`, options are lost."""

    def as_subject(model: nn.Module, **options) -> Subject:
        config = model.config
        given = {"steps": partial(hunt.step_by_step, model)}
        given |= {"source_vocab": config.source_vocab}
        given |= {"target_vocab": config.target_vocab}
        return Subject(model, **(given | change(model) | (options if keep else {})))

    return as_subject


as_subject = Exercise(
    hunt.as_subject,
    [
        Probe(_model(Patient), praise="vocabularies and steps are the model's"),
        Probe(
            _model(Patient, norm_first=False, n_layers=1),
            trained=True,
            praise="options go on to the Subject",
            when="with `trained=True`: ",
        ),
    ],
    {
        "source and target vocabulary are exchanged": _changed(
            lambda model: {
                "source_vocab": model.config.target_vocab,
                "target_vocab": model.config.source_vocab,
            }
        ),
        "the steps are missing: the check-up cannot compare them": _changed(
            lambda model: {"steps": None}
        ),
        "the steps are the model all at once: it would be compared with itself": (
            _changed(lambda model: {"steps": model})
        ),
        "hand the options on: `Subject(…, **options)`": _changed(
            lambda model: {}, keep=False
        ),
    },
    read=_handed_over,
)
