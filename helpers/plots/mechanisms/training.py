"""Drawings of lesson 09: a training step, and rates over a run."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
from torch import Tensor

from helpers.plots import drawing
from helpers.plots.drawing import ROLES
from helpers.plots.style import COLOURS, STYLES

if TYPE_CHECKING:
    from helpers.checks.lesson09 import Training


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
        drawing.write(ax, (0.75, y + 0.27), _shape(*shape), size=8)
        drawing.arrow(ax, box.right, model.left)
    labels = drawing.operation(ax, (5.7, 2.78), "labels", role="input", width=1.1)
    drawing.write(ax, (4.78, 2.78), _shape(*target), size=8)
    drawing.arrow(ax, labels.bottom, loss.top)
    drawing.arrow(ax, model.right, logits.left)
    drawing.arrow(ax, logits.right, loss.left)
    drawing.write(ax, (4.1, forth + 0.32), _shape(*target, vocab_size), size=8)
    drawing.write(ax, (5.6, forth - 0.34), "one number", size=8, align="right")
    gradient = drawing.operation(ax, (5.7, back), "gradient", role="mask", **wide)
    clip = drawing.operation(ax, (4.1, back), "clip", **wide)
    adam = drawing.operation(ax, (2.55, back), "Adam", **wide)
    drawing.arrow(ax, loss.bottom, gradient.top, colour=ROLES["mask"], width=2)
    drawing.arrow(ax, gradient.left, clip.right, colour=ROLES["mask"], width=2)
    drawing.arrow(ax, clip.left, adam.right, colour=ROLES["mask"], width=2)
    drawing.arrow(ax, adam.top, model.bottom, colour=ROLES["mask"], width=2)
    rate = drawing.operation(ax, (0.75, back), "rate", role="input", width=1.2)
    drawing.arrow(ax, rate.right, adam.left)
    drawing.write(ax, (2.65, 1.4), "new weights", size=8, align="left")
    drawing.write(ax, (5.6, 1.3), "backward", size=8, align="right")
    notes = ((5.7, f"{parameters:,} numbers"), (4.1, "norm at most 1"))
    for x, note in (*notes, (2.55, "two means each"), (0.75, "one for each step")):
        drawing.write(ax, (x, back - 0.34), note, size=8)


def _shape(*sizes: int) -> str:
    return "(" + ", ".join(map(str, sizes)) + ")"


def rates_and_losses(
    runs: Mapping[str, tuple[Sequence[float], Tensor]], *, title: str
) -> None:
    """The rate of each step and, below it, the loss, as a mean of ten steps."""
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(6, 4.4), sharex=True, height_ratios=(2, 3)
    )
    for i, (name, (rates, losses)) in enumerate(runs.items()):
        look = {"color": COLOURS[i], "ls": STYLES[i]}
        above.plot(range(1, len(rates) + 1), rates, **look)
        smooth = losses.unfold(0, 10, 10).mean(dim=1)
        steps = range(5, 5 + 10 * len(smooth), 10)
        below.plot(steps, smooth, label=name, **look)
    above.set(ylabel="rate")
    below.set(xlabel="step", ylabel="training loss, nats", ylim=(0, None))
    below.legend(frameon=False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    plt.show()


def trainings(runs: Mapping[str, "Training"], *, guess: float) -> None:
    """The two curves of each training of exercise 09.3, in four panels."""
    figure, axes = plt.subplots(2, 2, figsize=(6, 4.6), sharex=True, sharey=True)
    for ax, (name, run) in zip(axes.flat, runs.items(), strict=True):
        ax.plot(run.steps, run.train_loss, color=COLOURS[0], label="training")
        look = {"ls": "--", "color": COLOURS[5], "label": "validation"}
        ax.plot(run.steps, run.validation_loss, **look)
        ax.axhline(guess, color="grey", lw=1, ls=":")
        ax.set(title=name, xlabel="step", ylabel="loss, nats", ylim=(0, 3.6))
        ax.label_outer()
    axes[0, 0].text(280, guess + 0.06, "blind guess", ha="right", va="bottom")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    title = "One training is healthy, three have a fault each"
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    plt.show()
