"""Mixed precision and averaged weights, all of it on the CPU."""

import math

import pytest
import torch
from torch.testing import assert_close

from helpers.batching import make_batch
from helpers.scale.precision import PRECISIONS, Precision, best_precision
from helpers.training import Trainer, TrainingConfig
from samples import average_weights
from test_training import fresh_model, id_pairs


def make_trainer(precision="fp32", epochs=3, **options):
    config = TrainingConfig(
        epochs=epochs, tokens_per_batch=64, peak_rate=3e-3, **options
    )
    return Trainer(
        fresh_model(),
        id_pairs(60),
        id_pairs(10, seed=9),
        config,
        precision=Precision(precision),
    )


def losses(reports):
    return [(report.train_loss, report.validation_loss) for report in reports]


def copied_weights(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


# --- The device decides ---------------------------------------------------------------


def test_a_cpu_computes_in_fp32():
    assert best_precision(torch.device("cpu")) == "fp32"
    pairs = id_pairs(3)
    trainer = Trainer(fresh_model(), pairs, pairs, TrainingConfig(epochs=1))
    assert trainer.precision.name == "fp32"


@pytest.mark.parametrize(
    ("capability", "expected"), [((8, 0), "bf16"), ((7, 5), "fp16")]
)
def test_a_gpu_computes_in_bf16_if_it_can(monkeypatch, capability, expected):
    """An A100, and a T4, which emulates bf16 unless it is told not to."""

    def supported(including_emulation=True):
        return capability >= (8, 0) or including_emulation

    monkeypatch.setattr(torch.cuda, "is_bf16_supported", supported)
    assert best_precision(torch.device("cuda")) == expected


def test_an_unknown_precision_is_named():
    with pytest.raises(ValueError, match=r"one of fp32, bf16, fp16: 'int8'"):
        Precision("int8")


# --- Smaller types --------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_smaller_types_learn_about_as_well(precision):
    reference = losses(make_trainer("fp32", epochs=8).fit())
    found = losses(make_trainer(precision, epochs=8).fit())
    assert all(math.isfinite(loss) for pair in found for loss in pair)
    assert found[-1][0] < found[0][0] - 0.3
    # Rounding changes the path, not where it leads; dropout draws the same numbers.
    assert_close(torch.tensor(found), torch.tensor(reference), atol=0.05, rtol=0)
    assert found != reference


@pytest.mark.parametrize("precision", PRECISIONS)
def test_only_matrix_products_take_the_smaller_type(precision):
    trainer, seen = make_trainer(precision=precision), []
    model = trainer.model
    model.projection.register_forward_hook(lambda m, i, out: seen.append(out.dtype))
    with trainer.precision.autocast():
        loss, _ = trainer.loss(make_batch(id_pairs(7)))
    assert seen == [PRECISIONS[precision]] and loss.dtype == torch.float32
    next(iter(trainer.epochs()))
    assert {x.dtype for x in model.parameters()} == {torch.float32}
    assert {x.grad.dtype for x in model.parameters()} == {torch.float32}
    moments = trainer.optimizer.state_dict()["state"].values()
    assert {state["exp_avg_sq"].dtype for state in moments} == {torch.float32}


def test_the_clipped_gradient_is_the_true_one():
    """Only fp16 is scaled up, and what Adam gets is as long as the limit."""
    scales = {name: Precision(name).scaler.get_scale() for name in PRECISIONS}
    assert scales == {"fp32": 1.0, "bf16": 1.0, "fp16": 2.0**16}
    trainer = make_trainer(precision="fp16")
    trainer.train_step(make_batch(id_pairs(7)), 0.5)
    norm = torch.stack([x.grad.norm() for x in trainer.model.parameters()]).norm()
    assert norm.item() == pytest.approx(trainer.config.clip_norm, rel=1e-3)


def test_a_step_that_overflows_is_left_out_and_the_scale_halves():
    trainer = make_trainer(precision="fp16")
    trainer.precision.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)
    before, batch = copied_weights(trainer.model), make_batch(id_pairs(7))
    trainer.train_step(batch, progress=0.5)
    assert trainer.precision.scaler.get_scale() == 2.0**39
    after = trainer.model.state_dict()
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert math.isfinite(trainer.loss_sum)


# --- Averaged weights -----------------------------------------------------------------


def entered(trainer):
    """The weights that should enter the mean, kept while the trainer runs."""
    states, ordinary = [], trainer.train_step

    def kept(batch, progress):
        ordinary(batch, progress)
        if progress >= 0.5 and trainer.step % 2 == 0:
            states.append(copied_weights(trainer.model))

    trainer.train_step = kept
    return states


def test_the_mean_is_that_of_the_right_steps_and_changes_no_step():
    trainer = make_trainer(average_from=0.5, average_every=2)
    states = entered(trainer)
    reports = trainer.fit()
    assert len(states) == trainer.average.count and len(states) > 3
    assert_close(trainer.averaged_weights(), average_weights(states))
    assert losses(reports) == losses(make_trainer().fit())


def test_without_a_mean_the_last_weights_serve():
    trainer = make_trainer(epochs=1)
    trainer.fit()
    last = trainer.model.state_dict()
    assert all(torch.equal(x, last[n]) for n, x in trainer.averaged_weights().items())


# --- Stop and go on -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_stopped_run_ends_with_the_same_numbers(precision, tmp_path):
    options = {"precision": precision, "average_from": 0.3, "average_every": 2}

    def one():
        trainer = make_trainer(**options)
        # Grows within the run, so that its own counter is part of the state.
        trainer.precision.scaler = torch.amp.GradScaler(
            "cpu", enabled=precision == "fp16", growth_interval=5
        )
        return trainer

    straight = one()
    expected = losses(straight.fit())
    first = one()
    ordinary = first.train_step

    def nine_steps(*arguments):
        ordinary(*arguments)
        first.stop_requested = first.step == 9

    first.train_step = nine_steps
    first.fit()
    torch.save(first.state_dict(), tmp_path / "run.pt")
    again = one()
    torch.manual_seed(99)  # the saved random state is what counts
    again.load_state_dict(torch.load(tmp_path / "run.pt", weights_only=True))
    again.fit()
    assert losses(again.reports) == expected
    assert again.precision.state_dict() == straight.precision.state_dict()
    assert again.average.count == straight.average.count > 0
    ours, theirs = again.averaged_weights(), straight.averaged_weights()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
