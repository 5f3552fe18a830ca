"""Lesson 01's checks: every mistake is caught by name, nothing sound is blamed."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from findings import assert_all_right, assert_answers, assert_wrong
from torch import nn

from helpers.checks import lesson01
from helpers.positions import PositionalEncoding, TokenEmbedding, positional_encoding


@pytest.fixture
def drawn(monkeypatch):
    """How often a figure was shown."""
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.close("all")))
    return shown


# -------------------------------------------------------------- 01.1 sinusoids


def with_loops(length, d_model):
    table = torch.zeros(length, d_model)
    for p in range(length):
        for i in range(d_model // 2):
            table[p, 2 * i] = math.sin(p / 10000 ** (2 * i / d_model))
            table[p, 2 * i + 1] = math.cos(p / 10000 ** (2 * i / d_model))
    return table


def with_exp(length, d_model):
    position = torch.arange(length).unsqueeze(1)
    rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)
    return table


def in_one_go(length, d_model):
    feature = torch.arange(d_model)
    turn = torch.arange(length)[:, None] / 10000 ** (feature // 2 * 2 / d_model)
    return torch.sin(turn + feature % 2 * math.pi / 2)


@pytest.mark.parametrize(
    "sound", [with_loops, with_exp, in_one_go, positional_encoding]
)
def test_no_sound_table_is_blamed(sound):
    assert_all_right(lesson01.sinusoids.findings(sound), 2)


SOURCE = """
def mutant(length, d_model):
    pair = torch.arange(d_model // 2)
    position = torch.arange(length)[:, None]
    exponent = 2 * pair / d_model
    angle = position / 10000**exponent
    table = torch.zeros(length, d_model)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()
    return table
"""
FILL = """table = torch.zeros(length, d_model)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle.cos()"""
EACH = """feature = torch.arange(d_model)
    angle = position / 10000 ** (feature / d_model)
    table = torch.where(feature % 2 == 0, angle.sin(), angle.cos())"""
TABLE_MUTANTS = {
    "each feature has a wave of its own": [(FILL, EACH)],
    "i counts the features": [(FILL, EACH.replace("(feature", "(2 * feature"))],
    "the 2 of 2i is there twice": [("2 * pair", "4 * pair")],
    "the 2 of 2i is missing": [("2 * pair", "pair")],
    "the exponent is not divided by d_model": [("2 * pair / d_model", "2 * pair")],
    "the pairs are counted from 1": [("2 * pair", "2 * (pair + 1)")],
    "the last pair divides by 10000 itself": [
        ("2 * pair / d_model", "torch.linspace(0, 1, d_model // 2)")
    ],
    "the positions are counted from 1": [("arange(length)", "arange(1, length + 1)")],
    "the angle is multiplied": [("position /", "position *")],
    "the division is one of whole numbers": [("position /", "position //")],
    "e stands where 10000 belongs": [("10000**exponent", "exponent.exp()")],
    "the base is 1000": [("10000", "1000")],
    "there is a factor of 2π": [("position /", "2 * math.pi * position /")],
    "sine and cosine are swapped": [
        ("= angle.sin()", "= angle.c()"),
        ("= angle.cos()", "= angle.sin()"),
        ("= angle.c()", "= angle.cos()"),
    ],
    "all sines come first": [
        (FILL, "table = torch.cat([angle.sin(), angle.cos()], dim=1)")
    ],
    "every feature is a sine": [("angle.cos()", "angle.sin()")],
    "every feature is a cosine": [("angle.sin()", "angle.cos()")],
    "the odd features are left at 0": [("table[:, 1::2] = angle.cos()", "pass")],
    "the angles themselves are returned": [
        (".sin()", ""),
        (".cos()", ""),
    ],
    "rows and columns are swapped": [("return table", "return table.T")],
    "there is an axis too many": [("return table", "return table[None]")],
}


def changed(source, *changes):
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    space = {"torch": torch, "math": math}
    exec(source, space)
    return space["mutant"]


@pytest.mark.parametrize("name", TABLE_MUTANTS)
def test_mistakes_in_the_table_are_named(name):
    found = lesson01.sinusoids.findings(changed(SOURCE, *TABLE_MUTANTS[name]))
    assert_wrong(found, name)
    assert len(found) == 1


def test_the_unchanged_source_is_right():
    assert_all_right(lesson01.sinusoids.findings(changed(SOURCE)), 2)


def test_two_mistakes_at_once_are_both_named():
    two = changed(
        SOURCE,
        *TABLE_MUTANTS["the positions are counted from 1"],
        *TABLE_MUTANTS["all sines come first"],
    )
    names = "the positions are counted from 1", "all sines come first"
    assert_wrong(lesson01.sinusoids.findings(two), *names)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (("return table", "return table.numpy()"), "return a tensor, not a ndarray"),
        (("return table", "return table.tolist()"), "return a tensor, not a list"),
        (("return table", "return table[1:]"), "the shape is (8, 10), not (9, 10)"),
        (("return table", "return table * 0"), "every position has the same row"),
        (("return table", "return table * torch.nan"), "NaN or infinity"),
        (("return table", "return table * 2"), "beyond -1 and 1"),
        (("10000", "500"), "wrong in the features [2, 3, 4, 5, 6, 7, 8, 9]"),
        (("10000**exponent", "(10000 ** (2 * pair) / d_model)"), "its brackets"),
        (("(length)[:, None]", "(length)"), "give the positions an axis of their own"),
        (("torch.zeros", "torch.zero"), "AttributeError"),
    ],
)
def test_what_is_wrong_without_a_name_is_described(change, part):
    assert_wrong(lesson01.sinusoids.findings(changed(SOURCE, change)), part)


def test_sizes_written_as_numbers_are_found():
    fixed = changed(SOURCE, ("2 * pair / d_model", "2 * pair / 10"))
    assert_wrong(
        lesson01.sinusoids.findings(fixed),
        "is a size written as a number?",
        "With length 4 and d_model 6",
    )


def test_the_table_is_drawn_only_when_wrong(drawn, capsys):
    lesson01.sinusoids(positional_encoding)
    assert not drawn
    lesson01.sinusoids(changed(SOURCE, ("angle.cos()", "angle.sin()")))
    assert len(drawn) == 1 and "✗" in capsys.readouterr().out


# ------------------------------------------------------------------ 01.2 waves

RIGHT = {
    "different_wavelengths": 256,
    "longest_wave": 628,
    "lookalike": 44,
    "sum_of_squares": 256,
}


def test_right_numbers_however_written():
    assert_all_right(lesson01.waves.findings(**RIGHT), 4)
    exact = {"longest_wave": 200 * math.pi, "sum_of_squares": torch.tensor(256.0)}
    assert_all_right(lesson01.waves.findings(**(RIGHT | exact)), 4)
    other = {"lookalike": np.int64(44), "different_wavelengths": 512 / 2}
    assert_all_right(lesson01.waves.findings(**(RIGHT | other)), 4)


def test_the_right_numbers_are_right():
    table = positional_encoding(3001, 512).double()
    sums = table.square().sum(dim=1)
    torch.testing.assert_close(sums, torch.full_like(sums, 256), rtol=1e-6, atol=0)
    rates = {round(math.atan2(s, c), 12) for s, c in table[1].view(-1, 2).tolist()}
    assert len(rates) == RIGHT["different_wavelengths"]
    two = positional_encoding(51, 2)
    assert (two[1:] - two[0]).norm(dim=1).argmin() + 1 == RIGHT["lookalike"]
    sine, cosine = positional_encoding(2, 4)[1, 2:].tolist()
    longest = 2 * math.pi / math.atan2(sine, cosine)
    assert round(longest) == RIGHT["longest_wave"]


def test_numbers_not_attempted():
    for answers in ({}, dict.fromkeys(RIGHT), dict.fromkeys(RIGHT, ...)):
        found = lesson01.waves.findings(**answers)
        assert [finding.mark for finding in found] == ["○"] * 4


@pytest.mark.parametrize(
    ("name", "answer", "part"),
    [
        ("different_wavelengths", 512, "of a pair share"),
        ("different_wavelengths", 255, "from 0 to 255"),
        ("longest_wave", 62832, "no wave reaches"),
        ("longest_wave", 10000, "2/4"),
        ("longest_wave", 100, "a full turn has 2π"),
        ("longest_wave", 6.28, "the shortest"),
        ("longest_wave", 314, "not π"),
        ("lookalike", 6, "0.28 radians from where it stood"),
        ("lookalike", 50, "0.27 radians"),
        ("lookalike", 22, "3.13 radians"),
        ("lookalike", 0, "one of the positions 1 to 50"),
        ("lookalike", 6.28, "one of the positions 1 to 50"),
        ("lookalike", math.nan, "one of the positions 1 to 50"),
        ("sum_of_squares", 512, "is 1, not 2"),
        ("sum_of_squares", 16, "the row's length"),
        ("sum_of_squares", 1, "one pair"),
        ("sum_of_squares", "many", "one number is due"),
        ("sum_of_squares", [256, 256], "one number is due"),
        ("sum_of_squares", True, "one number is due"),
        ("sum_of_squares", torch.ones(2), "one number is due"),
        ("sum_of_squares", math.nan, "measure it on a table"),
        ("sum_of_squares", -math.inf, "measure it on a table"),
        ("sum_of_squares", 1j, "one number is due"),
    ],
)
def test_wrong_numbers_have_a_reason(name, answer, part):
    found = lesson01.waves.findings(**(RIGHT | {name: answer}))
    wrong = [finding for finding in found if finding.mark == "✗"]
    assert len(wrong) == 1 and len(found) == 4
    assert wrong[0].text.startswith(name) and part in wrong[0].text


# ------------------------------------------------------------------ 01.3 shift


def block_by_block(k, d_model):
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        c, s = math.cos(angle), math.sin(angle)
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[c, s], [-s, c]])
    return matrix


def solved(places):
    """Least squares in double precision, from these positions."""

    def rows(places, d_model):
        pair = torch.arange(d_model // 2, dtype=torch.float64)
        angle = places[:, None] / 10000 ** (2 * pair / d_model)
        return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)

    def function(k, d_model):
        start = places.double() + max(0, -k)
        pair = rows(start, d_model), rows(start + k, d_model)
        return torch.linalg.lstsq(*pair, driver="gelsd").solution.T

    return function


@pytest.mark.parametrize(
    "sound",
    [block_by_block, lesson01.turning, solved(torch.arange(0, 60_000, 50))],
)
def test_no_sound_shift_is_blamed(sound):
    assert_all_right(lesson01.shift.findings(sound), 2)


SHIFT_SOURCE = """
def mutant(k, d_model):
    blocks = []
    for i in range(d_model // 2):
        angle = k / 10000 ** (2 * i / d_model)
        c, s = math.cos(angle), math.sin(angle)
        blocks.append(torch.tensor([[c, s], [-s, c]]))
    return torch.block_diag(*blocks)
"""
BLOCK = "[[c, s], [-s, c]]"
HALVES = """block = torch.stack(blocks).permute(1, 2, 0)
    return torch.cat([torch.cat([torch.diag(x) for x in row], 1) for row in block])"""
SHIFT_MUTANTS = {
    "it goes k positions back": [(BLOCK, "[[c, -s], [s, c]]")],
    "or did you write it for rows": [("(*blocks)", "(*blocks).T")],
    "no sine has a minus": [(BLOCK, "[[c, s], [s, c]]")],
    "the minus stands at a cosine": [(BLOCK, "[[c, s], [s, -c]]")],
    "sine and cosine are swapped": [(BLOCK, "[[s, c], [-c, s]]")],
    "only the diagonal is filled": [(BLOCK, "[[c, 0], [0, c]]")],
    "all sines first": [("return torch.block_diag(*blocks)", HALVES)],
    "all pairs turn by the same angle": [(" / 10000 ** (2 * i / d_model)", "")],
    "it makes one step, whatever k is": [("k / 10000", "1 / 10000")],
    "the angle is multiplied": [("k / 10000", "k * 10000")],
    "the 2 of 2i is missing": [("2 * i", "i")],
    "the 2 of 2i is there twice": [("2 * i", "2 * 2 * i")],
    "the exponent is not divided": [("2 * i / d_model", "2 * i")],
    "the pairs are counted from 1": [("2 * i", "2 * (i + 1)")],
    "without the zeros around them": [("torch.block_diag(*", "torch.stack(")],
}


@pytest.mark.parametrize("name", SHIFT_MUTANTS)
def test_mistakes_in_the_shift_are_named(name):
    found = lesson01.shift.findings(changed(SHIFT_SOURCE, *SHIFT_MUTANTS[name]))
    assert found[-1].mark == "✗" and name.lower() in found[-1].text.lower()
    assert len(found) == 1


def test_two_mistakes_in_the_shift_are_both_named():
    two = changed(SHIFT_SOURCE, (BLOCK, "[[c, -s], [s, c]]"), ("2 * i", "i"))
    names = "it goes k positions back", "the 2 of 2i is missing"
    assert_wrong(lesson01.shift.findings(two), *names)


def solved_for_rows(k, d_model):
    """Least squares in single precision, as `torch.linalg.lstsq` gives it."""
    table = positional_encoding(100 + k, d_model)
    return torch.linalg.lstsq(table[:100], table[k:], driver="gelsd").solution


def outer_product(k, d_model):
    """Takes position 0 to position k, and no other to its place."""
    start = positional_encoding(50, d_model)[0]
    return (
        torch.outer(positional_encoding(50, d_model)[k], start) / start.square().sum()
    )


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (solved(torch.arange(30)), "and then no longer: was it solved for?"),
        (solved_for_rows, "it works from the other side"),
        (outer_product, "it takes one position to its place and no other"),
        (lambda k, d: torch.eye(d) * 0, "all zeros"),
        (lambda k, d: torch.eye(d) * torch.nan, "NaN or infinity"),
        (lambda k, d: torch.eye(d), "it does not lead to 3"),
        (lambda k, d: torch.eye(d + 1), "the shape is (9, 9), not (8, 8)"),
        (lambda k, d: positional_encoding(k, d), "the shape is (3, 8), not (8, 8)"),
        (lambda k, d: block_by_block(k, d).tolist(), "not a list"),
        (lambda k, d: block_by_block(k, 8), "with k = 1 and d_model 2"),
        (lambda k, d: block_by_block(abs(k), d), "with k = -2 and d_model 6"),
    ],
)
def test_what_is_wrong_with_a_shift_is_described(answer, part):
    assert_wrong(lesson01.shift.findings(answer), part)


def test_the_shift_is_drawn_only_when_wrong(drawn, capsys):
    lesson01.shift(block_by_block)
    assert not drawn
    lesson01.shift(lambda k, d: torch.eye(d))
    assert len(drawn) == 1 and "✗" in capsys.readouterr().out


# ------------------------------------------------------------ 01.4 input layer

LAYER = """
class mutant(nn.Module):
    def __init__(self, vocab_size, d_model, max_length):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.words.weight, std=d_model**-0.5)
        table = positional_encoding(max_length, d_model)
        self.register_buffer("table", table)

    def forward(self, tokens):
        embedded = self.words(tokens) * math.sqrt(self.words.embedding_dim)
        return embedded + self.table[: tokens.size(1)]
"""
AXIS = ("self.table[: tokens.size(1)]", "self.table[: tokens.size(0), None]")
DEFAULT = ("nn.init.normal_(self.words.weight, std=d_model**-0.5)", "pass")
TRAINED = ('self.register_buffer("table", table)', "self.table = nn.Parameter(table)")
NO_FACTOR = (" * math.sqrt(self.words.embedding_dim)", "")
PLAIN = ('self.register_buffer("table", table)', "self.table = table")


def layer(*changes):
    source = LAYER
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    space = {
        "torch": torch,
        "math": math,
        "nn": nn,
        "positional_encoding": positional_encoding,
    }
    exec(source, space)
    return space["mutant"]


class Composed(nn.Sequential):
    def __init__(self, vocab_size, d_model, max_length):
        positions = PositionalEncoding(d_model, dropout=0.1, max_length=max_length)
        super().__init__(TokenEmbedding(vocab_size, d_model), positions)


@pytest.mark.parametrize(
    "sound",
    [
        layer(),
        Composed,
        layer(DEFAULT, NO_FACTOR),
        layer((TRAINED[0], "self.table = nn.Parameter(table, requires_grad=False)")),
    ],
)
def test_no_sound_layer_is_blamed(sound):
    for _ in range(3):
        assert_all_right(lesson01.input_layer.findings(sound), 3)


def test_the_layer_as_handed_out_is_not_attempted():
    for changes in ([AXIS, DEFAULT, TRAINED], [AXIS, TRAINED, DEFAULT]):
        found = lesson01.input_layer.findings(layer(*changes))
        assert [finding.mark for finding in found] == ["○"]
    for nothing in (None, ...):
        assert lesson01.input_layer.findings(nothing)[0].mark == "○"


ANYWHERE = "indexed along the batch"
LAYER_MUTANTS = {
    "the axis": ([AXIS], [0], ["indexed along the batch, not along the length"]),
    "the size": ([DEFAULT], [1], ["drown the positions"]),
    "the parameter": ([TRAINED], [2], ["768 numbers besides the words"]),
    "axis and size": ([AXIS, DEFAULT], [0, 1], [ANYWHERE, "drown the positions"]),
    "axis and parameter": ([AXIS, TRAINED], [0, 2], [ANYWHERE, "would be trained"]),
    "size and parameter": ([DEFAULT, TRAINED], [1, 2], ["drown", "would be trained"]),
    "no factor": ([NO_FACTOR], [1], ["are drowned by positions"]),
    "another size": ([("d_model**-0.5", "0.02")], [1], ["of size 0.16"]),
    "no positions": ([(" + self.table[: tokens.size(1)]", "")], [0], ["no positions"]),
    "plain attribute": ([PLAIN], [2], ["neither parameter nor buffer"]),
    "frozen words": (
        [
            (
                "std=d_model**-0.5)",
                "std=d_model**-0.5)\n        self.words.requires_grad_(False)",
            ),
        ],
        [2],
        ["only 0 numbers are trained"],
    ),
    "positions multiplied": (
        [
            (
                "embedded = self.words(tokens) * math",
                "return (self.words(tokens) + self.table[: tokens.size(1)]) * math",
            ),
        ],
        [0],
        ["the positions are multiplied, too"],
    ),
    "positions from 1": (
        [("[: tokens.size(1)]", "[1 : tokens.size(1) + 1]")],
        [0],
        ["not those of the sinusoids"],
    ),
    "one row too many": (
        [("[: tokens.size(1)]", "[tokens.size(1)]")],
        [0],
        ["no positions are added"],
    ),
}


@pytest.mark.parametrize("name", LAYER_MUTANTS)
def test_faults_of_the_layer_are_named(name):
    changes, places, parts = LAYER_MUTANTS[name]
    found = lesson01.input_layer.findings(layer(*changes))
    wrong = [place for place, finding in enumerate(found) if finding.mark == "✗"]
    assert wrong == places, found
    for place, part in zip(places, parts, strict=True):
        assert part in found[place].text, found[place].text


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (layer()(10, 8, 5), "hand over the class itself"),
        (layer((NO_FACTOR[0], NO_FACTOR[0] + ".mean()")), "stopped with"),
        (layer(("tokens.size(1)]", "tokens.size(1)].mean()")), "no positions"),
        (layer((" + self.table", " @ self.table")), "RuntimeError"),
        (
            layer(
                (
                    "encoding(max_length, d_model)",
                    "encoding(max_length, d_model)[:, None]",
                )
            ),
            "axis in the middle",
        ),
        (layer((" + self.table", ".detach() + self.table")), "no gradient reaches"),
        (layer(("return embedded", "return embedded[0]")), "are to give (3, 8, 64)"),
        (dict, "stopped with"),
        (int, "stopped with"),
    ],
)
def test_a_layer_that_does_not_work_is_described(answer, part):
    found = lesson01.input_layer.findings(answer)
    assert any(finding.mark == "✗" and part in finding.text for finding in found), found


def test_the_check_of_the_layer_leaves_the_random_numbers_alone():
    before = torch.get_rng_state()
    lesson01.input_layer.findings(layer())
    assert torch.equal(before, torch.get_rng_state())


# ---------------------------------------------------------------- strange ones

STRANGE = {
    "nothing": lambda *x: None,
    "a string": lambda *x: "waves",
    "a tuple": lambda *x: (torch.ones(2), torch.ones(2)),
    "numpy": lambda *x: np.ones((7, 6)),
    "a generator": lambda *x: (y for y in x),
    "complex": lambda *x: torch.ones(7, 6) * 1j,
    "booleans": lambda *x: torch.ones(7, 6) > 0,
    "sparse": lambda *x: torch.eye(8).to_sparse(),
    "on no device": lambda *x: torch.ones(8, 8, device="meta"),
    "no dimension": lambda *x: torch.tensor(1.0),
    "no elements": lambda *x: torch.zeros(0),
    "trainable": lambda *x: torch.ones(8, 8, requires_grad=True),
    "a class": dict,
    "a module": nn.Linear(2, 2),
    "a number": 3,
    "no argument": lambda: 1,
    "division": lambda *x: 1 / 0,
    "leaves": lambda *x: exit(),
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize(
    "check",
    [lesson01.sinusoids, lesson01.shift, lesson01.input_layer],
    ids=lambda check: check.__name__,
)
def test_no_answer_is_too_strange(check, name, capsys, drawn):
    assert check(STRANGE[name]) is None
    assert_answers(capsys)
