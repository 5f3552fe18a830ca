"""Which circuit does a trained reader of stories use, and does one layer suffice?

Readers of two layers are trained from several first weights. In each, the contexts of
layer 1 at the told names, at the drinks, or at the asked names are replaced by those
from a story in which the drinks or the told names are handed on; `told`, `drinks` and
`asked` are the shares of answers that then follow the other story. `finder` is that
share for the head of layer 2 that looks hardest at the asked name's fact, `rest` for
the other head. Readers of one layer have the same four heads, all in that layer, and
are trained for longer.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers.patching import record_contexts, replace_contexts
from lessons.lesson06.stories import (
    Stories,
    StoryReader,
    accuracy,
    draw_stories,
    hand_on,
    places,
    shares,
    train_on_stories,
)

SEEDS, LONG_SEEDS = range(20), range(3)
STEPS, LONG = 1500, 3000
# Where layer 1 is replaced, and what the other story has handed on.
WAYS = {"told": "drink", "drink": "told", "asked": "told"}


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each reader; `tiny`: two, hardly trained."""
    grid = [(2, seed) for seed in SEEDS] + [(1, seed) for seed in LONG_SEEDS]
    if tiny:
        yield from (measure(grid[i], steps=2, count=20) for i in (0, -1))
        return
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(2, mp_context=context, **one_thread) as pool:
        yield from pool.map(measure, grid)


def measure(where: tuple, steps: int = 0, count: int = 600) -> dict:
    """Train a reader; how well it answers, and whose story its answers follow."""
    n_layers, seed = where
    steps = steps or (STEPS if n_layers == 2 else LONG)
    training = draw_stories(3000, 0, new_pair=False)
    usual = draw_stories(count, 1, new_pair=False, unlike=training)
    new = draw_stories(count, 2, new_pair=True)
    torch.manual_seed(seed)
    model = StoryReader(n_layers, n_heads=4 // n_layers)  # four heads in all
    train_on_stories(model, training, steps=steps, seed=seed)
    found = {"layers": n_layers, "seed": seed, "steps": steps}
    found |= {"right": accuracy(model, usual)["asked"]}
    found |= {"new": accuracy(model, new)["asked"], "loss": loss(model, usual)}
    if n_layers == 2:
        found |= circuit(model, new)
    return {key: round(value, 4) for key, value in found.items()}


@torch.no_grad()
def loss(model: nn.Module, data: Stories) -> float:
    """The mean cross-entropy at the asked names."""
    asked = places(data)["asked"]
    return F.cross_entropy(model(data.tokens)[asked], data.answers[asked]).item()


def circuit(model: StoryReader, data: Stories) -> dict[str, float]:
    """The shares of answers that follow another story."""
    at = places(data)
    found = {
        name: follows(model, data, hand_on(data, WAYS[name]), 0, [0, 1], at[name])
        for name in WAYS
    }
    hardest = shares(model, data)[2:, 1].amax(dim=0)  # of layer 2, from the asked names
    finder = int(hardest.argmax())
    other = hand_on(data, "drink")
    for name, head in (("finder", finder), ("rest", 1 - finder)):
        found[name] = follows(model, data, other, 1, [head], at["asked"])
    return found


@torch.no_grad()
def follows(
    model: StoryReader,
    data: Stories,
    other: Stories,
    layer: int,
    heads: list[int],
    where: Tensor,
) -> float:
    """The share of asked names answered as in the other story, its contexts put in."""
    with record_contexts(model) as contexts:
        model(other.tokens)
    attention = model.encoder.layers[layer].self_attention
    put_in = [*contexts.values()][layer]
    with replace_contexts(attention, heads, put_in, where):
        answers = model(data.tokens).argmax(dim=-1)
    asked = places(data)["asked"]
    return (answers == other.answers)[asked].float().mean().item()
