"""Lesson 03's checks: every mistake is caught by name, nothing sound is blamed."""

import math

import pytest
import torch
from findings import assert_all_right

from helpers import PAD
from helpers.checks import lesson03
from helpers.masks import causal_mask, decoder_mask, padding_mask
from helpers.probes import influence


def only_wrong(found):
    wrong = [finding for finding in found if finding.mark == "✗"]
    assert len(wrong) == 1, found
    if wrong[0].draw is not None:
        wrong[0].draw()
    return wrong[0].text


# ------------------------------------------------------------- 03.1 three masks


def check_three(padding=padding_mask, causal=causal_mask, decoder=decoder_mask):
    return lesson03.three_masks.findings(padding, causal, decoder)


def test_sound_masks_are_right():
    assert_all_right(check_three(), 6)
    assert_all_right(
        check_three(
            lambda t: (t != PAD).unsqueeze(1).unsqueeze(1),
            lambda n: torch.arange(n)[:, None] >= torch.arange(n),
            lambda t: padding_mask(t) * causal_mask(t.size(1)),
        ),
        6,
    )
    assert_all_right(
        check_three(
            lambda t: padding_mask(t).expand(-1, -1, t.size(1), -1),
            lambda n: torch.tril(torch.ones(1, n, n)) == 1,
            lambda t: torch.logical_and(padding_mask(t), causal_mask(t.size(1))),
        ),
        6,
    )


def test_another_shape_that_does_the_same_is_said_to():
    found = check_three(causal=lambda n: causal_mask(n)[0, 0])
    assert_all_right(found, 6)
    assert "your shape (5, 5) does the same as the usual (1, 1, 5, 5)" in found[2].text


PADDING = [
    ("it is inverted", lambda t: (t == PAD)[:, None, None, :]),
    ("hides padded *queries*", lambda t: (t != PAD)[:, None, :, None]),
    (
        "padding stands on the left",
        lambda t: torch.arange(t.size(1)) < (t != PAD).sum(1)[:, None, None, None],
    ),
    ("other special tokens", lambda t: (t > 3)[:, None, None]),
    ("besides the keys", lambda t: padding_mask(t) & padding_mask(t).mT),
    ("nothing is hidden", lambda t: torch.ones_like(padding_mask(t))),
    ("lined up from the right", lambda t: t != PAD),
    ("lined up from the right", lambda t: (t != PAD)[:, None]),
    ("expected is (3, 1, 1, 5)", lambda t: (t != PAD)[None, None]),
    ("expected is (3, 1, 1, 5)", lambda t: (t != PAD)[:, :, None, None]),
    ("return booleans, not float32", lambda t: padding_mask(t).float()),
    ("return booleans, not int64: a comparison gives", lambda t: padding_mask(t) * 1),
    (
        "not float32: 0 and -inf are another convention",
        lambda t: torch.zeros(t.shape).masked_fill(t == PAD, -math.inf)[:, None, None],
    ),
    ("besides, it is inverted", lambda t: (t == PAD)[:, None, None].int()),
    ("such as `tokens != PAD`", lambda t: t[:, None, None]),
    ("compare the pictures", lambda t: (t != 6)[:, None, None]),
    ("return a tensor, not a list", lambda t: t.tolist()),
    ("return a tensor, not a ndarray", lambda t: padding_mask(t).numpy()),
    ("`~` is for booleans", lambda t: ~(t == PAD).float()[:, None, None]),
    ("expected is (3, 1, 1, 5)", lambda t: padding_mask(t).expand(3, 8, 1, 5)),
    ("wrong for tokens of shape (1, 3)", lambda t: padding_mask(t).expand(3, 1, 1, -1)),
    (
        "is a size written as a number? (your code stopped with RuntimeError: shape",
        lambda t: (t != PAD).reshape(3, 1, 1, 5),
    ),
]
CAUSAL = [
    ("it is inverted", lambda n: torch.ones(1, 1, n, n).triu(1).bool()),
    ("upside down", lambda n: causal_mask(n).mT),
    ("does not see itself", lambda n: torch.ones(n, n, dtype=bool).tril(-1)),
    ("sees the next one", lambda n: torch.ones(n, n, dtype=bool).tril(1)),
    ("nothing is hidden", lambda n: torch.ones(n, n, dtype=bool)),
    ("only the token itself", lambda n: torch.eye(n).bool()),
    ("return booleans, not float32", lambda n: torch.ones(n, n).tril()),
    ("besides, it is inverted", lambda n: torch.ones(n, n).triu(1)),
    ("0 and -inf", lambda n: torch.full((n, n), -math.inf).triu(1)),
    ("expected is (1, 1, 5, 5)", lambda n: causal_mask(n + 1)),
    ("length 3: is a size", lambda n: causal_mask(5)),
]
DECODER = [
    ("it is inverted", lambda t: ~decoder_mask(t)),
    ("*or* in the past", lambda t: padding_mask(t) | causal_mask(t.size(1))),
    ("*or* in the past", lambda t: padding_mask(t) + causal_mask(t.size(1))),
    ("padding is not hidden", lambda t: causal_mask(t.size(1))),
    ("the future is not hidden", padding_mask),
    ("*queries* instead", lambda t: padding_mask(t).mT & causal_mask(t.size(1))),
    ("besides the keys", lambda t: decoder_mask(t) & padding_mask(t).mT),
    ("the past is hidden", lambda t: padding_mask(t) & causal_mask(t.size(1)).mT),
    (
        "does not see itself",
        lambda t: padding_mask(t) & causal_mask(t.size(1)).tril(-1),
    ),
    ("before they are combined", lambda t: ~padding_mask(t) & ~causal_mask(t.size(1))),
    ("*or* in the past", lambda t: ~(~padding_mask(t) & ~causal_mask(t.size(1)))),
    (
        "sees the next one",
        lambda t: padding_mask(t) & torch.ones(t.size(1), t.size(1)).tril(1).bool(),
    ),
    ("lined up from the right", lambda t: decoder_mask(t)[:, 0]),
    (
        "return booleans, not float32",
        lambda t: padding_mask(t) * torch.ones(t.size(1), t.size(1)).tril(),
    ),
    (
        "`&` and `|` are for booleans",
        lambda t: padding_mask(t) & torch.ones(t.size(1), t.size(1)).tril(),
    ),
    ("`[:, None, None, :]`", lambda t: (t != PAD) & causal_mask(t.size(1))[0, 0]),
    (
        "is the length `tokens.size(1)`?",
        lambda t: padding_mask(t) & causal_mask(len(t)),
    ),
    ("written as a number? (your", lambda t: padding_mask(t) & causal_mask(5)),
]


@pytest.mark.parametrize(
    ("which", "part", "wrong"),
    [("padding", *case) for case in PADDING]
    + [("causal", *case) for case in CAUSAL]
    + [("decoder", *case) for case in DECODER],
)
def test_mistakes_in_a_mask_are_named(which, part, wrong):
    found = check_three(**{which: wrong})
    text = only_wrong(found)
    assert text.startswith(f"{which}: ") or f"{which}: " in text
    assert part in text, text
    assert sum(finding.mark == "✓" for finding in found) >= 4


def test_some_masks_attempted_and_some_not():
    found = check_three(causal=lambda n: None, decoder=lambda t: 1 / 0)
    assert [finding.mark for finding in found] == ["✓", "✓", "○", "✗"]
    assert found[2].text == "causal: not attempted yet: the function returns None"
    assert "decoder: your code stopped with ZeroDivisionError" in found[3].text


def test_a_stub_that_says_so_is_not_attempted():
    def stub(tokens):
        raise NotImplementedError

    found = check_three(padding=stub)
    assert found[0].mark == "○" and "padding: not attempted yet" in found[0].text


def test_changed_tokens_are_named():
    def in_place(tokens):
        tokens[tokens == PAD] = 9
        return padding_mask(tokens)

    assert "changes its inputs in place" in only_wrong(check_three(padding=in_place))


# ------------------------------------------------------------ 03.2 predictions

PREDICTED = {
    "decoder_mask_shape": (32, 1, 20, 20),
    "visible_pairs": 18,
    "last_pad_sees": (0, 1, 2, 3),
    "empty_queries": (0, 1),
}


def test_right_predictions_however_written():
    assert_all_right(lesson03.predictions.findings(**PREDICTED), 4)
    other = {
        "decoder_mask_shape": [32, 1, 20, 20],
        "visible_pairs": 18,
        "last_pad_sees": {3, 2, 1, 0},
        "empty_queries": [1, 0],
    }
    assert_all_right(lesson03.predictions.findings(**other), 4)
    measured = {
        "decoder_mask_shape": torch.Size([32, 1, 20, 20]),
        "visible_pairs": torch.tensor(18),
        "last_pad_sees": range(4),
        "empty_queries": torch.tensor([0, 1]).numpy(),
    }
    assert_all_right(lesson03.predictions.findings(**measured), 4)


def test_the_right_predictions_are_true():
    tokens = torch.tensor([[5, 6, 7, 8, PAD, PAD], [PAD, PAD, 5, 6, 7, 8]])
    mask = decoder_mask(tokens)[:, 0]
    assert mask[0].sum() == PREDICTED["visible_pairs"]
    assert tuple(mask[0, 5].nonzero()[:, 0].tolist()) == PREDICTED["last_pad_sees"]
    assert (~mask[1].any(1)).nonzero()[:, 0].tolist() == [0, 1]
    assert decoder_mask(torch.ones(32, 20)).shape == PREDICTED["decoder_mask_shape"]


@pytest.mark.parametrize(
    ("name", "answer", "part"),
    [
        ("decoder_mask_shape", (32, 1, 1, 20), "that is the padding mask"),
        ("decoder_mask_shape", [32, 20, 20], "an axis for the heads"),
        ("decoder_mask_shape", (1, 1, 20, 20), "that is the causal mask"),
        ("decoder_mask_shape", (32, 20, 1, 20), "which two shapes meet"),
        ("visible_pairs", 21, "the causal triangle"),
        ("visible_pairs", 10, "ask as well"),
        ("visible_pairs", 7, "on paper"),
        ("visible_pairs", (18,), "a number is due"),
        ("visible_pairs", "many", "see the text for what is due"),
        ("visible_pairs", True, "see the text for what is due"),
        ("last_pad_sees", (), "a <pad> asks"),
        ("last_pad_sees", (0, 1, 2, 3, 5), "not even see itself"),
        ("last_pad_sees", 3, "a tuple is due"),
        ("empty_queries", (0,), "both are padding"),
        ("empty_queries", (4, 5), "on the left"),
        ("empty_queries", torch.ones(2), "on paper"),
        ("empty_queries", ["a", 1], "on paper"),
    ],
)
def test_wrong_predictions_have_a_reason(name, answer, part):
    found = lesson03.predictions.findings(**(PREDICTED | {name: answer}))
    assert part in only_wrong(found)


def test_predictions_not_attempted():
    half = dict.fromkeys(PREDICTED, (0, None))
    for answers in ({}, dict.fromkeys(PREDICTED), dict.fromkeys(PREDICTED, ...), half):
        found = lesson03.predictions.findings(**answers)
        assert [finding.mark for finding in found] == ["○"] * 4


# ------------------------------------------------------------- 03.3 suspects


def test_the_suspects_do_what_is_said_of_them():
    x = torch.randn(1, 6, 8)
    reach = {name: influence(f, x) > 0 for name, f in lesson03.SUSPECTS.items()}
    real, past = torch.arange(6) < 4, causal_mask(6)[0, 0]
    asks = torch.eye(6).bool()
    due = {
        "A": real | past,
        "B": real & past,
        "C": torch.ones(6, 6).bool(),
        "D": ~(real & past),
    }
    for name, pattern in due.items():
        assert torch.equal((reach[name] | asks)[:4], (pattern | asks)[:4]), name


def test_the_right_names():
    assert_all_right(lesson03.find_mistakes.findings(lesson03.FAULTS), 4)
    shouted = {letter: f" {name.upper()}" for letter, name in lesson03.FAULTS.items()}
    assert_all_right(lesson03.find_mistakes.findings(shouted), 4)


@pytest.mark.parametrize("letter", "ABCD")
@pytest.mark.parametrize("name", lesson03.NAMES)
def test_wrong_names_have_a_reason_and_a_picture(letter, name, capsys):
    if lesson03.FAULTS[letter] == name:
        return
    found = lesson03.find_mistakes.findings(lesson03.FAULTS | {letter: name})
    text = only_wrong(found)
    assert text.startswith(f"{letter}: not “{name}”: ") and len(text) > 40


def test_names_outside_the_list_and_none():
    found = lesson03.find_mistakes.findings(lesson03.FAULTS | {"A": "bug", "C": None})
    assert [finding.mark for finding in found] == ["✗", "✓", "○", "✓"]
    assert "is not in the list" in found[0].text
    assert "dictionary" in lesson03.find_mistakes.findings(["right"])[0].text
    assert all(f.mark == "○" for f in lesson03.find_mistakes.findings({}))


# ------------------------------------------------------- 03.4 PyTorch's two masks


def hidden_by(attn_mask):
    return attn_mask if attn_mask.dtype == torch.bool else attn_mask < 0


def sound(key_padding_mask, attn_mask):
    return ~(key_padding_mask[:, None, None, :] | hidden_by(attn_mask))


def also_sound(key_padding_mask, attn_mask):
    seen = (attn_mask == 0)[None, None]  # False is 0, and so is a float that adds 0
    return seen & ~key_padding_mask[:, None, None]


def sound_by_chance(key_padding_mask, attn_mask):
    return ~key_padding_mask[:, None, None] & ~attn_mask.bool()  # -inf is true, 0 not


@pytest.mark.parametrize("function", [sound, also_sound, sound_by_chance])
def test_sound_translations(function):
    assert_all_right(lesson03.from_pytorch.findings(function), 4)


def test_pytorchs_module_agrees_with_the_right_answer():
    module = torch.nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.randn(1, 5, 4)
    padded, future = torch.tensor([[False] * 3 + [True] * 2]), ~causal_mask(5)[0, 0]
    _, weights = module(x, x, x, key_padding_mask=padded, attn_mask=future)
    assert torch.equal(weights > 0, sound(padded, future)[0])


TRANSLATIONS = [
    ("it is inverted", lambda k, a: k[:, None, None] | hidden_by(a)),
    ("`~a & ~b`", lambda k, a: ~k[:, None, None] | ~hidden_by(a)),
    ("only the key_padding_mask", lambda k, a: ~k[:, None, None] & hidden_by(a)),
    ("only the attn_mask", lambda k, a: k[:, None, None] & ~hidden_by(a)),
    (
        "key_padding_mask has no effect",
        lambda k, a: (~hidden_by(a)).expand(3, 1, -1, -1),
    ),
    ("attn_mask has no effect", lambda k, a: ~k[:, None, None]),
    ("padded *queries*", lambda k, a: ~k[:, None, :, None] & ~hidden_by(a)),
    ("neither hides", lambda k, a: k[:, None, None] & hidden_by(a)),
    ("lined up from the right", lambda k, a: ~(k[:, None] | hidden_by(a))),
    (
        "`&` and `|` are for booleans, and something here is floats (a float mask",
        lambda k, a: ~(k[:, None, None] | a),
    ),
    (
        "`~` is for booleans, and something here is floats (a float mask",
        lambda k, a: ~k[:, None, None] & ~a,
    ),
    ("does the batch need", lambda k, a: ~k & ~a),
    (
        "an attn_mask of floats, 0 and -inf",
        lambda k, a: ~k[:, None, None] & (~a if a.dtype == torch.bool else a.bool()),
    ),
    (
        "an attn_mask of floats, 0 and -1e9",
        lambda k, a: sound(k, a if a.dtype == torch.bool else a == -math.inf),
    ),
    ("not causal", lambda k, a: ~k[:, None, None] & causal_mask(5)),
    ("return booleans", lambda k, a: sound(k, a).float()),
]


@pytest.mark.parametrize(("part", "wrong"), TRANSLATIONS)
def test_mistakes_in_the_translation_are_named(part, wrong):
    found = lesson03.from_pytorch.findings(wrong)
    assert part in only_wrong(found)


# --------------------------------------------------------------- strange answers

STRANGE = {
    "nothing": lambda *x: None,
    "a string": lambda *x: "mask",
    "an empty tuple": lambda *x: (),
    "numpy": lambda *x: torch.ones(2).numpy(),
    "complex": lambda *x: torch.ones(5, 5) * 1j,
    "no dimension": lambda *x: torch.tensor(True),
    "no elements": lambda *x: torch.zeros(0, dtype=torch.bool),
    "many axes": lambda *x: torch.ones(1, 1, 1, 1, 5, 5, dtype=torch.bool),
    "on no device": lambda *x: torch.ones(3, 1, 5, 5, device="meta").bool(),
    "sparse": lambda *x: torch.ones(3, 1, 5, 5).to_sparse(),
    "nan": lambda *x: torch.full((3, 1, 5, 5), math.nan),
    "a class": dict,
    "a number": 3,
    "no argument": lambda: 1,
    "division": lambda *x: 1 / 0,
}


@pytest.mark.parametrize("name", STRANGE)
def test_no_answer_is_too_strange(name, capsys):
    answer = STRANGE[name]
    lesson03.three_masks(answer, answer, answer)
    lesson03.from_pytorch(answer)
    lesson03.find_mistakes(answer)
    lesson03.predictions(visible_pairs=answer, empty_queries=answer)
    lines = capsys.readouterr().out.splitlines()
    assert lines and all(line[:2] in ("✓ ", "✗ ", "○ ") for line in lines)
    assert not any(line.startswith("✓") for line in lines)
