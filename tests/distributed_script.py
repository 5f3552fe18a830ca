"""What tests/test_distributed.py starts in two processes, by torchrun.

Called with a folder and the name of one function below. Each process asserts for
itself; one that fails ends them all, with its message.
"""

import dataclasses
import os
import signal
import sys
from pathlib import Path

import torch
from samples import SIZES
from torch import distributed as dist

from helpers.acceleration import AcceleratedTrainer
from helpers.batching import make_batch
from helpers.checkpoints import resume_run, save_run
from helpers.distributed import DistributedTrainer, process_group
from helpers.training import Trainer, TrainingConfig
from helpers.transformer import Transformer, TransformerConfig
from helpers.translator import main

ONE_EPOCH = TrainingConfig(epochs=1, tokens_per_batch=64, peak_rate=4e-3)
TWO_EPOCHS = dataclasses.replace(ONE_EPOCH, epochs=2)


def pairs(count, seed=0):
    """Sentences of very unlike lengths; the targets are the sources turned round."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 13, (count,), generator=generator).tolist()
    sources = [
        torch.randint(4, 20, (n,), generator=generator).tolist() for n in lengths
    ]
    return [(source, source[::-1]) for source in sources]


def trainer_of(kind, config=ONE_EPOCH, *, dropout=0.0, train=45, **options):
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(20, 20, **{**SIZES, "dropout": dropout}))
    return kind(model, pairs(train), pairs(7, seed=1), config, **options)


def gradients(trainer, batch):
    loss, tokens = trainer.loss(batch)
    trainer.optimizer.zero_grad()
    loss.backward()
    return [p.grad.clone() for p in trainer.model.parameters()], loss.item() * tokens


def equals_one_process(folder):
    """Gradients, losses and reports of two are those of one."""
    alone, together = trainer_of(AcceleratedTrainer), trainer_of(DistributedTrainer)
    for count in (6, 7, 3, 1):  # even, uneven, and one process without a sentence
        batch = make_batch(pairs(count, seed=count))
        expected, loss_sum = gradients(alone, batch)
        found, own_sum = gradients(together, batch)
        torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-4)
        assert abs(sum(together.sums(own_sum)) - loss_sum) < 1e-4 * loss_sum

    theirs, ours = list(alone.run()), list(together.run())
    (one,), (two,) = theirs, ours
    assert (one.epoch, one.step) == (two.epoch, two.step)
    assert abs(one.train_loss - two.train_loss) < 1e-4
    assert abs(one.validation_loss - two.validation_loss) < 1e-3
    everybodys = [None, None]
    dist.all_gather_object(everybodys, two)
    assert everybodys[0] == everybodys[1]

    # One validation sentence: the second process has none to read.
    together.validation = alone.validation = pairs(1, seed=1)
    assert abs(together.validation_loss() - alone.validation_loss()) < 1e-3

    # Dropout is drawn anew in each process, or it would hide the same places in all.
    trainer_of(DistributedTrainer)
    drawn = torch.rand(1)
    everybodys = [torch.empty(1), torch.empty(1)]
    dist.all_gather(everybodys, drawn)
    assert everybodys[0] != everybodys[1]


def resumes(folder):
    """A run that was saved by rank 0 alone goes on to the same numbers in both."""
    straight = trainer_of(DistributedTrainer, TWO_EPOCHS, dropout=0.3)
    list(straight.run())

    first = trainer_of(DistributedTrainer, TWO_EPOCHS, dropout=0.3)
    step = first.train_step

    def stop_in_second_epoch(batch, progress):
        step(batch, progress)
        if first.epoch == 1 and first.position == 2 and first.rank == 1:
            first.stop_requested = True  # one process is asked; all stop

    first.train_step = stop_in_second_epoch
    assert len(list(first.run())) == 1 and (first.epoch, first.position) == (1, 3)
    save_run(folder / f"run-{first.rank}.pt", first, {})
    dist.barrier()
    assert sorted(p.name for p in folder.glob("run-*")) == ["run-0.pt"]

    second = trainer_of(DistributedTrainer, TWO_EPOCHS, dropout=0.3)
    resume_run(folder / "run-0.pt", second, {})
    list(second.run())
    for (name, ours), theirs in zip(
        second.model.state_dict().items(),
        straight.model.state_dict().values(),
        strict=True,
    ):
        assert torch.equal(ours, theirs), name
    for ours, theirs in zip(second.reports, straight.reports, strict=True):
        assert abs(ours.train_loss - theirs.train_loss) < 1e-9
        assert ours.validation_loss == theirs.validation_loss

    # Asked to stop and let go on, in the same process.
    again = trainer_of(DistributedTrainer, TWO_EPOCHS)
    again.stop_requested = again.rank == 0
    assert not again.stop_requested  # not before all know of it
    assert list(again.run()) == [] and again.stop_requested and again.position == 1
    again.stop_requested = False
    assert len(list(again.run())) == 2


def stops_by_the_clock(folder):
    """A budget in minutes ends both at the same step, though one clock is ahead."""
    config = TrainingConfig(minutes=1.0, tokens_per_batch=64)
    trainer = trainer_of(DistributedTrainer, config)
    look = Trainer.look_at_clock

    def ahead(self, started):
        look(self, started - (50 if self.rank == 1 else 0))

    Trainer.look_at_clock = ahead
    step = trainer.train_step

    def quick(batch, progress):
        step(batch, progress)
        if trainer.step == 5 and trainer.rank == 1:
            trainer.seconds = 0.0  # overwritten: what counts is the clock's next look
            Trainer.look_at_clock = lambda self, started: look(self, started - 100)

    trainer.train_step = quick
    (report,) = list(trainer.run())
    steps = [None, None]
    dist.all_gather_object(steps, (report.step, report.seconds))
    assert steps[0] == steps[1] and report.step == 5 and report.seconds >= 60, steps


def together(folder):
    with process_group() as device:
        assert device.type == "cpu"
        equals_one_process(folder)
        resumes(folder)
        stops_by_the_clock(folder)


def killed(folder):
    """`helpers.translator train`, whose second process dies once, in epoch 2."""
    step = DistributedTrainer.train_step

    def train_step(self, batch, progress):
        place = (self.rank, self.epoch, self.position)
        if place == (1, 1, 1) and not (folder / "died").exists():
            (folder / "died").touch()
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        step(self, batch, progress)

    DistributedTrainer.train_step = train_step
    assert main(sys.argv[3:]) == 0


if __name__ == "__main__":
    globals()[sys.argv[2]](Path(sys.argv[1]))
