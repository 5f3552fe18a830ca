"""A run that is saved as it goes: what an interrupt costs, and what a kill."""

import signal

import pytest
import torch

from helpers.scale.checkpoints import resume_run
from helpers.scale.runs import saved_epochs
from test_training import make_trainer


def interrupted_at(step):
    """A schedule that presses Ctrl-C at this step; the rate is always the same."""

    def schedule(now, progress):
        if now == step:
            signal.raise_signal(signal.SIGINT)
        return 1e-3

    return schedule


@pytest.fixture
def handler():
    """Python's own handler of Ctrl-C, which must be back afterwards."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("step", [1, 5, 9])
def test_an_interrupted_run_goes_on_to_the_same_numbers(step, tmp_path):
    path, straight = tmp_path / "run.pt", make_trainer(schedule=interrupted_at(0))
    torch.manual_seed(3)
    expected = straight.fit()
    stopped = make_trainer(schedule=interrupted_at(step))
    torch.manual_seed(3)
    before = [*saved_epochs(stopped, path, {})]
    assert stopped.step == step and not stopped.finished
    again = make_trainer(schedule=interrupted_at(0))
    resume_run(path, again, {})
    assert (again.step, again.reports) == (step, before)
    after = [*saved_epochs(again, path, {})]
    losses = [(report.train_loss, report.validation_loss) for report in before + after]
    assert losses == [
        (report.train_loss, report.validation_loss) for report in expected
    ]
    assert [*saved_epochs(again, path, {})] == []


def killed_at(step):
    """A schedule that ends the run at this step, as a killed process does: unsaved."""

    def schedule(now, progress):
        if now == step:
            raise SystemExit
        return 1e-3

    return schedule


@pytest.mark.slow
@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("epochs", [1, 2])
def test_a_killed_run_loses_the_epoch_in_progress(epochs, tmp_path):
    path, straight = tmp_path / "run.pt", make_trainer(schedule=interrupted_at(0))
    torch.manual_seed(3)
    expected = straight.fit()
    ends = [straight.step * n // len(expected) for n in range(len(expected) + 1)]
    killed = make_trainer(schedule=killed_at(ends[epochs + 1]))
    torch.manual_seed(3)
    with pytest.raises(SystemExit):
        [*saved_epochs(killed, path, {})]
    again = make_trainer(schedule=interrupted_at(0))
    resume_run(path, again, {})
    assert (again.step, len(again.reports)) == (ends[epochs], epochs)
    reports = [*again.reports, *saved_epochs(again, path, {})]
    losses = [(report.train_loss, report.validation_loss) for report in reports]
    assert losses == [
        (report.train_loss, report.validation_loss) for report in expected
    ]


@pytest.mark.usefixtures("handler")
def test_a_second_interrupt_ends_it_at_once(tmp_path):
    trainer = make_trainer()
    epochs = saved_epochs(trainer, tmp_path / "run.pt", {})
    next(epochs)
    signal.raise_signal(signal.SIGINT)
    assert trainer.stop_requested
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    epochs.close()
