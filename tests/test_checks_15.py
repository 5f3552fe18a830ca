"""Lesson 15's checks: each slip is named, nothing sound is blamed, the seals hold."""

import math

import numpy as np
import pytest
import torch
from findings import assert_all_right, assert_answers, assert_wrong

from helpers.checks import lesson15
from helpers.debugger.adapters import of_course
from helpers.debugger.breaking import small_model
from helpers.debugger.properties import failing
from helpers.debugger.sealed import KEPT, sealed, secret
from helpers.transformer import Transformer

# ------------------------------------------------------------------- is_causal


def changed(target, position):
    other = target.clone()
    other[:, position] = (other[:, position] + 1 - 4) % 40 + 4
    return other


@torch.no_grad()
def is_causal(model, source, target):
    model.eval()
    before = model(source, target)
    for position in range(1, target.size(1)):
        after = model(source, changed(target, position))
        if (after - before)[:, :position].abs().max() > 1e-4:
            return False
    return True


@torch.no_grad()
def by_prefixes(model, source, target):
    model.eval()
    whole = model(source, target)
    return all(
        torch.allclose(model(source, target[:, :n]), whole[:, :n], atol=1e-4)
        for n in range(1, target.size(1))
    )


def by_gradients(model, source, target):
    model.eval()
    vectors = []

    def keep(module, _, output):
        vectors.append(output)
        return output

    hook = model.target_embedding.register_forward_hook(keep)
    logits = model(source, target)
    hook.remove()
    for position in range(target.size(1) - 1):
        (slope,) = torch.autograd.grad(
            logits[:, position].abs().sum(), vectors[0], retain_graph=True
        )
        if slope[:, position + 1 :].abs().max() > 1e-9:
            return False
    return torch.tensor(True)


def as_numpy_says_it(model, source, target):
    return np.bool_(is_causal(model, source, target))


SOUND = [is_causal, by_prefixes, by_gradients, as_numpy_says_it]


@pytest.mark.parametrize("sound", SOUND)
def test_nothing_sound_is_blamed(sound):
    assert_all_right(lesson15.is_causal.findings(sound), 6)


def compares_everything(model, source, target):
    model.eval()
    other = changed(target, 4)
    return torch.allclose(model(source, other), model(source, target), atol=1e-4)


def only_the_first(model, source, target):
    model.eval()
    other = changed(target, 0)
    before, after = model(source, target), model(source, other)
    return torch.allclose(before[:, :0], after[:, :0])


def changes_the_source(model, source, target):
    model.eval()
    before, after = model(source, target), model(source.flip(1), target)
    return torch.allclose(before[:, :0], after[:, :0])


def only_the_last(model, source, target):
    model.eval()
    before, after = model(source, target), model(source, changed(target, -1))
    return torch.allclose(before[:, :-1], after[:, :-1], atol=1e-4)


def leaves_a_gap(model, source, target):
    model.eval()
    before = model(source, target)
    return all(
        torch.allclose(
            before[:, : position - 1],
            model(source, changed(target, position))[:, : position - 1],
            atol=1e-4,
        )
        for position in range(1, target.size(1))
    )


def exactly_equal(model, source, target):
    model.eval()
    before = model(source, target)
    return all(
        torch.equal(before[:, :n], model(source, changed(target, n))[:, :n])
        for n in range(1, target.size(1))
    )


def too_strict(model, source, target):
    model.eval()
    before = model(source, target)
    return all(
        torch.allclose(before[:, :n], model(source, changed(target, n))[:, :n])
        for n in range(1, target.size(1))
    )


def without_the_last_return(model, source, target):
    if not is_causal(model, source, target):
        return False


def with_dropout_on(model, source, target):
    before = model(source, target)
    return all(
        torch.allclose(
            before[:, :n], model(source, changed(target, n))[:, :n], atol=1e-4
        )
        for n in range(1, target.size(1))
    )


@pytest.mark.parametrize(
    ("slip", "words"),
    [
        (compares_everything, "compare `[:, :position]` alone"),
        (only_the_first, "other than the first"),
        (changes_the_source, "of the *target*"),
        (only_the_last, "try every position"),
        (leaves_a_gap, "compare up to it"),
        (exactly_equal, "rounding and no leak"),
        (too_strict, "torch.allclose(…, atol=1e-4)"),
        (without_the_last_return, "`return True` may be missing"),
        (with_dropout_on, "call `model.eval()` first"),
        (lambda *inputs: not is_causal(*inputs), "the other way round"),
        (lambda *inputs: "yes", "return True or False, not something of type str"),
        (lambda *inputs: torch.zeros(3), "not something of type Tensor"),
        (lambda model: True, "your code stopped with TypeError"),
    ],
)
def test_each_slip_of_is_causal_is_named(slip, words):
    assert_wrong(lesson15.is_causal.findings(slip), words)


# -------------------------------------------------------------------- repaired


def attend(attention, query, keys, values, mask, *, scale=None, hidden=None, dim=-1):
    queries = attention.split_heads(attention.query_projection(query))
    scores = queries @ keys.mT / (scale or math.sqrt(queries.size(-1)))
    hidden = hidden or torch.finfo(scores.dtype).min
    weights = scores.masked_fill(~mask, hidden).softmax(dim=dim)
    return attention.output_projection((weights @ values).transpose(1, 2).flatten(2))


def with_zeros(attention, query, keys, values, mask):
    queries = attention.split_heads(attention.query_projection(query))
    scores = queries @ keys.mT / math.sqrt(queries.size(-1))
    weights = scores.masked_fill(~mask, -math.inf).softmax(dim=-1).masked_fill(~mask, 0)
    return attention.output_projection((weights @ values).transpose(1, 2).flatten(2))


def with_einsum(attention, query, keys, values, mask):
    queries = attention.split_heads(attention.query_projection(query))
    scores = torch.einsum("bhqd,bhkd->bhqk", queries, keys) / keys.size(-1) ** 0.5
    weights = torch.where(mask, scores, torch.finfo(scores.dtype).min).softmax(-1)
    context = torch.einsum("bhqk,bhkd->bqhd", weights, values).flatten(2)
    return attention.output_projection(context)


@pytest.mark.parametrize("sound", [attend, with_zeros, with_einsum])
def test_a_right_repair_passes(sound):
    assert_all_right(lesson15.repaired.findings(sound), 2)


def patient(attention, query, keys, values, mask):
    """As the lesson prints it: six faults."""
    queries = attention.split_heads(attention.query_projection(query))
    scores = queries @ keys.transpose(-2, -1) / math.sqrt(query.size(-1))
    scores.masked_fill(~mask, -1e9)
    weights = scores.softmax(dim=1)
    context = weights @ keys
    context = context.reshape(len(context), context.size(2), -1)
    return attention.output_projection(context)


@pytest.mark.parametrize("mistake", lesson15.REPAIRS, ids=lambda m: m.name)
def test_each_fault_left_is_named(mistake):
    def repaired(*inputs):
        return lesson15.version(*inputs, **mistake.steps)

    assert_wrong(lesson15.repaired.findings(repaired), mistake.name, mistake.hint)


def test_two_faults_left_are_both_named():
    scale, mask = lesson15.REPAIRS[0], lesson15.REPAIRS[2]

    def repaired(*inputs):
        return lesson15.version(*inputs, **scale.steps, **mask.steps)

    assert_wrong(lesson15.repaired.findings(repaired), scale.name, mask.name)


@pytest.mark.parametrize(
    ("repaired", "words"),
    [
        (patient, "causal: a new token at position"),
        (lambda *x: attend(*x, hidden=-1e9), "-1e9 does not fit into 16 bits"),
        (lambda *x: attend(*x, hidden=-math.inf), "a row of -inf is NaN"),
        (lambda *x: attend(*x, scale=3.0), "which step can no property see?"),
        (lambda *x: attend(*x)[:, :1], "return the output (2, 3, 32)"),
        (lambda *x: (attend(*x),), "return the output (2, 3, 32), not a tuple"),
        (lambda *x: attend(*x).detach().numpy(), "not a ndarray"),
        (lambda x: x, "your code stopped with TypeError"),
    ],
)
def test_other_repairs_hear_what_is_wrong(repaired, words):
    found = lesson15.repaired.findings(repaired)
    assert_wrong(found, words)


# ------------------------------------------------------------------- diagnosis

PLACES = ("first", "second", "third")
SECRETS = {place: secret(number) for number, place in enumerate(PLACES, 1)}
ANSWERS = {place: broken.fault for place, broken in SECRETS.items()}


def test_the_right_faults_pass():
    assert_all_right(lesson15.diagnosis.findings(**ANSWERS), 3)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("fault", KEPT)
def test_a_wrong_fault_is_contradicted_and_the_right_one_not_told(fault, place):
    finding = lesson15.diagnosis.findings(**{place: fault})[PLACES.index(place)]
    if fault == ANSWERS[place]:
        assert finding.mark == "✓"
        return
    assert finding.mark == "✗" and ANSWERS[place] not in finding.text
    claimed, found = KEPT[fault].caught_by, SECRETS[place].caught_by
    for name in set(claimed) - set(found):
        if f"“{name}” would fail, and it holds" in finding.text:
            return
    for name in set(found) - set(claimed):
        if f"“{name}” fails, which this fault leaves alone" in finding.text:
            return
    assert claimed == found
    assert ("in another way" if found else "module by module") in finding.text


def test_answers_may_be_given_in_their_order():
    assert_all_right(lesson15.diagnosis.findings(*ANSWERS.values()), 3)


def test_an_answer_outside_the_list_hears_what_is_near():
    (finding, *_) = lesson15.diagnosis.findings(first="no causal masks")
    assert "is not in the list of faults; near it: no causal mask" in finding.text


def test_sealed_models_fail_as_their_fault_does_and_hide_its_name():
    for number in (1, 2, 3):
        model, fault = sealed(number), secret(number)
        assert failing(of_course(model)) == fault.caught_by
        classes = {type(m) for m in model.modules()}
        assert not [c for c in classes if "mutants" in f"{c.__module__} {c}"]
        assert repr(model) == repr(small_model(number))
    assert type(model).__name__ == Transformer.__name__
    with pytest.raises(ValueError, match="sealed models 1, 2 and 3, not 4"):
        sealed(4)


def test_one_sealed_model_is_found_by_a_reference_alone():
    assert secret(3).caught_by == ()
    model, reference = sealed(3), small_model(0)
    reference.load_state_dict(model.state_dict())
    batch = of_course(model).sentences()
    assert not torch.allclose(model(*batch), reference(*batch), atol=1e-3)


# ------------------------------------------------------------ whatever is handed in


@pytest.mark.parametrize("check", [lesson15.is_causal, lesson15.repaired])
@pytest.mark.parametrize("answer", [None, 3, "x", lambda *x: None, lambda *x: 1 / 0])
def test_checks_never_raise(check, answer, capsys):
    assert check(answer) is None
    assert_answers(capsys)


@pytest.mark.parametrize("answer", [None, ..., 3, [1], torch.zeros(2), ""])
def test_diagnosis_never_raises(answer, capsys):
    assert lesson15.diagnosis(first=answer) is None
    assert_answers(capsys)
