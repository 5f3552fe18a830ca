"""How cost grows: a training step and decoding against length, batch and more.

Each sweep changes one size and keeps the others. Its times are fitted by a power of the
size, and so are the floating-point operations that its matrix products count, which is
what theory says of these very sizes; the last column is the power that theory gives
where that size outgrows everything else. Written to benchmarks/growth.txt and .png.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from matplotlib import pyplot as plt
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.compare import machine, synchronise, timed
from helpers import BOS, EOS, PAD
from helpers.batching import Batch
from helpers.decoding import write_tokens
from helpers.plots.style import COLOURS
from helpers.probes import exponent
from helpers.runtime import best_device
from helpers.training import Trainer, TrainingConfig
from helpers.transformer import Transformer, TransformerConfig

TABLE = Path(__file__).parent / "growth.txt"
PICTURE = TABLE.with_suffix(".png")


@dataclass(frozen=True)
class Point:
    """The sizes of one measurement; those that a sweep does not change stay so."""

    length: int = 32
    batch: int = 8
    vocabulary: int = 4_000
    layers: int = 3
    d_model: int = 128
    n_heads: int = 4
    d_ff: int = 512


# What grows, over which values, and the power that theory gives in the limit, for a
# training step and for decoding with caches. At length n attention costs n² in all,
# one token at a time too; everything else costs the same for every token.
SWEEPS = {
    "length": ((16, 32, 64, 128, 256, 512, 1024), 2),
    "batch": ((1, 2, 4, 8, 16, 32, 64), 1),
    "vocabulary": ((500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000), 1),
    "layers": ((1, 2, 4, 8, 16), 1),
}
# Length is swept on few sentences, so that 1024 tokens do not take minutes.
FIXED = {"length": {"batch": 2}}
KINDS = ("training", "decoding")  # one step, and all of the tokens
RUNS = 3  # of each point; the median counts


def new_model(point: Point, *, dropout: float = 0.1) -> Transformer:
    """A model of the point's sizes on this machine's device, the same at every call."""
    torch.manual_seed(0)
    config = TransformerConfig(
        point.vocabulary,
        point.vocabulary,
        d_model=point.d_model,
        n_heads=point.n_heads,
        d_ff=point.d_ff,
        n_layers=point.layers,
        dropout=dropout,
        max_length=max(1024, point.length),
    )
    return Transformer(config).to(best_device())


def training_step(point: Point) -> Callable[[], None]:
    """A step of the course's trainer on full rows of random ids."""
    generator = torch.Generator().manual_seed(0)
    shape = (point.batch, point.length)
    ids = torch.randint(4, point.vocabulary, shape, generator=generator)
    target = torch.cat([torch.full((point.batch, 1), BOS), ids], dim=1)
    batch = Batch(ids, target).to(best_device())
    pair = [([4], [4])]
    trainer = Trainer(new_model(point), pair, pair, TrainingConfig(epochs=1))
    trainer.model.train()
    return lambda: trainer.train_step(batch, 0.5)


def decoding(point: Point) -> Callable[[], None]:
    """Greedy decoding of exactly `length` tokens from a source of that length."""
    generator = torch.Generator().manual_seed(0)
    shape = (point.batch, point.length)
    source = torch.randint(4, point.vocabulary, shape, generator=generator)
    source, model = source.to(best_device()), new_model(point)

    def never_end(scores: torch.Tensor) -> torch.Tensor:
        scores[:, [PAD, EOS]] = -torch.inf
        return scores.argmax(dim=-1)

    return lambda: write_tokens(model, source, never_end, max_length=point.length)


WORKS = dict(zip(KINDS, (training_step, decoding), strict=True))


def operations(work: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products that one call makes."""
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        work()
    return counter.get_total_flops()


@dataclass(frozen=True)
class Curve:
    """One sweep of one kind of work: sizes, seconds, counted operations."""

    kind: str
    size: str
    values: Sequence[int]
    seconds: Sequence[float]
    operations: Sequence[int]
    limit: int

    @property
    def measured(self) -> float:
        """The fitted power of the times."""
        return exponent(self.values, self.seconds)

    @property
    def counted(self) -> float:
        """The fitted power of the operations, over the same sizes."""
        return exponent(self.values, self.operations)

    @property
    def last(self) -> tuple[float, float]:
        """Both powers over the last two sizes alone, where constants matter least."""
        pairs = (self.seconds, self.operations)
        return tuple(exponent(self.values[-2:], y[-2:]) for y in pairs)

    def __str__(self) -> str:
        span = f"{self.values[0]:,} to {self.values[-1]:,}"
        measured, counted = self.last
        return (
            f"{self.kind:9} {self.size:10} {span:>13} {1e3 * self.seconds[0]:8.1f} "
            f"{1e3 * self.seconds[-1]:8.1f} {self.measured:8.2f} {self.counted:5.2f} "
            f"{measured:8.2f} {counted:5.2f} {self.limit:5}"
        )


HEADER = (
    f"{'':36}      ms        all sizes       last two\n"
    f"{'work':9} {'size':10} {'from … to':>13} {'first':>8} {'last':>8} {'time':>8} "
    f"{'ops':>5} {'time':>8} {'ops':>5} {'limit':>5}"
)


def measure(kind: str, size: str, values: Sequence[int], runs: int = RUNS) -> Curve:
    """One curve. A round visits all sizes, so that none has a slow minute to itself."""
    points = [
        replace(Point(), **FIXED.get(size, {}), **{size: value}) for value in values
    ]
    works = [WORKS[kind](point) for point in points]
    for work in works:  # warm up
        work()
    times = [[timed(work) for work in works] for _ in range(runs)]
    columns = [sorted(column) for column in zip(*times, strict=True)]
    seconds = [column[len(column) // 2] for column in columns]
    counts = [operations(work) for work in works]
    return Curve(kind, size, values, seconds, counts, SWEEPS[size][1])


def curves(runs: int = RUNS) -> Iterator[Curve]:
    """All curves, each as soon as it is measured."""
    for kind in KINDS:
        for size, (values, _) in SWEEPS.items():
            yield measure(kind, size, values, runs)


def draw(measured: Sequence[Curve], path: Path = PICTURE) -> None:
    """Log–log plots: dots are times, dashed what the counted operations would take.

    The dashed line is laid through the last dot, where constants matter least.
    """
    sizes = list(dict.fromkeys(curve.size for curve in measured))
    kinds = list(dict.fromkeys(curve.kind for curve in measured))
    figsize = (2.4 * len(sizes) + 0.4, 2.5 * len(kinds) + 0.5)
    figure, axes = plt.subplots(
        len(kinds), len(sizes), figsize=figsize, squeeze=False, sharey="row"
    )
    for curve in measured:
        ax = axes[kinds.index(curve.kind)][sizes.index(curve.size)]
        ms = [1e3 * s for s in curve.seconds]
        ideal = [ms[-1] * count / curve.operations[-1] for count in curve.operations]
        ax.loglog(curve.values, ms, "o", color=COLOURS[0], label="time")
        ax.loglog(curve.values, ideal, "--", color=COLOURS[5], label="operations")
        ax.set_title(
            f"time: power {curve.measured:.2f}\noperations: {curve.counted:.2f}, "
            f"in the limit {curve.limit}",
            fontsize=9,
        )
        ax.set_xlabel(f"{curve.size}" + " (tokens)" * (curve.size == "length"))
        ax.minorticks_off()
        ax.set_xticks(curve.values[:: max(1, len(curve.values) // 3)])
        ax.xaxis.set_major_formatter("{x:,.0f}")
    for row, kind in zip(axes, kinds, strict=True):
        row[0].set_ylabel(f"{kind} (ms)".replace("training", "training step"))
        row[0].yaxis.set_major_formatter("{x:,.0f}")
    axes[0][0].legend(frameon=False, fontsize=8)
    title = "Small sizes pay for calls, large ones for operations"
    figure.suptitle(title, x=0.01, ha="left")
    figure.savefig(path, dpi=90, metadata={"Software": None})
    plt.close(figure)


def main() -> list[Curve]:
    """Measure all curves, store table and picture."""
    started = time.perf_counter()
    lines = [*machine().splitlines(), "", HEADER]
    print("\n".join(lines), flush=True)
    measured = []
    for curve in curves():
        measured.append(curve)
        lines.append(str(curve))
        print(curve, flush=True)
    synchronise()
    print(f"\n{time.perf_counter() - started:.0f} s", flush=True)
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw(measured)
    return measured
