"""Lesson 02's checks: every mistake is caught by name, nothing sound is blamed."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from findings import assert_all_right, assert_answers, assert_wrong
from torch.nn import functional as F

from helpers.attention import attention
from helpers.checks import lesson02

# ---------------------------------------------------------------- sound answers


def with_einsum(query, key, value, mask=None):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-torch.inf))
    weights = torch.exp(scores - scores.amax(-1, keepdim=True).clamp(min=-1e30))
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)
    return torch.einsum("bhqk,bhkv->bhqv", weights, value), weights


def with_a_billion(query, key, value, mask=None):
    scores = torch.matmul(query, key.transpose(3, 2))
    if mask is not None:
        scores.masked_fill_(mask == 0, -1e9)
    weights = torch.softmax(scores / math.sqrt(key.shape[3]), dim=3)
    return [torch.matmul(weights, value), weights]


def with_an_added_mask(query, key, value, mask=None):
    weights = query / math.sqrt(query.size(-1)) @ key.mT
    if mask is not None:
        weights = weights + torch.where(mask, 0.0, -1e9)
    weights = F.softmax(weights, -1)
    return weights.matmul(value), weights


def with_pytorchs_own(query, key, value, mask=None):
    context = F.scaled_dot_product_attention(query, key, value, mask)
    ones = torch.eye(key.size(-2), dtype=key.dtype).expand(*key.shape[:-1], -1)
    return context, F.scaled_dot_product_attention(query, key, ones, mask)


def in_float64(query, key, value, mask=None):
    return attention(query.double(), key.double(), value.double(), mask)


def head_by_head(query, key, value, mask=None):
    whole = torch.ones(*query.shape[:3], key.size(2), dtype=torch.bool)
    whole = whole if mask is None else mask & whole
    contexts, weights = torch.zeros(*query.shape[:3], value.size(3)), torch.zeros(0)
    weights = torch.zeros(whole.shape)
    for b in range(query.size(0)):
        for h in range(query.size(1)):
            pair = attention(query[b, h], key[b, h], value[b, h], whole[b, h])
            contexts[b, h], weights[b, h] = pair
    return contexts, weights


SOUND = [
    attention,
    with_einsum,
    with_a_billion,
    with_an_added_mask,
    with_pytorchs_own,
    in_float64,
    head_by_head,
]


@pytest.mark.parametrize("sound", SOUND)
def test_nothing_sound_is_blamed(sound, seed):
    def unmasked(query, key, value):
        return sound(query, key, value)

    assert_all_right(lesson02.scaled_attention.findings(unmasked, seed=seed), 4)
    assert_all_right(lesson02.masked_attention.findings(sound, seed=seed), 6)


def test_the_line_on_an_empty_row_says_what_it_gets():
    zeros = lesson02.masked_attention.findings(attention)[-1].text
    mean = lesson02.masked_attention.findings(with_a_billion)[-1].text
    assert "gets zeros, not NaN" in zeros and "but hidden values" in mean


# --------------------------------------------------------------------- mutants
# As learners write them, apart from the wrong versions that the check compares with.


def attend(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1)
    scores = scores / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights


def mutant(*changes):
    """`attend` with pieces of its text replaced."""
    source = MUTANT
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    space = {"torch": torch, "math": math, "F": F, "np": np}
    exec(source, space)
    return space["attend"]


MUTANT = """
def attend(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1)
    scores = scores / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    return weights @ value, weights
"""
SCALE = "scores = scores / math.sqrt(query.shape[-1])"
TURN = "key.transpose(-2, -1)"
SOFTMAX = "torch.softmax(scores, dim=-1)"
RETURN = "return weights @ value, weights"
MUTANTS = {
    "the scale is forgotten": [(SCALE, "pass")],
    "divided by d_head instead of its square root": [
        (SCALE, "scores = scores / query.shape[-1]")
    ],
    "multiplied by the square root of d_head": [("/ math.sqrt", "* math.sqrt")],
    "the scale is taken from the number of keys": [
        ("query.shape[-1]", "scores.shape[-1]")
    ],
    "the scale comes after the softmax": [
        (SCALE, "pass"),
        (RETURN, "weights = weights / query.shape[-1] ** 0.5\n    " + RETURN),
    ],
    "the key is not transposed": [(TURN, "key")],
    "the batch axis of the key is transposed": [(TURN, "key.transpose(0, 1)")],
    "the heads axis of the key is transposed": [(TURN, "key.transpose(1, 2)")],
    "all axes of the key are reversed": [(TURN, "key.permute(3, 2, 1, 0)")],
    "the softmax runs over the queries": [("dim=-1", "dim=-2")],
    "the softmax runs over the batch": [("dim=-1", "dim=0")],
    "the softmax runs over the heads": [("dim=-1", "dim=1")],
    "the softmax is missing": [(SOFTMAX, "scores")],
    "log_softmax stands where softmax belongs": [("torch.softmax", "F.log_softmax")],
    "the weights are applied to the key": [("weights @ value", "weights @ key")],
    "the scores are applied to the value": [("weights @ value", "scores @ value")],
    "only the context is returned": [(RETURN, "return weights @ value")],
    "only the weights are returned": [(RETURN, "return weights")],
    "context and weights are swapped": [(RETURN, "return weights, weights @ value")],
    "the scores are returned in place of the weights": [
        (RETURN, "return weights @ value, scores")
    ],
}
FILL = 'scores = scores.masked_fill(mask == 0, float("-inf"))'
AFTER = "weights = weights.masked_fill(~mask, 0)\n    " + RETURN
MASK_MUTANTS = {
    "is its result thrown away?": [(FILL, "scores.masked_fill(~mask, -1e9)")],
    "the mask has no effect": [(FILL, "pass")],
    "the mask is inverted": [("mask == 0", "mask")],
    "the mask comes after the softmax:": [(FILL, "pass"), (RETURN, AFTER)],
    "hidden scores are set to 0": [(FILL, "scores = scores * mask")],
    "1e-9 is 0": [('float("-inf")', "1e-9")],
    "hidden scores are set to +∞": [('float("-inf")', 'float("inf")')],
    "the mask is added to the scores as 0 and 1": [(FILL, "scores = scores + mask")],
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mistakes_in_scaled_attention_are_named(name, seed):
    wrong = mutant(*MUTANTS[name])
    assert_wrong(lesson02.scaled_attention.findings(wrong, seed=seed), name)


@pytest.mark.parametrize("name", MASK_MUTANTS)
def test_mistakes_with_the_mask_are_named(name, seed):
    wrong = mutant(*MASK_MUTANTS[name])
    assert_wrong(lesson02.masked_attention.findings(wrong, seed=seed), name)


# Where hidden scores of -∞ go on to make NaN, the others are known by their minus.
MASKED = {name for name in MUTANTS if "scores are" not in name}


@pytest.mark.parametrize("fill", ["-math.inf", "-1e9"])
@pytest.mark.parametrize(
    "name",
    sorted(
        MASKED - {"the softmax is missing", "log_softmax stands where softmax belongs"}
    ),
)
def test_the_same_mistakes_are_named_with_a_mask(name, fill, seed):
    wrong = mutant(*MUTANTS[name], ('float("-inf")', fill))
    assert_wrong(lesson02.masked_attention.findings(wrong, seed=seed), name)


@pytest.mark.parametrize("epsilon", ["", " + 1e-9"])
def test_renormalising_after_the_softmax_is_named(epsilon, seed):
    late = "weights = weights.masked_fill(~mask, 0.0)\n    "
    late += f"weights = weights / (weights.sum(-1, keepdim=True){epsilon})\n    "
    wrong = mutant((FILL, "pass"), (RETURN, late + RETURN))
    found = lesson02.masked_attention.findings(wrong, seed=seed)
    named = [finding for finding in found if "the rows renormalised" in finding.text]
    assert [finding.mark for finding in named] == ["✗"]
    assert [finding.mark for finding in found[:4]] == ["✓"] * 4


def test_two_and_three_mistakes_at_once(seed):
    two = mutant((SCALE, "pass"), ("dim=-1", "dim=-2"))
    names = "the scale is forgotten", "the softmax runs over the queries"
    assert_wrong(lesson02.scaled_attention.findings(two, seed=seed), *names)
    three = mutant((SCALE, "pass"), ("dim=-1", "dim=-2"), (FILL, "pass"))
    found = lesson02.masked_attention.findings(three, seed=seed)
    assert_wrong(found, *names, "the mask has no effect")


def test_an_empty_row_of_nan_is_named(seed):
    found = lesson02.masked_attention.findings(attend, seed=seed)
    assert_wrong(found, "a query that may attend to nothing gets NaN")
    assert len(found) == 6


@pytest.mark.usefixtures("seed")
def test_something_random_is_named():
    wrong = mutant((SOFTMAX, f"F.dropout({SOFTMAX}, 0.1)"))
    assert_wrong(lesson02.scaled_attention.findings(wrong), "dropout")


@pytest.mark.parametrize(
    "change",
    [
        (SCALE, "query /= math.sqrt(query.shape[-1])\n    scores = query @ key.mT"),
        (RETURN, "value.mul_(1.5)\n    " + RETURN),
        (RETURN, "key[0] = 0\n    " + RETURN),
    ],
)
def test_changed_inputs_are_named(change):
    found = lesson02.scaled_attention.findings(mutant(change))
    assert_wrong(found, "changes its inputs in place")


def test_a_mistake_that_stops_the_code_is_named_with_the_error():
    found = lesson02.scaled_attention.findings(mutant((TURN, "key")))
    assert_wrong(found, "the key is not transposed", "RuntimeError", "(line ")
    found = lesson02.scaled_attention.findings(mutant((TURN, "key"), (SCALE, "pass")))
    assert_wrong(found, "the key is not transposed", "the scale is forgotten")
    mixed = (RETURN, "return (weights @ value).view(value.shape), weights")
    found = lesson02.scaled_attention.findings(mutant(mixed))
    assert_wrong(found, "only where all axes have the same size", "RuntimeError")


def test_sizes_written_as_numbers_are_found():
    wrong = mutant(("query.shape[-1]", "6"))
    assert_wrong(lesson02.scaled_attention.findings(wrong), "with query (3, 1, 2, 9)")


@pytest.mark.parametrize(
    ("lost", "names"),
    [
        (("query @", "query.detach() @"), "query,"),
        (("key.transpose", "key.data.transpose"), "key,"),
        ((RETURN, "return (weights @ value).detach(), weights"), "query, key, value"),
    ],
)
def test_lost_gradients_are_named(lost, names):
    found = lesson02.scaled_attention.findings(mutant(lost))
    assert_wrong(found, f"no gradient reaches {names}")


def test_what_is_wrong_without_a_name_is_described():
    def of(change):
        return lesson02.scaled_attention.findings(mutant(change))

    assert_wrong(of((RETURN, "return weights @ value * 2, weights")), "context is not")
    assert_wrong(of((RETURN, "return weights @ value, weights * 2")), "its weights")
    assert_wrong(of((RETURN, "return context, weights.mT")), "NameError")
    assert_wrong(of((RETURN, "return weights @ value, weights.mT")), "(2, 3, 5, 4)")
    assert_wrong(of((SCALE, "scores = scores * math.nan")), "NaN or infinity")
    assert_wrong(of((SCALE, "scores = scores / 3")), "the rows sum to 1, but")
    half = (RETURN, "weights = weights / 2\n    " + RETURN)
    assert_wrong(of(half), "sums to 0.500")
    assert_wrong(of((RETURN, "return weights.sum()")), "one tensor of shape ()")


STRANGE = {
    "nothing": lambda *x: None,
    "a string": lambda *x: "attention",
    "one in a tuple": lambda *x: x[:1],
    "three tensors": lambda *x: x[:3],
    "an empty tuple": lambda *x: (),
    "None twice": lambda *x: (None, None),
    "numpy": lambda *x: (x[0].numpy(), x[1].numpy()),
    "numbers": lambda *x: (1.0, 2.0),
    "a generator": lambda *x: (y for y in x),
    "complex": lambda *x: (x[0] * 1j, x[1] * 1j),
    "integers": lambda *x: (x[0].long(), x[1].long()),
    "booleans": lambda *x: (x[0] > 0, x[1] > 0),
    "sparse": lambda *x: (x[0].to_sparse(), x[1].to_sparse()),
    "on no device": lambda *x: (x[0].to("meta"), x[1].to("meta")),
    "no dimension": lambda *x: (torch.tensor(1.0), torch.tensor(1.0)),
    "no elements": lambda *x: (torch.zeros(0), torch.zeros(0)),
    "half precision": lambda *x: attention(*(y.half() for y in x[:3])),
    "nan": lambda *x: (x[2] * math.nan, x[0] * math.nan),
    "a dictionary": lambda *x: {"context": 1},
    "a class": dict,
    "a module": torch.nn.Linear(2, 2),
    "a number": 3,
    "no argument": lambda: 1,
    "deep": lambda *x: [[[x]]],
    "division": lambda *x: 1 / 0,
    "asserts": lambda *x: pytest.fail.Exception,
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize(
    "check",
    [lesson02.scaled_attention, lesson02.masked_attention, lesson02.one_place_back],
    ids=lambda check: check.__name__,
)
def test_no_answer_is_too_strange(check, name, capsys):
    assert check(STRANGE[name]) is None
    assert_answers(capsys)


def test_the_weights_are_drawn_only_when_wrong(monkeypatch, capsys):
    drawn = []
    monkeypatch.setattr(plt, "show", lambda: drawn.append(plt.close("all")))
    lesson02.scaled_attention(lambda q, k, v: attention(q, k, v))
    assert not drawn
    lesson02.scaled_attention(mutant((SCALE, "pass")))
    assert len(drawn) == 1 and "the scale is forgotten" in capsys.readouterr().out


# ------------------------------------------------------------------ 02.2 shapes

RIGHT = {
    "weights_shape": (32, 8, 7, 9),
    "context_shape": (32, 8, 7, 48),
    "sum_axis": -1,
    "mask_shape": (32, 1, 1, 9),
}


def test_right_shapes_however_written():
    assert_all_right(lesson02.shapes.findings(**RIGHT), 4)
    other = {name: x if name == "sum_axis" else list(x) for name, x in RIGHT.items()}
    assert_all_right(lesson02.shapes.findings(**other, seed=0), 4)
    sizes = RIGHT | {"mask_shape": torch.Size((32, 1, 1, 9)), "sum_axis": 3}
    assert_all_right(lesson02.shapes.findings(**sizes), 4)


def test_the_right_shapes_are_right():
    query, key, value = torch.ones(32, 8, 7, 64), torch.ones(32, 8, 9, 64), None
    value = torch.ones(32, 8, 9, 48)
    mask = torch.ones(RIGHT["mask_shape"], dtype=torch.bool)
    context, weights = attention(query, key, value, mask)
    assert weights.shape == RIGHT["weights_shape"]
    assert context.shape == RIGHT["context_shape"]
    torch.testing.assert_close(weights.sum(RIGHT["sum_axis"]), torch.ones(32, 8, 7))


def test_shapes_not_attempted():
    for answers in ({}, dict.fromkeys(RIGHT), dict.fromkeys(RIGHT, ...)):
        found = lesson02.shapes.findings(**answers)
        assert [finding.mark for finding in found] == ["○"] * 4


@pytest.mark.parametrize(
    ("name", "answer", "part"),
    [
        ("weights_shape", (32, 8, 9, 7), "queries come before keys"),
        ("weights_shape", [32, 7, 9], "each of the 8 heads"),
        ("context_shape", (32, 8, 7, 64), "whose size is d_value"),
        ("sum_axis", -2, "along -2 lie the queries"),
        ("sum_axis", 0, "the sentence pairs"),
        ("mask_shape", (32, 1, 7, 1), "that hides queries"),
        ("mask_shape", (32, 8, 7, 9), "right but not the smallest"),
        ("mask_shape", (32, 9), "broadcasting starts at the right"),
        ("sum_axis", "last", "the number of an axis is due"),
        ("sum_axis", 7, "the number of an axis is due"),
        ("weights_shape", (1, 2), "a tuple of four sizes is due"),
        ("weights_shape", torch.ones(32, 8), "a tuple of four sizes is due"),
        ("weights_shape", ([], {}), "a tuple of four sizes is due"),
    ],
)
def test_wrong_shapes_have_a_reason(name, answer, part):
    found = lesson02.shapes.findings(**(RIGHT | {name: answer}))
    wrong = [finding for finding in found if finding.mark == "✗"]
    assert len(wrong) == 1 and len(found) == 4
    assert wrong[0].text.startswith(name) and part in wrong[0].text


# ---------------------------------------------------------- 02.4 one place back


def one_hot(length, shift, strength=100.0):
    """Query and key; row i asks for place i + shift, kept inside the sentence."""
    places = (torch.arange(length) + shift).clamp(0, length - 1)
    return strength * torch.eye(length)[places], torch.eye(length)


def by_distance(length):
    """Another way: a score that falls with the squared distance."""
    place = torch.arange(length).float()[:, None]
    wanted = (place - 1).clamp(min=0)
    one = torch.ones_like(place)
    return 20 * torch.cat([2 * wanted, -one], 1), torch.cat([place, place**2], 1)


def trainable(length):
    return [part.double().requires_grad_() for part in one_hot(length, -1)]


@pytest.mark.parametrize("sound", [lambda n: one_hot(n, -1), by_distance, trainable])
def test_one_place_back_right(sound):
    assert_all_right(lesson02.one_place_back.findings(sound), 3)


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (lambda n: one_hot(n, 0), "every token looks at itself"),
        (lambda n: one_hot(n, 1), "every token looks ahead"),
        (lambda n: one_hot(n, -1)[::-1], "every token looks ahead"),
        (lambda n: one_hot(n, -1, 3.0), "the right keys win, but one gets only"),
        (lambda n: (torch.ones(n, 4), torch.ones(n, 4)), "the same weight"),
        (
            lambda n: (torch.eye(n).roll(1, 0) * 99, torch.eye(n)),
            "only the first token",
        ),
        (lambda n: (torch.eye(n).flip(0) * 99, torch.eye(n)), "compare the pictures"),
        (lambda n: (torch.eye(n) * math.nan, torch.eye(n)), "hold NaN or infinity"),
        (lambda n: torch.eye(n), "return two tensors, query and key"),
        (lambda n: (torch.eye(n), torch.eye(n + 1)), "are both to have the shape"),
        (lambda n: one_hot(5, -1), "length 2: query and key are both"),
    ],
)
def test_one_place_back_wrong(answer, part):
    found = lesson02.one_place_back.findings(answer)
    assert_wrong(found, part)


def test_one_place_back_not_attempted():
    assert lesson02.one_place_back.findings(lambda n: None)[0].mark == "○"


@pytest.mark.parametrize("sizes", [lesson02.SIZES, lesson02.SQUARE, lesson02.OTHER])
def test_mistakes_can_be_combined_without_an_error(sizes):
    batch, heads, queries, keys, d_head, d_value = sizes
    each = (queries, d_head), (keys, d_head), (keys, d_value)
    inputs = [torch.randn(batch, heads, *size) for size in each]
    inputs.append(torch.rand(batch, heads, queries, keys) < 0.7)
    unlike = torch.zeros(0)
    assert not lesson02.recognise(
        unlike, lesson02.version, lesson02.MASKED_MISTAKES, inputs
    )
    assert not lesson02.recognise(
        unlike, lesson02.version, lesson02.MISTAKES, inputs[:3]
    )
