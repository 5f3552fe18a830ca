"""A run that is saved as it goes: what an interrupt costs, and what a kill."""

import signal
from contextlib import suppress

import pytest
import torch

from helpers.scale.checkpoints import resume_run
from helpers.scale.runs import saved_epochs
from test_training import make_trainer


@pytest.fixture
def handler():
    """Python's own handler of Ctrl-C, which must be back afterwards."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def kill():
    raise SystemExit


@pytest.mark.usefixtures("handler")
@pytest.mark.parametrize("end", [lambda: signal.raise_signal(signal.SIGINT), kill])
def test_a_run_that_ended_goes_on_to_the_same_numbers(end, tmp_path):
    def trainer(ends_at=0):
        torch.manual_seed(3)

        def schedule(step, progress):
            if step == ends_at:
                end()
            return 1e-3

        return make_trainer(schedule=schedule)

    expected = trainer().fit()
    an_epoch, path = expected[0].step, tmp_path / "run.pt"
    with suppress(SystemExit):
        [*saved_epochs(trainer(ends_at=an_epoch + 2), path, {})]
    again = trainer()
    resume_run(path, again, {})
    # Ctrl-C loses nothing, a kill the epoch in progress.
    assert again.step == (an_epoch if end is kill else an_epoch + 2)
    assert len(again.reports) == 1 and not again.finished
    [*saved_epochs(again, path, {})]
    for now, then in zip(again.reports, expected, strict=True):
        assert (now.step, now.train_loss) == (then.step, then.train_loss)
        assert now.validation_loss == then.validation_loss
    assert [*saved_epochs(again, path, {})] == []


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
