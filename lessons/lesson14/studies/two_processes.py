"""When do two processes train faster than one, on the same batch and two cores?

A training step (forward, backward, clipping, AdamW) of models from small to large, on
the same batch of sentences: by one process with one thread, by one process with two
threads, and by two processes with one thread each, which share the batch and average
their gradients. The three take turns, so that what else the machine does meets all of
them. Nothing else should run on the two cores.
"""

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from torch import distributed as dist

from helpers.batching import Batch, make_batch
from helpers.scale.processes import OneProcess, Processes
from helpers.training import Trainer, TrainingConfig
from helpers.transformer import Transformer, TransformerConfig

WIDTHS = (16, 32, 64, 128, 256, 512)
SENTENCES = (8, 64)  # of 16 target tokens each
WAYS = {"one, 1 thread": (1, 1), "one, 2 threads": (1, 2), "two": (2, 1)}
ROUNDS = 7
SECONDS = 0.25  # of steps in each turn, one step at least


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each batch, width and way; `tiny`: the smallest."""
    sizes = [(n, width) for n in SENTENCES for width in WIDTHS]
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        ends, workers = [], []
        for rank in range(2):
            ours, theirs = context.Pipe()
            options = {"args": (rank, f"{folder}/meeting", theirs), "daemon": True}
            workers.append(context.Process(target=work, **options))
            workers[-1].start()
            ends.append(ours)
        try:
            for sentences, width in sizes[:1] if tiny else sizes:
                yield from compare(ends, sentences, width, rounds=2 if tiny else ROUNDS)
        finally:
            for end in ends:
                end.send(None)
            for worker in workers:
                worker.join()


def compare(
    ends: list[Connection], sentences: int, width: int, rounds: int
) -> Iterator[dict]:
    """The rows of one batch and width: each way has its turn in every round."""
    steps, times = dict.fromkeys(WAYS, 1), {way: [] for way in WAYS}
    parameters = 0
    for number in range(rounds + 2):  # two to warm up, and to see how long a step takes
        for way, (processes, threads) in WAYS.items():
            job = {"sentences": sentences, "width": width, "processes": processes}
            job |= {"threads": threads, "steps": steps[way]}
            for end in ends[:processes]:
                end.send(job)
            # Each waits for the other at every step: the first one's clock is both's.
            answers = [end.recv() for end in ends[:processes]]
            seconds, parameters = answers[0]
            steps[way] = max(1, round(SECONDS / seconds))
            if number > 1:
                times[way].append(1000 * seconds)
    for way, found in times.items():
        yield {
            "tokens": 16 * sentences,
            "width": width,
            "parameters": parameters,
            "way": way,
            "milliseconds": round(statistics.median(found), 3),
            "least": round(min(found), 3),
            "most": round(max(found), 3),
        }


def work(rank: int, meeting: str, orders: Connection) -> None:
    """A process of the pair: time the steps that it is told to take, until None."""
    torch.set_num_threads(1)
    path = Path(meeting).as_uri()
    dist.init_process_group("gloo", init_method=path, rank=rank, world_size=2)
    trainers: dict[tuple, Trainer] = {}
    while job := orders.recv():
        alone = job["processes"] == 1
        key = job["sentences"], job["width"], alone
        if key not in trainers:
            if key[:2] not in {known[:2] for known in trainers}:
                trainers.clear()  # the memory of the size before
            trainers[key] = trainer_of(job["width"], alone)
        trainer, batch = trainers[key], batch_of(job["sentences"])
        torch.set_num_threads(job["threads"])
        started = time.perf_counter()
        for _ in range(job["steps"]):
            trainer.train_step(batch, progress=0.5)
        seconds = (time.perf_counter() - started) / job["steps"]
        torch.set_num_threads(1)
        weights = sum(p.numel() for p in trainer.model.parameters())
        orders.send((seconds, weights))
    trainers.clear()
    dist.destroy_process_group()


def trainer_of(width: int, alone: bool) -> Trainer:
    """A trainer of a Transformer with two layers a side and 1,000 words."""
    torch.manual_seed(0)
    sizes = {"d_model": width, "n_heads": 4, "d_ff": 4 * width, "n_layers": 2}
    model = Transformer(TransformerConfig(1000, 1000, dropout=0.0, **sizes))
    unread = [([4], [4])]  # a trainer demands data; this one is given its batch
    processes = OneProcess() if alone else Processes()
    config = TrainingConfig(epochs=1, peak_rate=1e-4)
    return Trainer(model, unread, unread, config, processes=processes)


def batch_of(sentences: int) -> Batch:
    """So many sentences of 15 words each, which makes 16 tokens with the end."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(4, 1000, (2, sentences, 15), generator=generator)
    return make_batch([*zip(ids[0].tolist(), ids[1].tolist(), strict=True)])
