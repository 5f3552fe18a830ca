"""Drawings of lesson 09: a training step, rates over a run, and what they lead to."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt

from helpers.plots import drawing, learning_curves
from helpers.plots.drawing import ROLES
from helpers.plots.style import COLOURS, MARKERS, STYLES

if TYPE_CHECKING:
    from pandas import DataFrame

    from lessons.lesson09.faulty import Training


def draw_step(
    source: Sequence[int], target: Sequence[int], vocab_size: int, parameters: int
) -> None:
    """One training step with shapes: forwards above, back to the weights below.

    source and target are the shapes of what the encoder and the decoder read.
    """
    ax = drawing.canvas(
        6.4, 3.3, title="One training step: forwards, then back to the weights"
    )
    forth, back = 2.1, 0.75
    wide = {"width": 1.1, "height": 0.4}
    model = drawing.operation(ax, (2.55, forth), "model", role="attention", **wide)
    logits = drawing.operation(ax, (4.1, forth), "logits", role="value", **wide)
    loss = drawing.operation(ax, (5.7, forth), "loss", role="mask", **wide)
    for y, name, shape in ((2.52, "source", source), (1.68, "decoder input", target)):
        box = drawing.operation(ax, (0.75, y), name, role="input", width=1.2)
        drawing.write(ax, (0.75, y + 0.27), _shape(*shape), size=10)
        drawing.arrow(ax, box.right, model.left)
    labels = drawing.operation(ax, (5.7, 2.78), "labels", role="input", width=1.1)
    drawing.write(ax, (4.78, 2.78), _shape(*target), size=10)
    drawing.arrow(ax, labels.bottom, loss.top)
    drawing.arrow(ax, model.right, logits.left)
    drawing.arrow(ax, logits.right, loss.left)
    drawing.write(ax, (4.1, forth + 0.32), _shape(*target, vocab_size), size=10)
    drawing.write(ax, (5.6, forth - 0.34), "one number", size=10, align="right")
    gradient = drawing.operation(ax, (5.7, back), "gradient", role="mask", **wide)
    clip = drawing.operation(ax, (4.1, back), "clip", **wide)
    adam = drawing.operation(ax, (2.55, back), "Adam", **wide)
    drawing.arrow(ax, loss.bottom, gradient.top, colour=ROLES["mask"], width=2)
    drawing.arrow(ax, gradient.left, clip.right, colour=ROLES["mask"], width=2)
    drawing.arrow(ax, clip.left, adam.right, colour=ROLES["mask"], width=2)
    drawing.arrow(ax, adam.top, model.bottom, colour=ROLES["mask"], width=2)
    rate = drawing.operation(ax, (0.75, back), "rate", role="input", width=1.2)
    drawing.arrow(ax, rate.right, adam.left)
    drawing.write(ax, (2.65, 1.4), "new weights", size=10, align="left")
    drawing.write(ax, (5.6, 1.42), "zero_grad,", size=10, align="right")
    drawing.write(ax, (5.6, 1.17), "backward", size=10, align="right")
    notes = ((5.62, f"{parameters:,} numbers"), (4.1, "norm at most 1"))
    for x, note in (*notes, (2.55, "two means a weight"), (0.75, "one a step")):
        drawing.write(ax, (x, back - 0.34), note, size=10)


def _shape(*sizes: int) -> str:
    return "(" + ", ".join(map(str, sizes)) + ")"


def rates(schedules: Mapping[str, Callable[[int], float]], *, steps: int) -> None:
    """The rate of each step, counted from 1, by each schedule."""
    _, ax = plt.subplots(figsize=(6, 2.4))
    numbers = range(1, steps + 1)
    curves = {name: (numbers, [*map(f, numbers)]) for name, f in schedules.items()}
    title = "Three starts; after a tenth of the run, the same rates"
    learning_curves(curves, title=title, ylabel="rate", ax=ax)
    ax.set_ylim(bottom=0)
    plt.show()


def peaks(runs: "DataFrame") -> None:
    """The loss of each run by its peak rate, for each start; means joined.

    runs has a row for each, with the columns start, peak and loss.
    """
    _, ax = plt.subplots(figsize=(5.4, 3.4))
    for i, (name, some) in enumerate(runs.groupby("start", sort=False)):
        aside = 1.06 ** (i - 1)  # beside one another on a logarithmic axis
        look = {"color": COLOURS[i], "marker": MARKERS[i], "zorder": 3}
        ax.scatter(some["peak"] * aside, some["loss"], s=14, alpha=0.6, **look)
        means = some.groupby("peak")["loss"].mean()
        ax.plot(means.index * aside, means, ls=STYLES[i], label=name, **look)
    places = sorted(runs["peak"].unique())
    ax.set(xscale="log", xlabel="peak rate", ylabel="validation loss, nats")
    ax.set_xticks(places, [f"{place:g}" for place in places])
    ax.minorticks_off()
    ax.set_title(
        "Three seeds: half the rate, no ramp, is as good as a ramp", loc="left"
    )
    ax.legend(frameon=False, loc="upper left")
    plt.show()


def known_and_new(known: Sequence[float], new: Sequence[float]) -> None:
    """The losses after each epoch: of sentences trained on, and of new ones."""
    epochs = range(1, len(known) + 1)
    learning_curves(
        {"trained on": (epochs, known), "validation": (epochs, new)},
        title=f"One seed: {known[-1]:.2f} on known, {new[-1]:.2f} on new sentences",
        xlabel="epoch",
        ylabel="loss, nats per token",
        log=True,
    )
    plt.show()


def trainings(runs: Mapping[str, "Training"], *, guess: float) -> None:
    """The two curves of each training of exercise 09.2, in four panels.

    The upper two run over powers of ten.
    """
    figure, axes = plt.subplots(2, 2, figsize=(6, 4.8), sharex=True, sharey="row")
    for ax, (name, run) in zip(axes.flat, runs.items(), strict=True):
        look = {"lw": 4, "alpha": 0.45, "color": COLOURS[0], "label": "training"}
        ax.plot(run.steps, run.train_loss, **look)
        look = {"ls": "--", "color": COLOURS[5], "label": "validation"}
        ax.plot(run.steps, run.validation_loss, **look)
        ax.axhline(guess, color="grey", lw=1, ls=":")
        ax.set(title=name, xlabel="step", ylabel="loss, nats")
        ax.label_outer()
    axes[0, 0].set(yscale="log", yticks=[0.001, 0.01, 0.1, 1], ylabel="nats, log axis")
    axes[0, 0].yaxis.set_major_formatter("{x:g}")
    axes[1, 0].set(ylim=(2, 3.2))
    axes[0, 0].text(280, guess * 0.85, "blind guess", ha="right", va="top")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    title = "One seed: A falls faster than the healthy one, B and C stay high"
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    plt.show()
