"""What lesson 09 says of its faulty trainings: each is run."""

import inspect

import pytest
import torch
from torch import nn

import other_styles
from helpers import PAD
from lessons.lesson09 import exercises, faulty
from lessons.studies import study

SEEDS = pytest.mark.parametrize(
    "start", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))]
)


@pytest.mark.slow
@SEEDS
def test_a_healthy_training_and_one_with_padding_in_its_loss(start):
    healthy = faulty.run_with("healthy", start)
    padded = faulty.run_with("padding in the loss", start)
    for run in (healthy, padded):
        assert run.exact > 0.95 and run.validation_loss[-1] < 0.05
        assert run.exchanged_loss > 7
    for i in (1, 2, 3):  # steps 20, 40 and 60
        assert padded.train_loss[i] < padded.validation_loss[i] - 0.2
        assert abs(healthy.train_loss[i] - healthy.validation_loss[i]) < 0.2


@pytest.mark.long
@SEEDS
def test_each_fault_shows_its_sign(start):
    runs = {fault: faulty.run_with(fault, start) for fault in exercises.SIGNS}
    few, sees = runs["too few sentences"], runs["sees the future"]
    deaf, fast = runs["memory is zeros"], runs["rate too high"]
    unshifted = runs["labels not shifted"]
    assert few.train_loss[-1] < 0.005 and few.validation_loss[-1] > 5
    assert max(sees.train_loss[5:] + sees.validation_loss[5:]) < 0.1  # step 100
    assert sees.exact == 0
    assert abs(deaf.exchanged_loss - deaf.validation_loss[-1]) < 0.01
    for curve in (deaf.train_loss, deaf.validation_loss):
        assert all(2.55 < loss < 2.7 for loss in curve[5:])
    assert min(fast.train_loss + fast.validation_loss) > 1.9
    assert fast.exchanged_loss > fast.validation_loss[-1] + 0.3
    assert max(unshifted.train_loss[2:]) < 0.03 and unshifted.validation_loss[-1] > 9
    for run in (few, deaf, fast, unshifted):
        assert run.exact < 0.02


def test_the_study_holds_each_fault_with_its_signs():
    found = study("training_faults").set_index("fault")
    clipped = "rate too high, clipped"
    assert {*found.index} == {"healthy", *exercises.SIGNS, clipped}
    assert found["exact"][clipped].max() == 0
    assert found["training"]["sees the future"].max() < 0.01
    assert found["exact"]["sees the future"].max() == 0
    assert found["exchanged"]["healthy"].min() > 7


def test_a_diagnosis_is_judged_fault_by_fault(capsys):
    exercises.diagnosis(dict.fromkeys("ABC", "memory is zeros"))
    lines = capsys.readouterr().out.splitlines()
    assert "".join(line[0] for line in lines) == "✗✗✓"


LOSS = "\n        losses[i] = loss.item()"
WATCH = "\n        (watch or (lambda step: None))(i + 1)"
FLAWS = {
    "was not moved": ("x.to(device)", "x"),
    "`model.train()`": ("model.train()(", "model("),
    "keep `loss.item()`": ("loss.item()", "loss"),
    "not clipped to norm 1": ("max_norm=1.0", "max_norm=1e9"),
    "Adam has PyTorch's own betas": ("0.98), 1e-9", "0.999)"),
    "before the loss: `cross_entropy` wants": ("(logits, w", "(logits.softmax(-1), w"),
    "the list of losses is": ("/ wanted.count_nonzero()", ""),
    "what is Adam's eps?": ("1e-9", "1e-7"),
    "step 1 moved a weight by 0.001": ("lr=rate(i + 1)", "lr=0.001 + 0 * rate(i + 1)"),
    "step 1 moved a weight by 0 at": ("optimizer.step()", "pass"),
    "each loss is from before a step": ("loss.item()", "2 * loss.item()"),
    "call it last": (
        f"optimizer.step(){LOSS}{WATCH}",
        f"{WATCH.strip()}{LOSS}\n        optimizer.step()",
    ),
}


@pytest.mark.parametrize(("part", "change"), FLAWS.items(), ids=FLAWS)
def test_a_flaw_of_a_loop_is_named(part, change):
    text = inspect.getsource(other_styles.tensor_by_tensor)
    assert text.count(change[0]) == 1
    space = {"torch": torch, "nn": nn, "PAD": PAD}
    exec(text.replace(*change), space)
    findings = exercises.train.findings(space["tensor_by_tensor"])[0]
    assert findings[-1].startswith("✗") and part in findings[-1], findings
