"""Lesson 12's checks: every mistake is caught by name, nothing sound is blamed."""

import copy
import itertools

import pytest
import torch
from findings import assert_all_right, assert_wrong

from helpers.checks import lesson12
from helpers.evaluation import alignment_error_rate

# ------------------------------------------------------------------- 12.1 role score


def by_sums(weights, chosen):
    on_chosen = (weights * chosen[:, None]).sum(dim=-1)
    return on_chosen.sum(dim=(0, 2)) / chosen.any(dim=-1).sum()


def by_loops(weights, chosen):
    scores = []
    for head in range(weights.size(1)):
        values = [
            weights[b, head, q][chosen[b, q]].sum().item()
            for b, q in chosen.any(dim=-1).nonzero().tolist()
        ]
        scores.append(sum(values) / len(values))
    return scores


@pytest.mark.parametrize("sound", [by_sums, by_loops])
def test_sound_role_scores(sound):
    assert_all_right(lesson12.role_score.findings(sound), 2)


def rows(weights, chosen):
    return (weights * chosen[:, None]).sum(-1)


ROLE = {
    "queries without a chosen key are counted": lambda w, c: rows(w, c).mean((0, 2)),
    "the mean weight of a chosen key": lambda w, c: rows(w, c).sum((0, 2)) / c.sum(),
    "keys are counted": lambda w, c: rows(w, c).sum((0, 2)) / c.any(1).sum(),
    "averaged over the keys": lambda w, c: by_sums(w, c) / w.size(-1),
    "a sum, not a mean": lambda w, c: rows(w, c).sum((0, 2)),
    "each sentence counts the same": lambda w, c: torch.stack(
        [by_sums(w[b : b + 1], c[b : b + 1]) for b in range(len(w))]
    ).mean(0),
    "the heads are averaged": lambda w, c: by_sums(w, c).mean(),
    "the sentences are kept apart": lambda w, c: torch.stack(
        [by_sums(w[b : b + 1], c[b : b + 1]) for b in range(len(w))]
    ),
    "how often the largest weight": lambda w, c: torch.stack(
        [
            c.gather(-1, w[:, h].argmax(-1, keepdim=True)).sum() / c.any(-1).sum()
            for h in range(w.size(1))
        ]
    ),
    "only the largest": lambda w, c: (
        (w * c[:, None]).amax(-1).sum((0, 2)) / c.any(-1).sum()
    ),
    "the weights on all other keys": lambda w, c: (
        (w * ~c[:, None]).sum((-1, 0, 2)) / c.any(-1).sum()
    ),
    "queries and keys are swapped": lambda w, c: (
        (w.mT * c[:, None]).sum((-1, 0, 2)) / c.any(-1).sum()
    ),
    "one score for each head": lambda w, c: rows(w, c),
    "three heads give": lambda w, c: by_sums(w, c) * 1.5,
    "return a tensor (heads,), not a str": lambda w, c: "0.5",
    "your code stopped with": lambda w, c: w @ c[:, :2],
    "changes its inputs in place": lambda w, c: w.mul_(c[:, None]).sum((-1, 0, 2)),
}


@pytest.mark.parametrize("name", ROLE)
def test_mistakes_in_the_role_score_are_named(name):
    assert_wrong(lesson12.role_score.findings(ROLE[name]), name)


def test_two_mistakes_in_the_role_score_are_both_named():
    found = lesson12.role_score.findings(
        lambda w, c: (w * c[:, None]).amax(-1).sum((0, 2))
    )
    assert_wrong(found, "a sum, not a mean", "only the largest")


# ---------------------------------------------------------- 12.2 alignment error rate


def by_sets(found, truth):
    shared = sum(len(set(f) & set(t)) for f, t in zip(found, truth, strict=True))
    return 1 - 2 * shared / sum(len(set(row)) for row in [*found, *truth])


def by_numbered_links(found, truth):
    ours, theirs = (
        {(n, link) for n, row in enumerate(side) for link in row}
        for side in (found, truth)
    )
    return torch.tensor(1 - 2 * len(ours & theirs) / (len(ours) + len(theirs))).double()


@pytest.mark.parametrize("sound", [by_sets, by_numbered_links, alignment_error_rate])
def test_sound_error_rates(sound):
    assert_all_right(lesson12.error_rate.findings(sound), 2)


def sums(found, truth):
    pairs = [(set(f), set(t)) for f, t in zip(found, truth, strict=True)]
    return (
        sum(len(f & t) for f, t in pairs),
        sum(len(f) for f, _ in pairs),
        sum(len(t) for _, t in pairs),
    )


def formula(of):
    return lambda found, truth: of(*sums(found, truth))


def mean_of_rates(found, truth):
    rates = [by_sets([f], [t]) for f, t in zip(found, truth, strict=True)]
    return sum(rates) / len(rates)


def with_lists(found, truth):
    shared = sum(x in t for f, t in zip(found, truth, strict=True) for x in f)
    return 1 - 2 * shared / sum(len(row) for row in [*found, *truth])


def long_sizes(found, truth):
    shared = sums(found, truth)[0]
    return 1 - 2 * shared / sum(len(row) for row in [*found, *truth])


RATES = {
    "the error rates of the sentences are averaged": mean_of_rates,
    "the 2 is missing": formula(lambda s, f, t: 1 - s / (f + t)),
    "this is the share that is right": formula(lambda s, f, t: 2 * s / (f + t)),
    "1 - precision": formula(lambda s, f, t: 1 - s / f),
    "1 - recall": formula(lambda s, f, t: 1 - s / t),
    "below stands the union": formula(lambda s, f, t: 1 - s / (f + t - s)),
    "with the union below": formula(lambda s, f, t: 1 - 2 * s / (f + t - s)),
    "a link that is given twice counts twice": with_lists,
    "counted with repeats": long_sizes,
    "into one set": lambda found, truth: by_sets(
        [[*itertools.chain(*found)]], [[*itertools.chain(*truth)]]
    ),
    "due is 0.556": lambda found, truth: by_sets(
        [[link[::-1] for link in row] for row in found], truth
    ),
    "not percent": lambda found, truth: 100 * by_sets(found, truth),
    "due is 0.5": lambda found, truth: 0.123,
    "return one number": lambda found, truth: [by_sets(found, truth)],
    "your code stopped with": lambda found, truth: 1 - 2 * len(found & truth),
}


@pytest.mark.parametrize("name", RATES)
def test_mistakes_in_the_error_rate_are_named(name):
    assert_wrong(lesson12.error_rate.findings(RATES[name]), name)


# ------------------------------------------------------------------ 12.3 switched off

D_HEAD = lesson12.D_MODEL // lesson12.HEADS


def own(head):
    return slice(head * D_HEAD, (head + 1) * D_HEAD)


def changed(change):
    """A function that copies the module and applies `change(copy, head)` to it."""

    def switch(module, head):
        other = copy.deepcopy(module)
        with torch.no_grad():
            change(other, head)
        return other

    return switch


def columns(module, head):
    module.output_projection.weight[:, own(head)] = 0


def no_values(module, head):
    """Values of zero serve as well: no context, whatever the weights."""
    module.value_projection.weight[own(head)] = 0
    module.value_projection.bias[own(head)] = 0


def unflattened(module, head):
    weight = module.output_projection.weight.unflatten(1, (module.n_heads, -1))
    weight[:, head] = 0


@pytest.mark.parametrize("sound", [columns, no_values, unflattened])
def test_a_sound_switch(sound):
    assert_all_right(lesson12.switched_off.findings(changed(sound)), 3)


def zero(layer, part, *, bias=False):
    def change(module, head):
        projection = getattr(module, f"{layer}_projection")
        projection.weight[part(head)] = 0
        if bias:
            projection.bias[part(head)] = 0

    return changed(change)


def in_columns(part):
    def change(module, head):
        module.output_projection.weight[:, part(head)] = 0

    return changed(change)


def in_place(module, head):
    with torch.no_grad():
        columns(module, head)
    return module


def shallow(module, head):
    other = copy.copy(module)
    with torch.no_grad():
        columns(other, head)
    return other


def bias_too(module, head):
    columns(module, head)
    module.output_projection.bias.zero_()


def values_without_bias(module, head):
    module.value_projection.weight[own(head)] = 0


OFF = {
    "rows of the output projection": zero("output", own, bias=True),
    "the next head is gone": in_columns(lambda h: own(h + 1)),
    "the head before is gone": in_columns(lambda h: own(h - 1 if h else 2)),
    "only one column": in_columns(lambda h: h),
    "every n-th column": in_columns(lambda h: slice(h, None, lesson12.HEADS)),
    "all heads but this one": in_columns(
        lambda h: [c for c in range(lesson12.D_MODEL) if c // D_HEAD != h]
    ),
    "all heads are gone": in_columns(lambda h: slice(None)),
    "its queries or its keys are zero": zero("query", own, bias=True),
    "the head looks everywhere": zero("key", own, bias=True),
    "work on a copy": in_place,
    "shares its weights": shallow,
    "the bias of the output projection": changed(bias_too),
    "still contributes": changed(lambda module, head: None),
    "keep their bias": changed(values_without_bias),
    "differs from what is due": in_columns(lambda h: slice(h * D_HEAD, h * D_HEAD + 2)),
    "return a MultiHeadAttention, not a Tensor": lambda module, head: torch.ones(3),
    "your code stopped with RuntimeError": lambda module, head: columns(
        copy.deepcopy(module), head
    ),
}


@pytest.mark.parametrize("name", OFF)
def test_mistakes_in_the_switch_are_named(name):
    assert_wrong(lesson12.switched_off.findings(OFF[name]), name)


CHECKS = [lesson12.role_score, lesson12.error_rate, lesson12.switched_off]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("odd", [None, 5, "x", lambda *inputs: None, lambda: 1])
def test_a_check_never_raises(check, odd, capsys):
    check(odd)
    lines = capsys.readouterr().out.splitlines()
    assert lines and all(line[0] in "○✗" for line in lines)
