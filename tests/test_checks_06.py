"""Lesson 06's checks: every mistake is caught by name, nothing sound is blamed."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from findings import assert_all_right, assert_answers, assert_wrong
from torch import nn

from helpers.checks import lesson06
from helpers.encoder import Encoder, EncoderLayer
from helpers.layers import LayerSizes

# ---------------------------------------------------------------- 06.1 a layer


def course_layer(d_model, attention, feed_forward, norms):
    """An EncoderLayer made of these parts."""
    sizes = LayerSizes(
        d_model=d_model,
        n_heads=attention.n_heads,
        d_ff=feed_forward.expand.out_features,
        dropout=0.0,
        norm_first=True,
    )
    layer = EncoderLayer(sizes)
    layer.self_attention, layer.feed_forward = attention, feed_forward
    for residual, norm in zip(layer.residuals, norms, strict=True):
        residual.norm = norm
    return layer


def with_the_course(x, mask, attention, feed_forward, *norms):
    return course_layer(x.size(-1), attention, feed_forward, norms)(x, mask)


def in_two_lines(x, mask, attention, feed_forward, norm_1, norm_2):
    x = x + attention(norm_1(x), norm_1(x), norm_1(x), mask=mask)
    return feed_forward(norm_2(x)) + x


@pytest.mark.parametrize("sound", [with_the_course, in_two_lines])
def test_nothing_sound_is_blamed(sound, seed):
    assert_all_right(lesson06.assembled_layer.findings(sound, seed=seed), 5)


LAYER = """
def layer(x, mask, self_attention, feed_forward, norm_1, norm_2):
    y = norm_1(x)
    x2 = x + self_attention(y, y, y, mask)
    return x2 + feed_forward(norm_2(x2))
"""
ATTEND = "x2 = x + self_attention(y, y, y, mask)"
THINK = "return x2 + feed_forward(norm_2(x2))"


def mutant(*changes):
    """The layer as a learner writes it, with these pieces of text replaced."""
    text = LAYER
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    names = {"torch": torch}
    exec(text, names)
    return names["layer"]


MUTANTS = {
    "the mask is forgotten": [("y, mask)", "y)")],
    "the mask is inverted": [("y, mask)", "y, None if mask is None else ~mask)")],
    "both halves use norm_1": [("norm_2(x2)", "norm_1(x2)")],
    "both halves use norm_2": [("y = norm_1", "y = norm_2")],
    "the two norms are swapped": [
        ("y = norm_1", "y = norm_2"),
        ("norm_2(x2)", "norm_1(x2)"),
    ],
    "one residual goes around both halves": [
        (ATTEND, "x2 = self_attention(y, y, y, mask)"),
        (THINK, "return x + feed_forward(norm_2(x2))"),
    ],
    "the feed-forward half comes first": [
        ("y = norm_1(x)", "x = x + feed_forward(norm_2(x)); y = norm_1(x)"),
        (THINK, "return x2"),
    ],
    "both halves start from x": [("norm_2(x2)", "norm_2(x)")],
    "only the query is normed": [("y, y, y,", "y, x, x,")],
    "the query is not normed": [("y, y, y,", "x, y, y,")],
    "the value is not normed": [("y, y, y,", "y, y, x,")],
    "the second half adds to x": [("return x2 +", "return x +")],
    "the attention half is missing": [(ATTEND, "x2 = x")],
    "the feed-forward half is missing": [(THINK, "return x2")],
    "first half: the norm comes last": [
        (ATTEND, "x2 = norm_1(x + self_attention(x, x, x, mask))")
    ],
    "second half: the norm comes last": [
        (THINK, "return norm_2(x2 + feed_forward(x2))")
    ],
    "first half: there is no norm": [("y = norm_1(x)", "y = x")],
    "second half: there is no norm": [("norm_2(x2)", "x2")],
    "first half: there is no residual": [("x2 = x +", "x2 =")],
    "second half: there is no residual": [("return x2 +", "return")],
    "first half: the residual starts from the normed input": [("x2 = x +", "x2 = y +")],
    "second half: the residual starts from the normed input": [
        ("return x2 +", "return norm_2(x2) +")
    ],
    "first half: the norm stands behind the sublayer": [
        (ATTEND, "x2 = x + norm_1(self_attention(x, x, x, mask))")
    ],
    "second half: the norm stands behind the sublayer": [
        (THINK, "return x2 + norm_2(feed_forward(x2))")
    ],
    "first half: the sum is normed as well": [
        (ATTEND, "x2 = norm_1(x + self_attention(y, y, y, mask))")
    ],
    "second half: the sum is normed as well": [
        (THINK, "return norm_2(x2 + feed_forward(norm_2(x2)))")
    ],
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mistakes_in_the_layer_are_named(name, seed):
    found = lesson06.assembled_layer.findings(mutant(*MUTANTS[name]), seed=seed)
    assert_wrong(found, name)
    assert "; and " not in found[-1].text  # one mistake was made, one is named


def test_two_mistakes_at_once():
    def of(*names):
        changes = [change for name in names for change in MUTANTS[name]]
        assert_wrong(lesson06.assembled_layer.findings(mutant(*changes)), *names)

    of("first half: the norm comes last", "second half: the norm comes last")
    of("the mask is forgotten", "the second half adds to x")


def test_other_faults_of_the_layer_are_described():
    def of(*changes):
        return lesson06.assembled_layer.findings(mutant(*changes))

    assert_wrong(of((THINK, "return x2, y")), "return one tensor, not a tuple")
    assert_wrong(of((THINK, "return x2.mean(1)")), "has shape (3, 8), not (3, 5, 8)")
    assert_wrong(of((THINK, "return x2 * float('nan')")), "NaN or infinity")
    assert_wrong(of((THINK, "return 3 * x2")), "differ from the expected ones")
    assert_wrong(of(("y, y, y, mask", "y, mask")), "TypeError")
    assert_wrong(of((ATTEND, "x += y; x2 = x")), "changes its inputs in place")
    assert_wrong(of((THINK, "return x3")), "NameError", "(line ")
    assert_wrong(of(("y, mask)", "y, mask & True)")), "without a mask", "TypeError")
    assert_wrong(of(("norm_1(x)", "norm_1(x.detach()); x = x.detach()")), "no gradient")
    fixed = (THINK, "return x2.view(-1, 5, 8) + feed_forward(norm_2(x2))")
    assert_wrong(of(fixed), "with other sizes", "RuntimeError")


# ------------------------------------------------------- 06.2 shapes and sizes

RIGHT = {
    "output_shape": (5, 7, 48),
    "weights_shape": (5, 4, 7, 7),
    "layer_parameters": 18_960,
    "encoder_parameters": 56_976,
    "with_8_heads": 56_976,
}


def test_the_right_sizes_are_right():
    for n_heads, name in ((4, "encoder_parameters"), (8, "with_8_heads")):
        sizes = LayerSizes(
            d_model=48, n_heads=n_heads, d_ff=96, dropout=0.1, norm_first=True
        )
        encoder = Encoder(3, sizes)
        assert sum(p.numel() for p in encoder.parameters()) == RIGHT[name]
    layer = sum(p.numel() for p in encoder.layers[0].parameters())
    assert layer == RIGHT["layer_parameters"]


def test_right_sizes_however_written():
    assert_all_right(lesson06.sizes.findings(**RIGHT), 5)
    other = {"output_shape": [5, 7, 48], "weights_shape": torch.Size((5, 4, 7, 7))}
    assert_all_right(lesson06.sizes.findings(**RIGHT | other), 5)
    for number in (56976.0, torch.tensor(56976), np.int64(56976)):
        found = lesson06.sizes.findings(**RIGHT | {"with_8_heads": number})
        assert_all_right(found, 5)


def test_sizes_not_attempted():
    for answers in ({}, dict.fromkeys(RIGHT), dict.fromkeys(RIGHT, ...)):
        found = lesson06.sizes.findings(**answers)
        assert [finding.mark for finding in found] == ["○"] * 5


@pytest.mark.parametrize(
    ("name", "answer", "part"),
    [
        ("output_shape", (5, 48), "a vector for every token"),
        ("output_shape", (5, 4, 7, 12), "the heads are joined again"),
        ("output_shape", (1, 2, 3), "its axes are (batch, length, d_model)"),
        ("output_shape", "big", "a tuple of sizes is due"),
        ("output_shape", torch.zeros(5, 7), "a tuple of sizes is due"),
        ("weights_shape", (5, 7, 7), "each of the 4 heads"),
        ("weights_shape", (4, 5, 7, 7), "the batch comes first"),
        ("weights_shape", (3, 5, 4, 7, 7), "one layer was asked for"),
        ("weights_shape", (5, 1, 1, 7), "that is the mask"),
        ("layer_parameters", 4 * 48 * 48 + 2 * 48 * 96 + 4 * 48, "the biases are"),
        ("layer_parameters", 9_408 + 9_360, "the norms are missing"),
        ("layer_parameters", 9_408 + 9_360 + 96, "a layer has two norms"),
        ("layer_parameters", 3 * 2_352 + 9_360 + 192, "a fourth projection"),
        ("layer_parameters", 56_976, "that is the whole encoder"),
        ("layer_parameters", 12, "too few"),
        ("encoder_parameters", 3 * 18_960, "one norm follows at the end"),
        ("encoder_parameters", 18_960, "that is one layer"),
        ("encoder_parameters", 10**6, "too many"),
        ("with_8_heads", 2 * 56_976, "twice the heads, each half as wide"),
        ("with_8_heads", 57_000, "which sizes does the number of heads change?"),
        ("with_8_heads", True, "a number is due"),
        ("with_8_heads", (5, 7), "a number is due"),
        ("with_8_heads", math.nan, "which sizes"),
    ],
)
def test_wrong_sizes_have_a_reason(name, answer, part):
    found = lesson06.sizes.findings(**(RIGHT | {name: answer}))
    wrong = [finding for finding in found if finding.mark == "✗"]
    assert len(wrong) == 1 and len(found) == 5
    assert wrong[0].text.startswith(name) and part in wrong[0].text


# ------------------------------------------------------------ 06.3 find a head


def finder(score):
    """A learner's find_head that takes the head with the largest score."""

    def find_head(maps, right):
        scores = {
            (name, head): value
            for name, weights in maps.items()
            for head, value in enumerate(score(weights, right).tolist())
        }
        return max(scores, key=scores.get)

    return find_head


def on_right(weights, right):
    story, query = (right >= 0).nonzero(as_tuple=True)
    return weights[story, :, query, right[story, query]]  # (looks, heads)


def all_queries(weights, right):
    story, query = torch.ones_like(right).nonzero(as_tuple=True)
    return weights[story, :, query, right[story, query]]


def with_loops(maps, right):
    best = None
    for name, weights in maps.items():
        for head in range(weights.size(1)):
            found = [
                weights[story, head, query, key].item()
                for story, keys in enumerate(right.tolist())
                for query, key in enumerate(keys)
                if key >= 0
            ]
            share = sum(found) / len(found)
            if best is None or share > best[0]:
                best = share, name, np.int64(head)
    return [best[1], best[2]]


find_by_mean = finder(lambda w, r: on_right(w, r).mean(0))


def test_whoever_finds_the_head_is_right(seed):
    assert_all_right(lesson06.finds_head.findings(find_by_mean, seed=seed), 1)
    assert_all_right(lesson06.finds_head.findings(with_loops, seed=seed), 1)


DECEIVED = {
    "in the first story alone": lambda w, r: on_right(w[:1], r[:1]).mean(0),
    "from key to query": lambda w, r: on_right(w.mT, r).mean(0),
    "-1 as an index": lambda w, r: all_queries(w, r).mean(0),
    "-1 made into 0": lambda w, r: all_queries(w, r.clamp(min=0)).mean(0),
    "a single perfect query": lambda w, r: on_right(w, r).amax(0),
    "not on the right one": lambda w, r: w.amax(dim=-1).mean(dim=(0, 2)),
}


@pytest.mark.parametrize("name", DECEIVED)
def test_whoever_falls_for_a_decoy_is_told(name, seed):
    found = lesson06.finds_head.findings(finder(DECEIVED[name]), seed=seed)
    assert_wrong(found, name)
    assert found[-1].draw is not None


def test_other_wrong_heads_are_described():
    def of(answer):
        return lesson06.finds_head.findings(lambda maps, right: answer)

    first = "encoder.layers.0.self_attention"
    who = lesson06.hidden_head(0)[2]
    places = [(name, head) for name in lesson06.NAMES for head in range(3)]
    assert_wrong(of(next(x for x in places if x not in who)), "there is only noise")
    assert_wrong(of(first), "return two things")
    assert_wrong(of((0, 1)), "the layer is one of encoder.layers.0")
    for head in (3, "0", None, 0.5, torch.zeros(3)):
        assert_wrong(of((first, head)), "the head is a number from 0 to 2")


def test_the_hidden_maps_are_attention_weights(seed):
    maps, right, who = lesson06.hidden_head(seed)
    assert len(set(who.values())) == 7
    for weights in maps.values():
        torch.testing.assert_close(weights.sum(-1), torch.ones(8, 3, 6))
    assert (right >= 0).any(dim=1).all() and (right < 0).any()


# ----------------------------------------------------------- anything at all

STRANGE = {
    "nothing": lambda *x: None,
    "a string": lambda *x: "encoder",
    "numpy": lambda *x: torch.zeros(3, 5, 8).numpy(),
    "a number": 3,
    "a class": dict,
    "a module": nn.Linear(2, 2),
    "a generator": lambda *x: (y for y in x),
    "an empty tuple": lambda *x: (),
    "no elements": lambda *x: torch.zeros(0),
    "complex": lambda *x: torch.zeros(3, 5, 8, dtype=torch.complex64),
    "integers": lambda *x: torch.zeros(3, 5, 8, dtype=torch.long),
    "on no device": lambda *x: torch.zeros(3, 5, 8, device="meta"),
    "sparse": lambda *x: torch.zeros(3, 5, 8).to_sparse(),
    "tensors": lambda *x: (torch.zeros(2), torch.zeros(2)),
    "lists": lambda *x: ([], {}),
    "no argument": lambda: 1,
    "division": lambda *x: 1 / 0,
    "exits": lambda *x: exit(),
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize(
    "check",
    [lesson06.assembled_layer, lesson06.finds_head],
    ids=lambda check: check.__name__,
)
def test_no_answer_is_too_strange(check, name, capsys):
    assert check(STRANGE[name]) is None
    assert_answers(capsys)


def test_pictures_are_drawn_where_they_help(monkeypatch, capsys):
    drawn = []
    monkeypatch.setattr(plt, "show", lambda: drawn.append(plt.close("all")))
    lesson06.assembled_layer(in_two_lines)
    lesson06.assembled_layer(mutant(*MUTANTS["both halves use norm_1"]))
    assert not drawn
    lesson06.assembled_layer(mutant(*MUTANTS["the mask is forgotten"]))
    assert len(drawn) == 1 and "the mask is forgotten" in capsys.readouterr().out
    lesson06.assembled_layer(mutant((THINK, "return 3 * x2")))
    lesson06.finds_head(finder(DECEIVED["from key to query"]))
    assert len(drawn) == 3
