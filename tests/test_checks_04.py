"""Lesson 04's checks: every mistake is caught by name, nothing sound is blamed."""

import math

import pytest
import torch
from findings import assert_all_right, assert_answers, assert_wrong

from helpers.checks import lesson04

# ------------------------------------------------------------ 04.1 split and join


def split(x, n_heads):
    batch, length, d_model = x.shape
    return x.view(batch, length, n_heads, d_model // n_heads).permute(0, 2, 1, 3)


def join(context):
    batch, heads, length, d_head = context.shape
    return context.permute(0, 2, 1, 3).contiguous().view(batch, length, heads * d_head)


@pytest.mark.parametrize(
    ("split_heads", "join_heads"),
    [
        (split, join),
        (lesson04.split, lesson04.join),
        (
            lambda x, n: torch.stack(x.chunk(n, dim=2), dim=1),
            lambda c: torch.cat(c.unbind(1), dim=-1),
        ),
        (
            lambda x, n: x.reshape(*x.shape[:2], n, -1).transpose(-2, -3),
            lambda c: c.swapaxes(1, 2).reshape(len(c), c.size(2), -1),
        ),
    ],
)
def test_sound_ways_to_split_and_join(split_heads, join_heads):
    assert_all_right(lesson04.split_and_join.findings(split_heads, join_heads), 3)


SPLIT_MUTANTS = {
    "in the order in which they lie": lambda x, n: x.view(len(x), n, x.size(1), -1),
    "deals the numbers out": lambda x, n: x.reshape(len(x), n, x.size(1), -1),
    "length still stands before heads": lambda x, n: x.view(*x.shape[:2], n, -1),
    "every n-th feature": lambda x, n: (
        x.unflatten(2, (-1, n)).transpose(2, 3).transpose(1, 2)
    ),
    "cut into (d_head, heads):": lambda x, n: x.unflatten(2, (-1, n)).transpose(1, 2),
    "cut into (d_head, heads) and not": lambda x, n: x.unflatten(2, (-1, n)),
    "heads stand before the batch": lambda x, n: split(x, n).transpose(0, 1),
    "length and features are exchanged": lambda x, n: split(x, n).mT,
    "that is how d2l does it": lambda x, n: split(x, n).flatten(0, 1),
    "is due": lambda x, n: x,
    "numbers themselves have changed": lambda x, n: split(x, n) * 2,
    "in other places": lambda x, n: split(x, n).flip(1),
    "return a tensor": lambda x, n: [x],
}
JOIN_MUTANTS = {
    "one head's features of several tokens": lambda c: c.reshape(len(c), c.size(2), -1),
    "not joined": lambda c: c.transpose(1, 2),
    "length and d_head have become one axis": lambda c: c.flatten(2),
    "take turns": lambda c: c.permute(0, 2, 3, 1).flatten(2),
    "added up": lambda c: c.sum(1),
    "averaged": lambda c: c.mean(1),
    "below each other": lambda c: c.flatten(1, 2),
    "`view` refuses": lambda c: c.transpose(1, 2).view(len(c), c.size(2), -1),
    "in other places": lambda c: join(c).flip(1),
}


@pytest.mark.parametrize("name", SPLIT_MUTANTS)
def test_mistakes_in_the_split_are_named(name):
    found = lesson04.split_and_join.findings(SPLIT_MUTANTS[name], join)
    assert_wrong(found, "split", name) if name != "return a tensor" else assert_wrong(
        found, name
    )


@pytest.mark.parametrize("name", JOIN_MUTANTS)
def test_mistakes_in_the_join_are_named(name):
    found = lesson04.split_and_join.findings(split, JOIN_MUTANTS[name])
    assert_wrong(found, "join", name)
    assert found[0].mark == "✓"


def test_two_mistakes_that_cancel_are_told():
    found = lesson04.split_and_join.findings(
        lambda x, n: x.view(len(x), n, x.size(1), -1),
        lambda c: c.reshape(len(c), c.size(2), -1),
    )
    assert_wrong(found, "Your join undoes it", "in the order in which they lie")


def test_sizes_written_as_numbers_are_found():
    found = lesson04.split_and_join.findings(
        lambda x, n: x.unflatten(2, (4, 5)).transpose(1, 2), join
    )
    assert_wrong(found, "Error")


def test_a_split_alone_is_praised():
    found = lesson04.split_and_join.findings(split, lambda c: None)
    assert [finding.mark for finding in found] == ["✓", "○"]
    found = lesson04.split_and_join.findings(lambda x, n: None, lambda c: None)
    assert [finding.mark for finding in found] == ["○"]


# ------------------------------------------------------------- 04.2 which way back

BACK = {
    "A": "error",
    "B": "mixes tokens",
    "C": "right",
    "D": "mixes heads",
    "E": "right",
}


def test_the_right_ways_back():
    assert_all_right(lesson04.ways_back.findings(BACK), 5)
    shouted = {letter: f" {kind.upper()} " for letter, kind in BACK.items()}
    assert_all_right(lesson04.ways_back.findings(shouted), 5)


def test_the_answers_are_true():
    batch, length, heads, d_head = sizes = 2, 3, 4, 5
    x = torch.arange(math.prod(sizes)).view(batch, length, heads * d_head)
    context = split(x, heads).contiguous()
    with pytest.raises(RuntimeError, match="view size"):
        context.transpose(1, 2).view(x.shape)
    ways = {
        "B": context.reshape(x.shape),
        "C": torch.cat(context.unbind(dim=1), dim=-1),
        "D": context.permute(0, 2, 3, 1).flatten(2),
        "E": context.transpose(1, 2).contiguous().view(x.shape),
    }
    for letter, found in ways.items():
        if torch.equal(found, x):
            kind = "right"
        elif torch.equal(found.sort(dim=2)[0], x):
            kind = "mixes heads"
        else:
            kind = "mixes tokens"
        assert BACK[letter] == kind


@pytest.mark.parametrize("letter", BACK)
@pytest.mark.parametrize("answer", lesson04.KINDS)
def test_every_wrong_way_back_has_a_reason(letter, answer):
    found = lesson04.ways_back.findings(BACK | {letter: answer})
    wrong = [finding for finding in found if finding.mark == "✗"]
    assert len(found) == 5 and len(wrong) == (answer != BACK[letter])
    for finding in wrong:
        assert finding.text.startswith(f"{letter} is not {answer!r}: ")
        assert len(finding.text) > 40


def test_ways_back_not_attempted_or_strange():
    for answers in ({}, dict.fromkeys(BACK), dict.fromkeys(BACK, ...)):
        marks = [finding.mark for finding in lesson04.ways_back.findings(answers)]
        assert marks == ["○"] * 5
    found = lesson04.ways_back.findings(BACK | {"A": "wrong", "B": 3})
    assert "none of right, error" in found[0].text and found[1].mark == "✗"
    assert_wrong(lesson04.ways_back.findings("error"), "a dictionary")
    assert_wrong(lesson04.ways_back.findings(None), "a dictionary")


# ----------------------------------------------------------------- 04.3 count them

NUMBERS = {
    "d_head_big": 64,
    "one_head_base": 98_496,
    "all_heads_base": 1_050_624,
    "twice_the_heads": 1_050_624,
    "weights_base": 2_560_000,
}


def test_right_counts():
    assert_all_right(lesson04.counts.findings(**NUMBERS), 5)
    as_floats = {name: float(number) for name, number in NUMBERS.items()}
    assert_all_right(lesson04.counts.findings(**as_floats), 5)


def test_the_right_counts_are_right():
    def parameters(*modules):
        return sum(p.numel() for module in modules for p in module.parameters())

    base = lesson04.MultiHeadAttention(512, 8)
    assert parameters(base) == NUMBERS["all_heads_base"]
    wide = lesson04.MultiHeadAttention(512, 16)
    assert parameters(wide) == NUMBERS["twice_the_heads"]
    one = [torch.nn.Linear(512, 64) for _ in range(3)]
    assert parameters(*one) == NUMBERS["one_head_base"]
    assert torch.ones(32, 8, 100, 100).numel() == NUMBERS["weights_base"]


@pytest.mark.parametrize(
    ("name", "answer", "part"),
    [
        ("d_head_big", 1024, "that is d_model"),
        ("d_head_big", 128, "16 heads, not 8"),
        ("one_head_base", 3 * 512 * 64, "a bias for each"),
        ("one_head_base", 3 * 512 * 513, "all eight heads"),
        ("one_head_base", 512 * 64 + 64, "there are three"),
        ("all_heads_base", 4 * 512**2, "biases are missing"),
        ("all_heads_base", 8 * 98_496, "output projection is missing"),
        ("all_heads_base", 8 * 1_050_624, "share the 512 features"),
        ("twice_the_heads", 2 * 1_050_624, "narrower heads"),
        ("twice_the_heads", 525_312, "narrower heads"),
        ("weights_base", 320_000, "each of the 8 heads"),
        ("weights_base", 80_000, "each of the 32 sentences"),
        ("weights_base", 163_840_000, "not for each feature"),
        ("weights_base", 7, "too few"),
        ("weights_base", 1e12, "too many"),
        ("weights_base", "many", "a number is due"),
        ("weights_base", True, "a number is due"),
        ("weights_base", (32, 8, 100, 100), "a number is due"),
        ("weights_base", math.nan, "too few"),
    ],
)
def test_wrong_counts_have_a_reason(name, answer, part):
    found = lesson04.counts.findings(**(NUMBERS | {name: answer}))
    wrong = [finding for finding in found if finding.mark == "✗"]
    assert len(wrong) == 1 and len(found) == 5
    assert wrong[0].text.startswith(name) and part in wrong[0].text


def test_counts_not_attempted():
    for answers in ({}, dict.fromkeys(NUMBERS), dict.fromkeys(NUMBERS, ...)):
        marks = [finding.mark for finding in lesson04.counts.findings(**answers)]
        assert marks == ["○"] * 5


# ------------------------------------------------------------ 04.4 the third head

LOUD = 10 * math.sqrt(8)
HEAD_3, WORDS, PLACES, EMPTY = slice(16, 24), slice(0, 8), slice(8, 16), slice(16, 24)


def writer(*, query=LOUD, key=1.0, rows=HEAD_3, columns=WORDS, swap=False):
    """A solution with these factors, rows and columns; `swap` exchanges the two."""

    @torch.no_grad()
    def third_head(module):
        for part, factor in (("query", query), ("key", key)):
            weight = getattr(module, f"{part}_projection").weight
            place = (columns, rows) if swap else (rows, columns)
            weight[place] = factor * torch.eye(8)
        return module

    return third_head


@torch.no_grad()
def with_a_random_basis(module):
    """Any orthogonal matrix will do in place of the identity."""
    basis = torch.linalg.qr(torch.randn(8, 8))[0]
    for part in ("query", "key"):
        getattr(module, f"{part}_projection").weight[HEAD_3, WORDS] = 6 * basis
    return module


@torch.no_grad()
def a_whole_new_weight(module):
    for part in (module.query_projection, module.key_projection):
        weight = part.weight.clone()
        weight[HEAD_3, WORDS] = 6 * torch.eye(8)
        part.weight = torch.nn.Parameter(weight)
    return module


@pytest.mark.parametrize(
    "sound",
    [writer(), writer(query=6, key=6), with_a_random_basis, a_whole_new_weight],
)
def test_sound_third_heads(sound):
    assert_all_right(lesson04.third_head.findings(sound), 4)


def assigned(module):
    module.query_projection.weight = torch.zeros(24, 24)
    return module


def with_gradients(module):
    module.query_projection.weight[HEAD_3, WORDS] = torch.eye(8)
    return module


@torch.no_grad()
def with_a_bias(module):
    module.query_projection.bias[:] = 50.0
    module.key_projection.bias[:] = 50.0
    return module


@torch.no_grad()
def forgets_to_return(module):
    writer()(module)


@torch.no_grad()
def words_ask_for_places(module):
    module.query_projection.weight[HEAD_3, WORDS] = LOUD * torch.eye(8)
    module.key_projection.weight[HEAD_3, PLACES] = torch.eye(8)
    return module


@torch.no_grad()
def words_and_places(module):
    for part, factor in ((module.query_projection, LOUD), (module.key_projection, 1)):
        part.weight[HEAD_3, :16] = factor * torch.eye(8).repeat(1, 2)
    return module


@torch.no_grad()
def the_next_word(module):
    writer()(module)
    module.query_projection.weight[HEAD_3] = LOUD * torch.eye(24)[:8].roll(1, 0)
    return module


@torch.no_grad()
def all_features(module):
    module.query_projection.weight[:] = LOUD * torch.eye(24)
    module.key_projection.weight[:] = torch.eye(24)
    return module


@torch.no_grad()
def spoils_head_1(module):
    module.query_projection.weight[:8] = 0
    return writer()(module)


@torch.no_grad()
def random_weights(module):
    for part in (module.query_projection, module.key_projection):
        part.weight[HEAD_3, WORDS] = 10 * torch.randn(8, 8)
    return module


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        (lambda module: module, ["still asks nothing"]),
        (writer(key=0.0), ["head 3's key is still zero"]),
        (writer(query=0.0), ["head 3's query is still zero"]),
        (writer(query=1.0), ["right words win", "louder"]),
        (writer(query=10.0), ["right words win", "√d_head"]),
        (writer(query=-LOUD), ["is a sign wrong"]),
        (writer(columns=PLACES), ["head 3 compares places"]),
        (writer(columns=EMPTY), ["features 16 to 23, which are empty"]),
        (writer(rows=slice(8, 16)), ["head 2 no longer looks", "rows 16 to 23"]),
        (writer(rows=slice(0, 8)), ["head 1 no longer looks", "rows 16 to 23"]),
        (writer(swap=True), ["columns 16 to 23", "(output, input)"]),
        (spoils_head_1, ["head 1 no longer looks"]),
        (all_features, ["head 1 no longer", "head 2 no longer", "rows 16 to 23"]),
        (words_ask_for_places, ["head 3 compares places"]),
        (words_and_places, ["head 3 compares places"]),
        (the_next_word, ["not on the same words"]),
        (forgets_to_return, ["end with `return module`"]),
        (random_weights, ["compare the pictures"]),
        (writer(query=math.nan), ["NaN"]),
        (with_a_bias, []),
        (assigned, ["TypeError"]),
        (with_gradients, ["keep `@torch.no_grad()`"]),
        (lambda module: torch.eye(8), ["return the module that came in"]),
        (lambda module: module.query_projection, ["not a Linear"]),
    ],
)
def test_wrong_third_heads_have_a_reason(answer, parts):
    assert_wrong(lesson04.third_head.findings(answer), *parts)


def test_third_head_not_attempted():
    assert [f.mark for f in lesson04.third_head.findings(lambda module: None)] == ["○"]


# -------------------------------------------------------------- nothing is too strange

STRANGE = {
    "nothing": lambda *x: None,
    "a string": lambda *x: "heads",
    "a tuple": lambda *x: x,
    "numbers": lambda *x: 1.0,
    "integers": lambda x, *n: x.long(),
    "on no device": lambda x, *n: x.to("meta"),
    "no dimension": lambda *x: torch.tensor(1.0),
    "no elements": lambda *x: torch.zeros(0),
    "complex": lambda x, *n: x * 1j,
    "a module": torch.nn.Linear(2, 2),
    "a number": 3,
    "no argument": lambda: 1,
    "division": lambda *x: 1 / 0,
}


@pytest.mark.parametrize("name", STRANGE)
def test_no_answer_is_too_strange(name, capsys):
    strange = STRANGE[name]
    for call in (
        lambda: lesson04.split_and_join(strange, join),
        lambda: lesson04.split_and_join(split, strange),
        lambda: lesson04.third_head(strange),
        lambda: lesson04.ways_back(strange),
        lambda: lesson04.ways_back(dict.fromkeys(BACK, strange)),
        lambda: lesson04.counts(**dict.fromkeys(NUMBERS, strange)),
    ):
        assert call() is None
        assert_answers(capsys)
