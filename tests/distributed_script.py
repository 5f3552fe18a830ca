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
from torch import distributed as dist

from helpers.batching import make_batch
from helpers.scale.checkpoints import resume_run, save_run
from helpers.scale.processes import OneProcess, Processes, process_group
from helpers.training import Trainer, TrainingConfig
from helpers.transformer import Transformer, TransformerConfig
from helpers.translator.command_line import main
from samples import SIZES

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


STILL = dataclasses.replace(ONE_EPOCH, weight_decay=0.0, clip_norm=1e9)


def trainer_of(processes, config=ONE_EPOCH, *, dropout=0.0, **options):
    torch.manual_seed(0)
    model = Transformer(TransformerConfig(20, 20, **{**SIZES, "dropout": dropout}))
    data = pairs(45), pairs(7, seed=1)
    return Trainer(model, *data, config, processes=processes, **options)


def gradients(processes, batch, **changes):
    """What a step of a trainer at rate 0 leaves: gradients, and the sum of losses."""
    config = dataclasses.replace(STILL, **changes)
    trainer = trainer_of(processes, config, schedule=lambda step, progress: 0.0)
    trainer.train_step(batch, 0.5)
    grads = [p.grad for p in trainer.model.parameters()]
    return grads, trainer.processes.sums(trainer.loss_sum.item())[0]


def equals_one_process(folder):
    """Gradients, losses and reports of two are those of one."""
    for count in (6, 7, 3, 1):  # even, uneven, and one process without a sentence
        batch = make_batch(pairs(count, seed=count))
        expected, loss_sum = gradients(OneProcess(), batch)
        for accumulate in (1, 2):
            found, total = gradients(Processes(), batch, accumulate=accumulate)
            torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-4)
            assert abs(total - loss_sum) < 1e-4 * loss_sum

    alone, together = trainer_of(OneProcess()), trainer_of(Processes())
    (one,), (two,) = alone.fit(), together.fit()
    assert (one.epoch, one.step) == (two.epoch, two.step)
    assert abs(one.train_loss - two.train_loss) < 1e-4
    assert abs(one.validation_loss - two.validation_loss) < 1e-3
    assert together.processes.gather(two) == [two, two]

    # One validation sentence: the second process has none to read.
    alone, together = trainer_of(OneProcess()), trainer_of(Processes())
    together.validation = alone.validation = pairs(1, seed=1)
    (one,), (two,) = alone.fit(), together.fit()
    assert abs(one.validation_loss - two.validation_loss) < 1e-3

    # Dropout is drawn anew in each process, or it would hide the same places in all.
    trainer_of(Processes())
    drawn = torch.rand(1)
    everybodys = [torch.empty(1), torch.empty(1)]
    dist.all_gather(everybodys, drawn)
    assert everybodys[0] != everybodys[1]


def resumes(folder):
    """A run that was saved by rank 0 alone goes on to the same numbers in both."""
    straight = trainer_of(Processes(), TWO_EPOCHS, dropout=0.3)
    straight.fit()

    first = trainer_of(Processes(), TWO_EPOCHS, dropout=0.3)
    step = first.train_step

    def stop_in_second_epoch(batch, progress):
        step(batch, progress)
        if (first.epoch, first.position, first.processes.rank) == (1, 0, 1):
            first.stop_requested = True  # one process is asked; all stop

    first.train_step = stop_in_second_epoch
    assert len(first.fit()) == 1 and first.epoch == 1
    # They ask one another at every tenth step only.
    assert first.step % Processes.agree_every == 0 and first.position > 1
    save_run(folder / f"run-{first.processes.rank}.pt", first, {})
    dist.barrier()
    assert sorted(p.name for p in folder.glob("run-*")) == ["run-0.pt"]

    second = trainer_of(Processes(), TWO_EPOCHS, dropout=0.3)
    resume_run(folder / "run-0.pt", second, {})
    second.fit()
    for (name, ours), theirs in zip(
        second.model.state_dict().items(),
        straight.model.state_dict().values(),
        strict=True,
    ):
        assert torch.equal(ours, theirs), name
    for ours, theirs in zip(second.reports, straight.reports, strict=True):
        assert abs(ours.train_loss - theirs.train_loss) < 1e-9
        assert ours.validation_loss == theirs.validation_loss


def stops_by_the_clock(folder):
    """A budget in minutes ends both at the same step, though one clock is ahead."""
    config = TrainingConfig(minutes=1.0, tokens_per_batch=64)
    trainer = trainer_of(Processes(), config)
    rank, agree = trainer.processes.rank, trainer.processes.agree

    def ahead(seconds, stop):
        jump = 100 if trainer.step == 2 * Processes.agree_every else 50
        return agree(seconds + rank * jump, stop)

    trainer.processes.agree = ahead
    *_, report = trainer.fit()
    steps = trainer.processes.gather((report.step, report.seconds))
    assert steps[0] == steps[1] and report.step == 20 and report.seconds >= 60, steps


def together(folder):
    with process_group() as device:
        assert device.type == "cpu"
        equals_one_process(folder)
        resumes(folder)
        stops_by_the_clock(folder)


def killed(folder):
    """`helpers.translator train`, whose second process dies once, in epoch 2."""
    step = Trainer.train_step

    def train_step(self, batch, progress):
        place = (self.processes.rank, self.epoch, self.position)
        if place == (1, 1, 1) and not (folder / "died").exists():
            (folder / "died").touch()
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        step(self, batch, progress)

    Trainer.train_step = train_step
    assert main(sys.argv[3:]) == 0


if __name__ == "__main__":
    globals()[sys.argv[2]](Path(sys.argv[1]))
