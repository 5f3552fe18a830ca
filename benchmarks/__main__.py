"""The course beside what a user would otherwise pick.

    make bench                the table `speed`
    make bench ARGS=course    the seconds of every lesson
    make bench ARGS=gpu       training steps, where there is a GPU

Both sides of a row do the same work, which is checked first; then they take turns, on
one thread, and medians count. Seconds are those that a CPU works. A table, stored
beside this file, holds what its run has measured. Exit status: 1 if a bar is missed.
"""

import argparse
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils.benchmark import Timer
from torch.utils.data import DataLoader

from benchmarks.torch_translator import TorchTranslator
from helpers import PAD, runtime
from helpers.attention import record_attention
from helpers.batching import Batch, bucketed_batches, make_batch
from helpers.decoding import beam_search, greedy_decode, translate_ids
from helpers.runtime import best_device, environment_report
from helpers.scale.precision import PRECISIONS, Precision
from helpers.training import Trainer, TrainingConfig
from helpers.transformer import Transformer, TransformerConfig
from helpers.translator import load_text, trained_toy
from lessons.lesson16.mapping import course_from_blocks
from lessons.lesson16.readings import build_reading
from tools.notebooks import execute, read

FOLDER, VOCABULARY = Path(__file__).parent, 4_000
DEVICE = best_device() if "gpu" in sys.argv else torch.device("cpu")
SIZES = {"d_model": 128, "n_heads": 4, "d_ff": 512, "n_layers": 3, "dropout": 0.1}
BASE = {"d_model": 512, "n_heads": 8, "d_ff": 2048, "n_layers": 6, "dropout": 0.1}
TINY = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 1, "dropout": 0.1}
in_pytorch = TorchTranslator.from_course


def in_turns(works: Sequence[Callable], rounds: int, calls: int = 1) -> list[float]:
    """The median seconds of a call of each work; blocks of so many calls take turns."""
    clock = {} if DEVICE.type == "cuda" else {"timer": process_time}
    timers = [Timer("work()", globals={"work": work}, **clock) for work in works]
    blocks = [[timer.timeit(calls).median for timer in timers] for _ in range(rounds)]
    return np.median(blocks, axis=0).tolist()


def row(work: str, beside: str, sides: Sequence, bar: float, same: str) -> dict:
    """What a row of `speed` says: `ratio`, theirs / ours, is to reach the bar."""
    ratio = sides[1] / sides[0]
    met = "not measured" if math.isnan(ratio) else ratio >= bar
    found = {"work": work, "beside": beside, "ours": sides[0], "theirs": sides[1]}
    return found | {"ratio": ratio, "at least": bar, "met": met, "equal": same}


def random_pairs(number: int) -> list[tuple[list[int], list[int]]]:
    """Ids by chance, of Multi30k's lengths: log-normal, 17.6 and 16.6 on average."""
    torch.manual_seed(0)
    common, own = torch.randn(2, number)
    logs = 2.81 + 0.34 * (0.85 * common + 0.53 * own), 2.76 + 0.31 * common
    lengths = torch.stack(logs, dim=1).exp().round().int().clamp(min=3) - 1
    draw = partial(torch.randint, 4, VOCABULARY)
    return [tuple(draw((n,)).tolist() for n in pair) for pair in lengths.tolist()]


def new_model(sizes: dict) -> Transformer:
    """The same weights at every call; norm last and nothing shared, as the rivals."""
    torch.manual_seed(0)
    config = TransformerConfig(VOCABULARY, VOCABULARY, share_embeddings=False, **sizes)
    return Transformer(config).to(DEVICE)


def d2l_model(sizes: dict) -> nn.Module:
    """d2l's modules, put together as text B of lesson 16 does."""
    return build_reading("B", VOCABULARY, VOCABULARY, **sizes)


def course_step(model: Transformer, name: str = "fp32") -> Callable:
    """A step of the course's trainer in a precision; it gives the mean loss."""
    runtime.keep_freed_memory()
    pair, precision = [([4], [4])], Precision(name, DEVICE)
    options = {"schedule": lambda *_: 1e-3, "precision": precision}
    trainer = Trainer(model.train(), pair, pair, TrainingConfig(epochs=1), **options)

    def step(batch: Batch) -> Tensor:
        trainer.count_from(0.0, 0)
        trainer.train_step(batch, 0.5)
        return trainer.loss_sum / trainer.loss_tokens

    return step


def plain_step(model: nn.Module, name: str = "fp32") -> Callable:
    """A step of a tutorial's loop: logits of all positions, padding ignored."""
    options = {"lr": 1e-3, "betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.01}
    optimizer = torch.optim.AdamW(model.train().parameters(), **options)
    criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)

    def step(batch: Batch) -> Tensor:
        optimizer.zero_grad()
        with Precision(name, DEVICE).autocast():
            logits = model(batch.source, batch.decoder_input)
            loss = criterion(logits.flatten(0, 1), batch.labels.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach().double()

    return step


def peak(work: Callable) -> float:
    """The MiB that a GPU's tensors, or a Linux process, hold at most in five calls."""
    if DEVICE.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        [work() for _ in range(5)]
        return torch.cuda.max_memory_allocated() / 2**20
    if sys.platform != "linux":
        return math.nan
    Path("/proc/self/clear_refs").write_text("5", "utf-8")  # the peak begins anew
    [work() for _ in range(5)]
    status = Path("/proc/self/status").read_text("utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 2**10


def fresh_training(side: str, sizes: dict, calls: int) -> list[float]:
    """MiB beyond model and batch, and seconds of a step, in a process of its own."""
    returned = "runtime.keep_freed_memory = int" if side == "returned" else ""
    made = {"pytorch": "in_pytorch(new_model(sizes))", "d2l": "d2l_model(sizes)"}
    make = "plain_step" if side in made else "course_step"
    code = f"""
from benchmarks.__main__ import *; {returned}
torch.set_num_threads(1); sizes = {sizes}
model = {made.get(side, "new_model(sizes)")}; held = peak(int)
work = partial({make}(model), make_batch(random_pairs(64)))
print(peak(work) - held, *in_turns([work], {calls}))"""
    out = subprocess.check_output([sys.executable, "-c", code], cwd=FOLDER.parent)
    return [float(x) for x in out.split()]


def speed(tiny: bool) -> Iterator[dict]:
    """The course beside others, on a CPU."""
    sizes, sentences, rounds, few = (TINY, 8, 1, 1) if tiny else (SIZES, 64, 7, 3)
    batch = make_batch(random_pairs(sentences))
    ours, blocks = (make(sizes | {"dropout": 0.0}) for make in (new_model, d2l_model))
    theirs = plain_step(in_pytorch(ours)), plain_step(blocks)
    twins = course_step(ours), course_step(course_from_blocks(blocks))
    for step, twin in zip(theirs, twins, strict=True):
        for _ in range(5):
            assert_close(step(batch), twin(batch), rtol=1e-4, atol=0)
    # In processes of their own: what ours does with freed memory stays in its process.
    fresh = partial(fresh_training, sizes=sizes, calls=rounds)
    sides = "ours", "pytorch", "d2l", "returned"
    turns = [[fresh(side) for side in sides] for _ in range(few)]
    mib, (ours, *others) = np.median(turns, axis=0).T.tolist()
    step, same = "s of a training step", "5 losses without dropout"
    yield row(step, "nn.Transformer", (ours, others[0]), 1.3, same)
    yield row(step, "d2l's modules", (ours, others[1]), 1.3, same)
    yield row(
        step, "freed memory given back", (ours, others[2]), 1.05, "fresh processes"
    )
    yield row("MiB of training", "nn.Transformer", mib[:2], 1.0, "fresh processes")
    model = new_model(sizes).eval()
    plain = partial(model, batch.source, batch.decoder_input)
    with torch.no_grad():
        recording = record_attention(model)(plain)
        assert_close(recording(), plain())
        seconds = in_turns([recording, plain], rounds, 5)
    yield row("s of all attention maps", "plain forward", seconds, 0.67, "logits")
    pairs, chance = random_pairs(50 if tiny else 500), torch.Generator()
    ours = [*bucketed_batches(pairs, tokens_per_batch=640, generator=chance)]
    options = {"batch_size": math.ceil(len(pairs) / len(ours)), "shuffle": True}
    theirs = [*DataLoader(pairs, **options, collate_fn=make_batch)]
    assert sum(b.n_tokens for b in ours) == sum(b.n_tokens for b in theirs)
    take = course_step(new_model(sizes))
    works = [lambda x=x: [take(b) for b in x] for x in (ours, theirs)]
    seconds, same = in_turns(works, few), f"tokens of {len(pairs)} pairs"
    yield row("s of an epoch in buckets", "shuffled batches", seconds, 1.3, same)
    translator, text = trained_toy(), load_text("toy").test[: 8 if tiny else 500]
    models = translator.model, in_pytorch(translator.model)
    sources = [translator.source_text.encode(source) for source, _ in text]
    beams = partial(beam_search, beam_size=5)
    for name, decode in (("greedy decoding", greedy_decode), ("beams of 5", beams)):
        works = [partial(translate_ids, x, sources, decode=decode) for x in models]
        assert works[0]() == works[1](), name
        seconds, same = in_turns(works, few), f"ids of {len(text)} sentences"
        yield row(f"s of {name}", "nn.Transformer, no cache", seconds, 1.5, same)


def course(tiny: bool) -> Iterator[dict]:
    """Every lesson once, as many at a time as there are cores, each on one thread."""

    def lesson(path: Path) -> dict:
        started = perf_counter()
        execute(read(path), path.parent)
        return {"lesson": path.stem, "seconds": perf_counter() - started}

    paths = sorted(FOLDER.parent.glob("notebooks/[0-9]*.ipynb"))[: 1 if tiny else None]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        started = perf_counter()
        yield from pool.map(lesson, paths)
    whole = {"lesson": "all", "seconds": perf_counter() - started, "at most": 600}
    yield whole | {"met": whole["seconds"] <= 600}


def gpu(tiny: bool) -> Iterator[dict]:
    """Training steps in three precisions: seconds, and all that tensors take."""
    if DEVICE.type != "cuda" and not tiny:
        raise SystemExit("there is no GPU here that PyTorch can use")
    for sizes, sentences in ((TINY, 8),) if tiny else ((SIZES, 64), (BASE, 256)):
        batch = make_batch(random_pairs(sentences)).to(DEVICE)
        steps = {name: course_step(new_model(sizes), name) for name in PRECISIONS}
        for x in ("fp32", "bf16"):
            steps[f"{x}, nn.Transformer"] = plain_step(in_pytorch(new_model(sizes)), x)
        works = [partial(step, batch) for step in steps.values()]
        for name, work, s in zip(steps, works, in_turns(works, 9, 3), strict=True):
            found = {"d_model": sizes["d_model"], "sentences": sentences, "step": name}
            yield found | {"ms": 1e3 * s, "MiB": -peak(int) + peak(work)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and store the table asked for; 1 if a bar is missed, else 0."""
    tables = {"speed": speed, "course": course, "gpu": gpu}
    parser = argparse.ArgumentParser("make bench")
    parser.add_argument("table", nargs="?", choices=tables, default="speed")
    parser.add_argument("--tiny", action="store_true", help="only see that it runs")
    chosen = parser.parse_args(arguments)
    torch.set_num_threads(1)
    info = Path("/proc/cpuinfo").read_text("utf-8") if sys.platform == "linux" else ""
    cpu, missed = info.partition("model name")[2].partition("\n")[0].strip("\t: "), 0
    versions = ", ".join(f"{name} {v}" for name, v in environment_report().items())
    rows = []
    for row in tables[chosen.table](chosen.tiny):
        rows.append(row)
        print(*row.values(), flush=True)
        missed += row.get("met") is False
    text = pd.DataFrame(rows).to_string(index=False, na_rep="", float_format="%.4g")
    print(text := f"{cpu}, {os.cpu_count()} cores, {versions}\n\n{text}\n")
    if not chosen.tiny:
        (FOLDER / f"{chosen.table}.txt").write_text(text, "utf-8")
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
