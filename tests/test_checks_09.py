"""Lesson 09's checks: every mistake is caught by name, nothing sound is blamed."""

import math

import numpy as np
import pytest
import torch
from findings import assert_all_right, assert_answers, assert_wrong
from torch.nn import functional as F

from helpers import BOS, EOS, PAD
from helpers.batching import make_batch, pad
from helpers.checks import lesson09


def mutant(source, name, *changes):
    """The function `name` of the source, with pieces of its text replaced."""
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    space = {"torch": torch, "F": F, "math": math, "pad": pad}
    space |= {"PAD": PAD, "BOS": BOS, "EOS": EOS}
    exec(source, space)
    return space[name]


# ------------------------------------------------------------------- 09.1, the shift

SIDES = """
def sides(rows):
    read = [[BOS] + row for row in rows]
    say = [row + [EOS] for row in rows]
    longest = max(len(row) for row in read)
    def fill(rows):
        return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    return fill(read), fill(say)
"""
READ = "[[BOS] + row for row in rows]"
SAY = "[row + [EOS] for row in rows]"
FILL = "row + [PAD] * (longest - len(row)) for"
GIVE = "return fill(read), fill(say)"
SIDES_MUTANTS = {
    "the labels are what the decoder reads": [(SAY, "[[BOS] + row for row in rows]")],
    "the decoder reads what it must say": [(READ, "[row + [EOS] for row in rows]")],
    "neither side has its mark": [(READ, "rows"), (SAY, "rows")],
    "the padding stands on the left": [
        (FILL, "[PAD] * (longest - len(row)) + row for")
    ],
    "short rows are filled up with EOS": [("[PAD] *", "[EOS] *")],
    "the two sides are swapped": [(GIVE, "return fill(say), fill(read)")],
    "only what the decoder reads is returned": [(GIVE, "return fill(read)")],
    "only the labels are returned": [(GIVE, "return fill(say)")],
    "BOS and EOS have changed places": [
        (READ, "[[EOS] + row for row in rows]"),
        (SAY, "[row + [BOS] for row in rows]"),
    ],
}
# These leave the two sides with another length each.
OTHER_LENGTHS = {
    "the decoder's first token is missing": [(READ, "rows")],
    "the labels do not end in <eos>": [(SAY, "rows")],
    "the labels begin with <bos>": [(SAY, "[[BOS] + row + [EOS] for row in rows]")],
    "the decoder also reads <eos>": [(READ, "[[BOS] + row + [EOS] for row in rows]")],
}
PADDED_BY_SIDE = (GIVE, "return pad(read), pad(say)")


def course_sides(rows):
    batch = make_batch([([], row) for row in rows])
    return batch.decoder_input, batch.labels


def as_a_list(rows):
    return list(mutant(SIDES, "sides")(rows))


@pytest.mark.parametrize("sound", [mutant(SIDES, "sides"), course_sides, as_a_list])
def test_both_sides_right(sound):
    assert_all_right(lesson09.both_sides.findings(sound), 2)


@pytest.mark.parametrize("name", SIDES_MUTANTS)
def test_mistakes_with_the_sides_are_named(name):
    wrong = mutant(SIDES, "sides", *SIDES_MUTANTS[name])
    assert_wrong(lesson09.both_sides.findings(wrong), name)


@pytest.mark.parametrize("name", OTHER_LENGTHS)
def test_mistakes_with_one_mark_are_named(name):
    wrong = mutant(SIDES, "sides", PADDED_BY_SIDE, *OTHER_LENGTHS[name])
    assert_wrong(lesson09.both_sides.findings(wrong), name)


def test_a_missing_end_where_both_sides_have_one_length():
    wrong = mutant(SIDES, "sides", (SAY, "rows"))
    assert_wrong(lesson09.both_sides.findings(wrong), "the labels do not end in <eos>")


def test_what_is_wrong_with_the_sides_without_a_name_is_described():
    def of(give):
        wrong = mutant(SIDES, "sides", (GIVE, f"return {give}"))
        return lesson09.both_sides.findings(wrong)

    assert_wrong(of("3"), "return two tensors", "int")
    assert_wrong(of("read, say"), "decoder_input is to be a tensor of ids, not: list")
    assert_wrong(of("fill(read), fill(say) + 1"), "labels of the sentence [7, 5, 9] is")
    assert_wrong(of("fill(read)[:, :2], fill(say)"), "has the shape (3, 2), not (3, 4)")
    assert_wrong(of("fill(read).float(), fill(say)"), "ids are whole numbers")
    assert_wrong(of("fill(oops), fill(say)"), "NameError", "(line ")


# -------------------------------------------------------------- 09.2, the masked loss

LOSS = """
def loss(logits, labels):
    logs = torch.log_softmax(logits, dim=-1)
    losses = -logs.gather(2, labels.unsqueeze(2)).squeeze(2)
    real = labels != PAD
    return losses[real].sum() / real.sum()
"""
SOFTMAX = "torch.log_softmax(logits, dim=-1)"
MEAN = "return losses[real].sum() / real.sum()"
ONE_NUMBER = "return (losses[real].sum() / real.sum()).item()"
LOSS_MUTANTS = {
    "padding counts like a word": [(MEAN, "return losses.mean()")],
    "the loss is that of the padding alone": [("!= PAD", "== PAD")],
    "the ends of the sentences do not count": [("labels != PAD", "labels > EOS")],
    "the number of all places, padding included": [
        (MEAN, "return losses[real].sum() / labels.numel()")
    ],
    "it is the mean of the sentences' means": [
        (MEAN, "return ((losses * real).sum(1) / real.sum(1)).mean()")
    ],
    "the sum over the tokens is not divided": [(MEAN, "return losses[real].sum()")],
    "divided by the number of sentences": [
        (MEAN, "return losses[real].sum() / len(labels)")
    ],
    "a loss for each token is returned:": [(MEAN, "return losses * real")],
    "a loss for each token is returned, without": [(MEAN, "return losses[real]")],
    "the sign is wrong": [("-logs", "logs")],
    "the softmax is missing": [(SOFTMAX, "logits")],
    "the logarithm is missing": [("log_softmax", "softmax")],
    "the softmax is taken twice": [(SOFTMAX, "logits.softmax(-1).log_softmax(-1)")],
    "over the places of the sentence": [("dim=-1", "dim=1")],
    "the softmax runs over the sentences": [("dim=-1", "dim=0")],
}


def ignoring(logits, labels):
    return F.cross_entropy(logits.mT, labels, ignore_index=PAD)


def row_by_row(logits, labels):
    total = count = 0
    for scores, row in zip(logits, labels, strict=True):
        real = row != PAD
        total = total + F.cross_entropy(scores[real], row[real], reduction="sum")
        count += int(real.sum())
    return total / count


@pytest.mark.parametrize("sound", [mutant(LOSS, "loss"), ignoring, row_by_row])
def test_masked_loss_right(sound, seed):
    assert_all_right(lesson09.masked_loss.findings(sound, seed=seed), 3)


@pytest.mark.parametrize("name", LOSS_MUTANTS)
def test_mistakes_in_the_loss_are_named(name, seed):
    wrong = mutant(LOSS, "loss", *LOSS_MUTANTS[name])
    if (name, seed) == ("it is the mean of the sentences' means", 9):
        name = "padding counts like a word"  # there both come to 4.005
    assert_wrong(lesson09.masked_loss.findings(wrong, seed=seed), name)


def test_two_mistakes_in_the_loss(seed):
    wrong = mutant(LOSS, "loss", ("-logs", "logs"), (MEAN, "return losses.mean()"))
    found = lesson09.masked_loss.findings(wrong, seed=seed)
    assert_wrong(found, "the sign is wrong", "padding counts like a word")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ((MEAN, MEAN.replace("losses", "losses.detach()")), "no gradient reaches"),
        ((MEAN, ONE_NUMBER), "no gradient reaches the logits"),
        ((MEAN, f"{MEAN} + (losses - losses.detach()).sum()"), "reaches padded places"),
        (
            (MEAN, "return losses / 0"),
            "one number is due, not a tensor of shape (3, 6)",
        ),
        ((MEAN, f"{MEAN} / 0"), "the loss is inf"),
        ((MEAN, f"{MEAN} * 3"), "is due"),
        ((MEAN, "return losses, real"), "return one number, the loss, as a tensor"),
        ((MEAN, "return oops"), "NameError"),
        ((MEAN, "logits -= 1\n    " + MEAN), "changes its inputs in place"),
    ],
)
def test_what_else_is_wrong_with_the_loss(change, part):
    wrong = mutant(LOSS, "loss", change)
    found = lesson09.masked_loss.findings(wrong)
    assert_wrong(found, part)


# ------------------------------------------------------------ 09.3, label smoothing

SMOOTH = """
def smooth(logits, labels, epsilon):
    vocab = logits.size(1)
    target = torch.full_like(logits, epsilon / vocab)
    target[torch.arange(len(labels)), labels] = 1 - epsilon + epsilon / vocab
    logs = logits.log_softmax(dim=1)
    return -(target * logs).sum(dim=1).mean()
"""
OTHERS = "torch.full_like(logits, epsilon / vocab)"
RIGHT_ONE = "1 - epsilon + epsilon / vocab"
LOGS = "logits.log_softmax(dim=1)"
CROSS = "return -(target * logs).sum(dim=1).mean()"
ENTROPY = "torch.xlogy(target, target).sum(1)"
SMOOTH_MUTANTS = {
    "shared among the wrong tokens only": [
        (OTHERS, "torch.full_like(logits, epsilon / (vocab - 1))"),
        (RIGHT_ONE, "1 - epsilon"),
    ],
    "the target sums to less than 1": [(RIGHT_ONE, "1 - epsilon")],
    "to more than 1: the right token keeps": [(RIGHT_ONE, "1 + epsilon / vocab")],
    "the right token keeps all of its 1 and": [(RIGHT_ONE, "1")],
    "nothing is smoothed": [(OTHERS, "torch.zeros_like(logits)"), (RIGHT_ONE, "1")],
    "every wrong token gets ε whole": [
        (OTHERS, "torch.full_like(logits, epsilon)"),
        (RIGHT_ONE, "1 - epsilon"),
    ],
    "and the wrong ones nothing": [
        (OTHERS, "torch.zeros_like(logits)"),
        (RIGHT_ONE, "1 - epsilon"),
    ],
    "ε and 1 - ε have changed places": [
        (OTHERS, "torch.full_like(logits, (1 - epsilon) / vocab)"),
        (RIGHT_ONE, "epsilon + (1 - epsilon) / vocab"),
    ],
    "the model's probabilities are smoothed": [
        (OTHERS, "torch.zeros_like(logits)"),
        (RIGHT_ONE, "1"),
        (LOGS, "((1 - epsilon) * logits.softmax(1) + epsilon / vocab).log()"),
    ],
    "Kullback–Leibler": [
        (CROSS, f"return ({ENTROPY} - (target * logs).sum(1)).mean()")
    ],
    "the sign is wrong": [("-(target", "(target")],
    "the mean runs over the vocabulary, too": [("sum(dim=1).mean()", "mean()")],
    "the sum over the tokens is not divided": [("sum(dim=1).mean()", "sum()")],
    "a loss for each token is returned": [("sum(dim=1).mean()", "sum(dim=1)")],
    "the logarithm is missing": [("log_softmax", "softmax")],
    "the softmax is missing": [(LOGS, "logits")],
}


def pytorchs(logits, labels, epsilon):
    return F.cross_entropy(logits, labels, label_smoothing=epsilon)


def mixture(logits, labels, epsilon):
    losses = -logits.log_softmax(-1)
    right = losses[torch.arange(len(labels)), labels]
    return ((1 - epsilon) * right + epsilon * losses.mean(-1)).mean()


@pytest.mark.parametrize("sound", [mutant(SMOOTH, "smooth"), pytorchs, mixture])
def test_smoothing_right(sound, seed):
    assert_all_right(lesson09.smoothed_loss.findings(sound, seed=seed), 3)


@pytest.mark.parametrize("name", SMOOTH_MUTANTS)
def test_mistakes_in_smoothing_are_named(name, seed):
    wrong = mutant(SMOOTH, "smooth", *SMOOTH_MUTANTS[name])
    assert_wrong(lesson09.smoothed_loss.findings(wrong, seed=seed), name)


def test_numbers_written_down_are_found():
    fixed = mutant(SMOOTH, "smooth", ("size(1)", "size(1)\n    epsilon = 0.1"))
    assert_wrong(lesson09.smoothed_loss.findings(fixed), "with ε = 0")
    fixed = mutant(SMOOTH, "smooth", ("logits.size(1)", "7"))
    assert_wrong(lesson09.smoothed_loss.findings(fixed), "with a vocabulary of 50")


@pytest.mark.parametrize("epsilon", ["", " + 1e-12"])
def test_the_logarithm_of_softmax_is_named(epsilon):
    wrong = mutant(SMOOTH, "smooth", (LOGS, f"(logits.softmax(dim=1){epsilon}).log()"))
    found = lesson09.smoothed_loss.findings(wrong)
    assert_wrong(found, "where the model is very sure", "take `log_softmax`")


# --------------------------------------------------------------- all of the first three

STRANGE = {
    "nothing": lambda *x: None,
    "a string": lambda *x: "loss",
    "an empty tuple": lambda *x: (),
    "None twice": lambda *x: (None, None),
    "numpy": lambda *x: (np.ones((3, 4)), np.ones((3, 4))),
    "numbers": lambda *x: (1.0, 2.0),
    "a number": lambda *x: 1,
    "true": lambda *x: True,
    "complex": lambda *x: torch.ones((), dtype=torch.complex64),
    "complex twice": lambda *x: (torch.ones(3, 4) * 1j,) * 2,
    "sparse": lambda *x: (torch.eye(3).to_sparse(),) * 2,
    "on no device": lambda *x: (torch.ones(3, 4, device="meta"),) * 2,
    "no dimension": lambda *x: (torch.tensor(1.0), torch.tensor(1.0)),
    "no elements": lambda *x: torch.zeros(0),
    "nan": lambda *x: torch.tensor(math.nan),
    "a dictionary": lambda *x: {"loss": 1},
    "a module": torch.nn.Linear(2, 2),
    "not callable": 3,
    "no argument": lambda: 1,
    "division": lambda *x: 1 / 0,
}
CHECKS = [lesson09.both_sides, lesson09.masked_loss, lesson09.smoothed_loss]


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_no_answer_is_too_strange(check, name, capsys):
    assert check(STRANGE[name]) is None
    assert_answers(capsys)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_not_attempted(check):
    assert [finding.mark for finding in check.findings(lambda *x: None)] == ["○"]


@pytest.mark.parametrize(
    ("version", "mistakes", "inputs"),
    [
        (lesson09.sides, lesson09.SIDES_MISTAKES, lesson09.ROWS[:1]),
        (
            lesson09.masked,
            lesson09.LOSS_MISTAKES,
            (torch.ones(3, 6, 11), pad([[7] * 6, [8] * 2, [9] * 3])),
        ),
        (
            lesson09.smoothed,
            lesson09.SMOOTH_MISTAKES,
            (torch.ones(5, 7), torch.tensor([0, 1, 2, 3, 4]), 0.1),
        ),
    ],
    ids=["sides", "loss", "smoothing"],
)
def test_mistakes_can_be_combined_without_an_error(version, mistakes, inputs):
    assert not lesson09.recognise(torch.zeros(0), version, mistakes, inputs)


# ----------------------------------------------------------- 09.4, three trainings


@pytest.mark.slow
def test_the_trainings_show_their_faults():
    before = torch.get_rng_state()
    trainings = lesson09.trainings()
    assert torch.equal(before, torch.get_rng_state())  # chance is left as it was
    healthy, heart, sees, deaf = (trainings[name] for name in ("healthy", *"ABC"))
    assert all(
        run.train_loss[0] == pytest.approx(3, abs=0.1) for run in trainings.values()
    )
    assert healthy.exact > 0.8 and healthy.exchanged_loss > 4
    assert heart.train_loss[-1] < 0.05 and heart.validation_loss[-1] > 3 > heart.exact
    assert sees.validation_loss[-1] < 0.05 and sees.exchanged_loss < 0.5
    assert deaf.validation_loss[-1] == pytest.approx(deaf.exchanged_loss, abs=0.1)
    assert deaf.train_loss[-1] > 2
    assert all(run.exact < 0.1 for run in (heart, sees, deaf))


ANSWERS = {"A": "by heart", "B": "sees the answer", "C": "does not hear"}


def test_the_right_diagnosis():
    assert_all_right(lesson09.diagnosis.findings(**ANSWERS), 3)
    loud = {name: f" {answer.upper()}. " for name, answer in ANSWERS.items()}
    assert_all_right(lesson09.diagnosis.findings(**loud), 3)


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize(
    "answer",
    [
        *ANSWERS.values(),
        "rate too high",
        "padding in the loss",
        "labels not shifted",
    ],
)
def test_a_wrong_diagnosis_gets_a_hint_and_not_the_answer(name, answer):
    if answer == ANSWERS[name]:
        return
    found = lesson09.diagnosis.findings(**ANSWERS | {name: answer})
    wrong = [finding for finding in found if finding.mark == "✗"]
    assert len(wrong) == 1 and f"training {name} is not “{answer}”" in wrong[0].text
    assert f"“{ANSWERS[name]}”" not in wrong[0].text


@pytest.mark.parametrize("answer", ["healthy", 3, "", torch.ones(2), ["by heart"]])
def test_an_unknown_diagnosis(answer):
    found = lesson09.diagnosis.findings(**ANSWERS | {"B": answer})
    assert found[1].mark == "✗" and "is none of the six" in found[1].text


def test_no_diagnosis():
    for answers in ({}, dict.fromkeys("ABC"), dict.fromkeys("ABC", ...)):
        found = lesson09.diagnosis.findings(**answers)
        assert [finding.mark for finding in found] == ["○"] * 3
