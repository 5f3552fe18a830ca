"""`make bench`: the course beside what a user would otherwise pick, row by row.

Every row does the same work on both sides and looks first whether the outcomes are
equal: losses of a few steps without dropout, the ids that decoding gives, the sentences
of an epoch. Then both run in turns, and medians count.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks import course
from benchmarks.compare import (
    HEADER,
    ROOT,
    Rate,
    Row,
    demand_equal,
    in_pieces,
    in_turns,
    machine,
    timing_row,
)
from benchmarks.rivals import (
    plain_beam,
    plain_greedy,
    pytorch_model,
    shuffled_batches,
)
from benchmarks.stepping import in_own_processes
from benchmarks.steps import OURS, PLAIN, RIVALS, Steps, work_of
from benchmarks.workload import (
    FULL,
    Data,
    Sizes,
    load_data,
    new_model,
    sentence_pairs,
)
from helpers import EOS, PAD
from helpers.attention import record_attention
from helpers.batching import Batch, bucketed_batches, make_batch, pad
from helpers.decoding import beam_search, greedy_decode, inference, until_end
from helpers.runtime import QuickDropout, best_device
from helpers.training import evaluate_loss, token_loss
from helpers.transformer import Transformer
from helpers.translator import RECIPES

TABLE = Path(__file__).parent / "speed.txt"
RECIPE = RECIPES["multi30k"].training  # of the epoch's batches
TOKENS = RECIPE.tokens_per_batch


def equal_losses(batch: Batch, sizes: Sizes, rival: str) -> str:
    """AssertionError unless both sides lose the same at every one of a few steps."""
    ours = new_model(sizes, dropout=0.0)
    make, kind = RIVALS[rival]
    step = Steps().theirs(make(ours, dropout=0.0), kind)
    trainer = Steps().trainer(ours)
    for i in range(sizes.checked_steps):
        expected = step(batch)
        trainer.count_from(0.0, 0)
        trainer.train_step(batch, 0.5)
        found = trainer.loss_sum.item() / trainer.loss_tokens
        demand_equal(found, expected, f"loss of step {i + 1}, {rival}", rtol=1e-4)
    return f"losses of {sizes.checked_steps} steps without dropout"


# -- the rows --------------------------------------------------------------------------


def training_rows(sizes: Sizes, steps: Steps) -> list[Row]:
    """A training step beside nn.Transformer's, d2l's, and its own without a speed-up.

    The batch has LENGTHS, as shuffled sentences have. Dropout stands where each side
    puts it. Each side has a process of its own, and they take turns.
    """
    batch = make_batch(sentence_pairs(sizes.sentences, sizes.vocabulary))
    batch = batch.to(best_device())
    same = {rival: equal_losses(batch, sizes, rival) for rival in RIVALS}
    same[PLAIN] = "the same model and trainer"
    seconds = in_own_processes([OURS, *same], steps, sizes)
    name = f"training step, {batch.target.size(0)} sentences"
    return [
        timing_row(name, side, [seconds[OURS], seconds[side]], bar, same[side])
        for side, bar in zip(same, (1.3, 1.5, 1.0), strict=True)
    ]


def product_rows(sizes: Sizes, steps: Steps) -> list[Row]:
    """The rate of operations that matrix products reach in a training step.

    Forward and backward, over what the machine reaches: once in a large product, which
    suits it best, and once in the very products of the step, run again on operands of
    their shapes and nothing between them. Attention's own two are among them, as plain
    products.
    """
    step = work_of(OURS, steps, sizes)
    step()
    with ProductLog() as log, sdpa_kernel(SDPBackend.MATH):  # attention's in the open
        step()
    square = torch.randn(LARGE, LARGE, device=best_device())
    log.again()
    works = [step, log.again, lambda: [square @ square for _ in range(LARGE_TIMES)]]
    step_seconds, alone_seconds, large_seconds = in_turns(works, sizes.steps)
    reached, alone = (log.operations / s / 1e9 for s in (step_seconds, alone_seconds))
    best = LARGE_TIMES * 2 * LARGE**3 / large_seconds / 1e9
    options = {"unit": "GFLOP/s", "bar": 0.6, "same": f"{log.number} products"}
    name = "rate of matrix products in it"
    return [
        Rate(name, f"products of {LARGE:,} × {LARGE:,}", reached, best, **options),
        Rate(name, "the same products alone", reached, alone, **options),
    ]


LARGE, LARGE_TIMES = 1024, 10  # large enough for the machine's best


class ProductLog(TorchDispatchMode):
    """Notes the shapes of every matrix product that runs inside its block."""

    NAMES = ("mm", "addmm", "bmm", "baddbmm")

    def __init__(self):
        super().__init__()
        self.shapes: Counter = Counter()

    def __torch_dispatch__(
        self,
        func: Callable,
        types: tuple[type, ...],
        args: tuple = (),
        kwargs: dict | None = None,
    ) -> Any:
        if func.overloadpacket.__name__ in self.NAMES:
            a, b = args[-2:]
            self.shapes[form(a), form(b)] += 1
        return func(*args, **(kwargs or {}))

    @property
    def number(self) -> int:
        """How many products have run."""
        return sum(self.shapes.values())

    @property
    def operations(self) -> int:
        """Floating-point operations: two for each of rows × inner × columns."""
        return sum(
            2 * times * torch.Size(a[0]).numel() * b[0][-1]
            for (a, b), times in self.shapes.items()
        )

    def again(self) -> None:
        """All the products once more, on operands laid out in memory as they were."""
        for (a, b), times in self.operands().items():
            for _ in range(times):
                torch.matmul(a, b)

    def operands(self) -> dict[tuple[Tensor, Tensor], int]:
        """Pairs of random tensors, made at the first call."""
        if not hasattr(self, "kept"):
            self.kept = {
                (rebuilt(a), rebuilt(b)): times for (a, b), times in self.shapes.items()
            }
        return self.kept


def form(x: Tensor) -> tuple:
    """What decides how fast x is read: sizes, strides, type, device."""
    return tuple(x.shape), x.stride(), x.dtype, x.device


def rebuilt(form: tuple) -> Tensor:
    """Random numbers in that form."""
    shape, stride, dtype, device = form
    span = 1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
    return torch.randn(span, dtype=dtype, device=device).as_strided(shape, stride)


def epoch_row(sizes: Sizes, data: Data, steps: Steps) -> Row:
    """An epoch of batches of like length beside one of shuffled batches.

    Both have the same model and trainer, and the same budget of target tokens a batch,
    padding included. Timed are evenly spaced shares of each epoch's batches, in turns;
    a share's time counts as many times as its batches go into the epoch.
    AssertionError unless both hold the same sentences and have one loss.
    """
    pairs = data.pairs[: sizes.pairs]
    options = {"tokens_per_batch": TOKENS}
    pooled = options | {"pool": RECIPE.pool}
    ours = list(bucketed_batches(pairs, generator=seeded(), **pooled))
    theirs = list(shuffled_batches(pairs, generator=seeded(), **options))
    model = data.epoch_model.to(best_device())
    if rows_of(ours) != rows_of(theirs):
        raise AssertionError("the two epochs hold different sentences")
    first = pairs[:500]
    plain = list(shuffled_batches(first, generator=seeded(), **options))
    losses = evaluate_loss(model, first, **options), loss_of(model, plain)
    demand_equal(*losses, "loss over the first sentences", rtol=1e-4)
    step = steps.ours(model)

    def share(batches: list[Batch], start: int) -> Callable[[], None]:
        chosen = [b.to(best_device()) for b in batches[start :: sizes.share]]

        def work() -> None:
            for batch in chosen:
                step(batch)

        work.scale = len(batches) / len(chosen)
        return work

    step(ours[0].to(best_device()))
    starts = range(0, sizes.share, max(1, sizes.share // sizes.shares))
    pieces = [[share(ours, i), share(theirs, i)] for i in starts]
    seconds = [
        [t * work.scale for t, work in zip(in_turns(works, 1), works, strict=True)]
        for works in pieces
    ]
    medians = [median(column) for column in zip(*seconds, strict=True)]
    return timing_row(
        f"one epoch, {data.epoch_name}",
        "shuffled batches",
        medians,
        1.5,
        f"{len(pairs):,} sentences, loss; {len(ours)} and {len(theirs)} batches",
    )


def seeded() -> torch.Generator:
    """A generator that draws the same numbers for both sides."""
    return torch.Generator().manual_seed(0)


def rows_of(batches: Sequence[Batch]) -> Counter:
    """Every sentence pair in the batches, without padding, and how often it occurs."""
    return Counter(
        tuple(tuple(token for token in row if token != PAD) for row in (source, target))
        for batch in batches
        for source, target in zip(
            batch.source.tolist(), batch.target.tolist(), strict=True
        )
    )


def loss_of(model: Transformer, batches: Sequence[Batch]) -> float:
    """Mean loss per token of these batches, as `evaluate_loss` takes it of its own."""
    total, tokens = 0.0, 0
    with inference(model):
        for batch in batches:
            loss, count = token_loss(model, batch.to(best_device()))
            total, tokens = total + loss.item() * count, tokens + count
    return total / tokens


def decoding_rows(sizes: Sizes, data: Data) -> list[Row]:
    """Greedy and beam search beside nn.Transformer without a cache.

    AssertionError unless both give the same ids.
    """
    model = data.translator.model
    theirs = pytorch_model(model, dropout=0.0)
    beam = {"beam_size": 5, "length_penalty": 1.5}
    kinds = {
        "greedy decoding": (greedy_decode, plain_greedy, 2),
        "beam of 5": (
            partial(beam_search, **beam),
            partial(plain_beam, **beam),
            1,
        ),
    }
    batches = source_batches(data.sources[: sizes.decoded])
    rows = []
    for name, (our_way, their_way, rounds) in kinds.items():
        works = [
            (
                Kept(partial(our_way, model, batch, max_length=MAX_LENGTH)),
                Kept(partial(their_way, theirs, batch, max_length=MAX_LENGTH)),
            )
            for batch in batches
        ]
        for work in works[0]:  # warm up
            work()
        seconds = in_pieces(works, rounds)
        ids = [[work.ids for work in side] for side in zip(*works, strict=True)]
        count, agreeing = agreement(*ids)
        if agreeing != count:
            raise AssertionError(f"{name}: {count - agreeing} of {count} differ")
        rows.append(
            timing_row(
                f"{name}, {data.name}",
                "nn.Transformer, no cache",
                seconds,
                4.0,
                f"the ids of all {count:,} sentences",
            )
        )
    return rows


MAX_LENGTH = 64  # Multi30k's longest translation has 58 tokens


class Kept:
    """A piece of work that keeps what its last call gave, in `ids`."""

    def __init__(self, work: Callable[[], Tensor]):
        self.work = work

    def __call__(self) -> None:
        """Work once."""
        self.ids = self.work()


def source_batches(sources: Sequence[list[int]], size: int = 100) -> list[Tensor]:
    """The batches of `translate_ids`: sentences of like length together."""
    rows = sorted(([*source, EOS] for source in sources), key=len)
    return [
        pad(rows[start : start + size]).to(best_device())
        for start in range(0, len(rows), size)
    ]


def agreement(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> tuple[int, int]:
    """How many sentences there are, and how many of them both sides put the same."""
    pairs = [
        (until_end(a), until_end(b))
        for ours_ids, their_ids in zip(ours, theirs, strict=True)
        for a, b in zip(ours_ids.tolist(), their_ids.tolist(), strict=True)
    ]
    return len(pairs), sum(a == b for a, b in pairs)


def recording_row(sizes: Sizes) -> Row:
    """All attention maps of the training step's batch, beside a plain forward."""
    batch = make_batch(sentence_pairs(sizes.sentences, sizes.vocabulary))
    batch = batch.to(best_device())
    model = new_model(sizes, dropout=0.0).eval()
    kept = {}

    def plain() -> None:
        kept["plain"] = model(batch.source, batch.decoder_input)

    def recording() -> None:
        with record_attention(model) as kept["maps"]:
            kept["recorded"] = model(batch.source, batch.decoder_input)

    with torch.no_grad():
        plain(), recording()
        torch.testing.assert_close(kept["plain"], kept["recorded"])
        seconds = in_turns([recording, plain], 2 * sizes.steps)
    return timing_row(
        "attention maps of that batch",
        "plain forward",
        seconds,
        1.5,
        f"the logits; {len(kept['maps'])} maps recorded",
        at_least=False,
    )


def dropout_row(sizes: Sizes) -> Row:
    """Dropout of a sublayer's output in that batch, beside PyTorch's own module.

    AssertionError if either keeps another share of the numbers than it should.
    """
    batch = make_batch(sentence_pairs(sizes.sentences, sizes.vocabulary))
    x = torch.ones(*batch.labels.shape, sizes.d_model, device=best_device())
    modules = QuickDropout(0.1), torch.nn.Dropout(0.1)
    kept = [(module(x) > 0).float().mean().item() for module in modules]
    for share in kept:
        demand_equal(share, 0.9, "share of numbers that dropout keeps", rtol=0.02)
    works = [partial(module, x) for module in modules]
    seconds = in_turns(works, 10 * sizes.steps)
    same = f"shares kept: {kept[0]:.3f} and {kept[1]:.3f}"
    return timing_row("dropout in it", "nn.Dropout", seconds, 1.0, same)


# -- rows that need fresh processes ----------------------------------------------------


def import_row(sizes: Sizes) -> Row:
    """Seconds inside a fresh Python until the import is done."""
    code = (
        "import time; s = time.perf_counter(); import {}; print(time.perf_counter()-s)"
    )
    names = ("helpers.transformer", "torch")
    works = [partial(fresh, "-c", code.format(name)) for name in names]
    for work in works:  # reads the files into the system's cache
        work()
    seconds = in_turns(works, sizes.starts, clock=lambda work: float(work()))
    return timing_row(
        "import helpers.transformer",
        "import torch",
        seconds,
        1.1,
        f"{sizes.starts} fresh processes each",
        at_least=False,
    )


def memory_row(sizes: Sizes) -> Row:
    """The most memory that training takes above what imports, model and batch hold."""
    works = [
        partial(fresh, "-m", "benchmarks.memory", side, json.dumps(asdict(sizes)))
        for side in (OURS, "nn.Transformer")
    ]
    rounds = min(sizes.starts, 3)
    ours, theirs = in_turns(works, rounds, clock=lambda work: float(work()))
    return Row(
        "peak memory of training",
        "nn.Transformer",
        *(ours / 2**20, theirs / 2**20),
        "MiB",
        1.0,
        f"the work above; {rounds} fresh processes each",
        at_least=False,
    )


def fresh(*arguments: str) -> str:
    """What a new Python prints; its errors are raised here."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    return done.stdout.strip()


# -- the table -------------------------------------------------------------------------


def rows(arguments: argparse.Namespace, sizes: Sizes = FULL) -> Iterator[Row]:
    """All rows, each as soon as it is measured."""
    steps = Steps(arguments.precision, arguments.compile)
    yield from training_rows(sizes, steps)
    yield from product_rows(sizes, steps)
    if Path("/proc/self/clear_refs").exists():  # Linux
        yield memory_row(sizes)
    yield dropout_row(sizes)
    yield recording_row(sizes)
    yield import_row(sizes)
    data = load_data(arguments.data, arguments.model, arguments.minutes)
    yield epoch_row(sizes, data, steps)
    yield from decoding_rows(sizes, data)


def main(arguments: argparse.Namespace, sizes: Sizes = FULL) -> list[Row]:
    """Print and store the table, and say how long it took to measure."""
    started = time.perf_counter()
    lines = [*machine().splitlines(), *conditions(arguments), "", HEADER]
    print("\n".join(lines), flush=True)
    measured = []
    for row in rows(arguments, sizes):
        measured.append(row)
        lines.append(str(row))
        print(row, flush=True)
    if course.TABLE.exists():  # make bench ARGS=course
        *_, last = course.TABLE.read_text(encoding="utf-8").splitlines()
        lines.append(
            f"the whole course, every lesson once: {last.split(maxsplit=1)[1]}"
        )
        print(lines[-1])
    print(f"\n{time.perf_counter() - started:.0f} s\n", flush=True)
    TABLE.write_text("\n".join([*lines, NOTES]), encoding="utf-8")
    return measured


def conditions(arguments: argparse.Namespace) -> list[str]:
    """Lines that say what holds for the whole table."""
    steps = f"training in {arguments.precision}"
    if arguments.compile:
        steps += ", the course's step compiled"
    model = f"its recipe after {arguments.minutes:g} minutes of training"
    if arguments.model:
        model = "a model given"
    return [f"{steps}; Multi30k is decoded by {model}; seconds are medians"]


NOTES = f"""
training step: 64 sentences of 16.6 target tokens, spread as Multi30k's, padded to the
longest; dropout where each side has it; loss, gradient, clipping and Adam.
rate: the operations of the step's matrix products, attention's too, over the step's
time, beside the rate of a large product and that of the same products by themselves.
peak memory: resident memory above what imports, model and batch hold, in five steps.
epoch: both in batches of at most {TOKENS} target tokens with padding; timed are six
evenly spaced parts of it, each a fortieth.
decoding: batches of 100 sentences of like length.
"""
