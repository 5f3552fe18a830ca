"""Every exercise on helpers.exercise: no right answer blamed, no wrong one praised."""

import math
from importlib import import_module

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import other_styles
from helpers import BOS, PAD
from helpers.exercise import Exercise, Probe
from helpers.positions import positional_encoding
from tools.reproducible import ROOT

LESSONS = sorted(path.parent.name for path in ROOT.glob("lessons/*/exercises.py"))
EXERCISES = {
    f"{lesson}-{name}": value
    for lesson in LESSONS
    for name, value in vars(import_module(f"lessons.{lesson}.exercises")).items()
    if isinstance(value, Exercise)
}
every = pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)


def disguised(component):
    """The same behind another name, as if somebody else had written it."""
    if not isinstance(component, type):
        return lambda *inputs, **named: component(*inputs, **named)

    class Answer(nn.Module):
        def __init__(self, *sizes, **options):
            super().__init__()
            made = component(*sizes, **options)
            self.__dict__ |= made.__dict__
            self.made = (made,)

        def forward(self, *inputs, **named):
            return self.made[0].train(self.training)(*inputs, **named)

        def __getattr__(self, name):  # other methods than `forward`
            return getattr(self.made[0], name)

    return Answer


def spoilt(component, change):
    """The component, its output changed."""
    if not isinstance(component, type):
        return lambda *inputs, **named: change(component(*inputs, **named))

    class Answer(disguised(component)):
        def forward(self, *inputs, **named):
            return change(super().forward(*inputs, **named))

    return Answer


def each_tensor(change):
    return lambda x: tuple(map(change, x)) if isinstance(x, tuple) else change(x)


def said(exercise, answer):
    lines, drawn = exercise.findings(answer)
    if drawn:
        exercise.picture(*drawn)
    assert all(line.startswith("✓") for line in lines[:-1])
    return "\n".join(lines)


# ------------------------------------------------------------------ one for all lessons


@every
def test_the_component_itself_is_right(exercise):
    assert exercise.passes(disguised(exercise.component))


@pytest.mark.parametrize(
    ("exercise", "message", "wrong"),
    [
        pytest.param(exercise, message, wrong, id=f"{name}-{message[:40]}")
        for name, exercise in EXERCISES.items()
        for message, wrong in exercise.mistakes.items()
    ],
)
def test_a_mistake_is_called_by_its_name(exercise, message, wrong):
    assert said(exercise, disguised(wrong)).splitlines()[-1] == f"✗ {message}"


@every
def test_there_are_two_sizes_and_few_mistakes(exercise):
    probes = [probe for probe in exercise.probes if not probe.alike]
    sizes = {str([getattr(x, "shape", x) for x in probe.inputs]) for probe in probes}
    assert len(sizes) > 1
    assert len(exercise.mistakes) <= (5 if exercise.is_class else 6)


@every
def test_a_constant_and_what_is_cut_off_are_wrong(exercise):
    given = []

    def constant(output):
        given.append(output)
        return given[0]

    assert "✗" in said(exercise, spoilt(exercise.component, constant))
    due = exercise._outcome(exercise.component, exercise.probes[0]).gradients
    if any(gradient is not None for gradient in due.values()):
        cut = spoilt(exercise.component, each_tensor(torch.Tensor.detach))
        assert "no gradient reaches" in said(exercise, cut)


@every
def test_nothing_attempted_is_no_mistake(exercise):
    class Stub(nn.Module):
        def __init__(self, *sizes, **options):
            super().__init__()

        def forward(self, *inputs):
            return None

    stub = Stub if exercise.is_class else lambda *inputs, **named: None
    for nothing in (None, ..., stub):
        assert said(exercise, nothing) == "○ not attempted yet"


def division(*inputs, **named):
    return 1 / 0


def leaves(*inputs, **named):
    return exit()


STRANGE = ["text", 3, dict, nn.Linear(2, 2), division, leaves, lambda: 1]
GIVEN = ["text", (), (None, None), 1j, torch.zeros(0), {"a": 1}, [[[]]], torch.eye(3)]


@every
def test_no_answer_is_too_strange(exercise, capsys):
    given = [spoilt(exercise.component, lambda output, x=x: x) for x in GIVEN]
    for strange in (*STRANGE, *given, exercise.component):
        exercise(strange)
        assert capsys.readouterr().out.startswith("✗ "), strange


# ------------------------------------------------------------------ another style


def by_einsum(query, key, value, mask=None):
    scores = torch.einsum("...qd,...kd->...qk", query, key) / query.shape[-1] ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-1e9))
    exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
    if mask is not None:
        exponentials = exponentials * mask
    weights = exponentials / exponentials.sum(-1, keepdim=True).clamp(min=1e-9)
    return [weights @ value, weights]


def by_logarithm(length, d_model):
    rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    angle = torch.arange(length).unsqueeze(1) * rate
    return torch.stack((angle.sin(), angle.cos()), dim=2).reshape(length, d_model)


class Rows(nn.Module):
    def __init__(self, vocab_size, d_model):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab_size, d_model) / d_model**0.5)

    def forward(self, ids):
        return self.weight[ids] * self.weight.size(1) ** 0.5


class EachTime(nn.Module):
    def __init__(self, d_model, *, dropout, max_length):
        super().__init__()
        self.sizes, self.p = (max_length, d_model), dropout

    def forward(self, x, *, start=0):
        rows = positional_encoding(*self.sizes).to(x.device)[start:][: x.size(1)]
        return F.dropout(x + rows, self.p, self.training)


def by_comparison(length, device=None):
    place = torch.arange(length, device=device)
    return (place[:, None] >= place)[None, None]


class OneAfterTheOther(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.n_heads, self.d_head = heads, d_model // heads
        torch.rand(7)  # an answer may draw other numbers than the course's
        for name in ("query", "key", "value", "output"):
            setattr(self, f"{name}_projection", nn.Linear(d_model, d_model))

    def forward(self, query, key, value, mask=None):
        parts = (
            getattr(self, f"{name}_projection")(x).split(self.d_head, dim=-1)
            for name, x in (("query", query), ("key", key), ("value", value))
        )
        heads = query.size(-1) // self.d_head
        masks = [None] * heads
        if mask is not None:
            masks = mask.expand(-1, heads, -1, -1).unbind(1)
        found = [by_einsum(*part)[0] for part in zip(*parts, masks, strict=True)]
        return self.output_projection(torch.cat(found, dim=-1))


def by_largest(layer, x):
    whole, worst = layer(x), torch.tensor(0.0)
    for k in range(1, x.shape[1]):
        change = (layer(x[:, :k]) - whole[:, :k]).abs()
        worst = torch.maximum(worst, change.max())
    return worst


def packed_by_subtraction(tokens):
    number = torch.cumsum((tokens == BOS).float(), -1)
    same = (number[:, :, None] - number[:, None]).abs() == 0
    return (same & by_comparison(tokens.shape[1])[0]).unsqueeze(1)


def on_a_circle(length):
    angle = torch.arange(length, dtype=torch.float64) * math.pi / length
    key = torch.stack([angle.cos(), angle.sin()], dim=-1)
    return 1e7 * key[(torch.arange(length) - 1).clamp(min=0)], key


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        (
            "lesson00-shift",
            lambda target: list(torch.stack([target, target.roll(-1, 1)])[:, :, :-1]),
        ),
        ("lesson01-positional_encoding", by_logarithm),
        ("lesson01-token_embedding", Rows),
        ("lesson01-positional_encoding_layer", EachTime),
        ("lesson02-attention", by_einsum),
        ("lesson02-one_place_back", on_a_circle),
        ("lesson03-causal_mask", by_comparison),
        (
            "lesson03-decoder_mask",
            lambda x: by_comparison(x.size(1), x.device) & (x != PAD)[:, None, None],
        ),
        ("lesson03-future_change", by_largest),
        ("lesson03-packed_mask", packed_by_subtraction),
        ("lesson04-multi_head_attention", OneAfterTheOther),
        *other_styles.RIGHT,
        (
            "lesson03-padding_mask",
            lambda x: torch.tensor([[[[i != PAD for i in row]]] for row in x.tolist()]),
        ),
    ],
)
def test_another_style_is_as_right(name, answer):
    assert EXERCISES[name].passes(answer), said(EXERCISES[name], answer)


def only_square_masks(query, key, value, mask=None):
    scores = query @ key.mT / query.size(-1) ** 0.5
    if mask is not None:
        scores = scores.clone()
        scores[..., ~mask] = -math.inf
    weights = scores.softmax(dim=-1).nan_to_num(0.0)
    return weights @ value, weights


def three_axes(layer, x):
    whole, ks = layer(x), range(1, x.shape[1])
    return torch.stack(
        [(layer(x[:, :k, :]) - whole[:, :k, :]).abs().max() for k in ks]
    ).max()


class OtherNumberOfHeads(OneAfterTheOther):
    def __init__(self, d_model, heads):
        super().__init__(d_model, heads)
        self.n_heads = 1


class OneProjection(OneAfterTheOther):
    def __init__(self, d_model, heads):
        super().__init__(d_model, heads)
        self.key_projection = self.query_projection


def with_forward(forward):
    """Right heads, but for what `forward(layer, right, *given)` makes of them."""

    class Wrong(OneAfterTheOther):
        def forward(self, query, key, value, mask=None):
            return forward(self, super().forward, query, key, value, mask)

    return Wrong


WRONG_HEADS = {
    "without an axis of size 1": lambda _, right, *given: right(*given).squeeze(),
    "for a batch of 3": lambda _, right, q, *given: right(q, *given).reshape(
        3, q.size(1), -1
    ),
    "without the mask in training": lambda layer, right, q, k, v, mask: right(
        q, k, v, None if layer.training else mask
    ),
    "value as key": lambda _, right, q, k, v, mask: right(q, v, k, mask),
    "keys of the query": lambda _, right, q, k, v, mask: right(q, q, v, mask),
}


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("lesson02-attention", only_square_masks),
        ("lesson03-future_change", lambda layer, x: by_largest(layer, x)[None]),
        ("lesson03-future_change", three_axes),
        ("lesson04-multi_head_attention", OtherNumberOfHeads),
        *(
            ("lesson04-multi_head_attention", with_forward(forward))
            for forward in WRONG_HEADS.values()
        ),
    ],
)
def test_what_works_for_some_shapes_is_not_right(name, answer):
    assert "✗" in said(EXERCISES[name], answer)


# ------------------------------------------------------------------ what is said


def pair(x):
    return 2 * x, x + 1


PROBES = [Probe(torch.randn(n)) for n in (2, 3)]
STOPS = {"all that stops is alike": lambda x: nowhere}  # noqa: F821
DOUBLE = Exercise(pair, PROBES, STOPS, results=("a", "b"))


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (lambda x: (2 * x, x + 1.5), "b is "),
        (lambda x: (x + 1, 2 * x), "return a and b in this order, not the other"),
        (lambda x: (2 * x + 0 * (x - x).abs().sqrt(), x + 1), "reaches x holds NaN"),
        (lambda x: 2 * x, "return all results: `return a, b`"),
        (lambda x: print(end=""), "it returns nothing"),
        (lambda x: (2 * x[:1], x), "a has shape (1,) where (2,) is due"),
        (lambda x: (2 * x.double(), x + 1), "a has dtype torch.float64 where"),
        (lambda x: (x.mul_(2), x / 2 + 1), "your code changes its inputs"),
        (lambda x: (F.dropout(2 * x, 0.9), x + 1), "differ: something random"),
        (lambda x: (x + x.detach(), x + 1), "not all of the gradient reaches x"),
        (lambda x: (x.detach().numpy(), x + 1), "a is a ndarray where a Tensor is due"),
        (lambda x: (nowhere, x), "NameError: name 'nowhere' is not defined"),  # noqa: F821
    ],
)
def test_what_is_wrong_is_said(answer, part):
    text = said(DOUBLE, answer)
    assert text.startswith("✗ ") and part in text, text


def test_a_check_leaves_the_random_numbers_alone():
    state = torch.get_rng_state()
    assert DOUBLE.passes(lambda x: (2 * x, x + 1 + 0 * torch.rand(1)))  # nor needs them
    assert torch.equal(state, torch.get_rng_state())


def test_missing_parameters_are_listed():
    text = said(EXERCISES["lesson04-multi_head_attention"], OneProjection)
    assert "missing: key_projection.bias and key_projection.weight" in text
