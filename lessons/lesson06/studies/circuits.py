"""Which algorithm does a trained reader of stories follow, and do two layers matter?

Twenty readers of two layers, which differ in their seed. In each, the vectors
after layer 1 at the told names, at the drinks, or at the asked names are replaced by
those of a donor: a story in which the drinks have moved to the next fact, or the names.
`drinks_told` is the share of answers that follow the donor of moved drinks where the
vectors at told names are put in, and so on; `noise` is the largest such share with
random vectors of the same lengths. `new` counts the names asked about in stories with a
new pair, `new_pairs` those of the new pairs alone.

Beside them, readers of one layer with as many heads in all, four; and with d_model 96,
which has more parameters than two layers of d_model 64.
"""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import torch

from lessons.lesson06.stories import (
    STEPS,
    Stories,
    StoryReader,
    draw_stories,
    follow,
    hand_on,
    is_new_pair,
    places,
    right_at_asked,
    train_reader,
)

# Layers, d_model, heads of a layer, seed.
READERS = [(2, 64, 2, seed) for seed in range(20)]
READERS += [(1, d_model, 4, seed) for d_model in (64, 96) for seed in range(3)]


def rows(*, tiny: bool = False) -> Iterator[dict]:
    """A row for each reader; `tiny`: one, hardly trained."""
    if tiny:
        yield measure(*READERS[0], steps=2, count=20)
        return
    context = multiprocessing.get_context("spawn")
    one_thread = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(2, mp_context=context, **one_thread) as pool:
        yield from pool.map(measure, *zip(*READERS, strict=True))


def measure(
    layers: int,
    d_model: int,
    heads: int,
    seed: int,
    steps: int = STEPS,
    count: int = 600,
) -> dict:
    """Train a reader; how well it answers and, with two layers, by which vectors."""
    training = draw_stories(3000, 0, new_pair=False)
    usual = draw_stories(count, 1, new_pair=False, unlike=training)
    new = draw_stories(count, 2, new_pair=True)
    torch.manual_seed(seed)
    model = StoryReader(layers, n_heads=heads, d_model=d_model)
    train_reader(model, training, seed=seed, steps=steps)
    found = {"layers": layers, "d_model": d_model, "seed": seed}
    found |= {"parameters": sum(p.numel() for p in model.parameters())}
    right = {"right": right_at_asked(model, usual), "new": right_at_asked(model, new)}
    if layers == 2:
        right |= {"new_pairs": right_at_asked(model, new, is_new_pair(new))}
        right |= followed(model, new)
    return found | {name: round(share, 4) for name, share in right.items()}


def followed(model: StoryReader, new: Stories) -> dict[str, float]:
    """The shares of answers that follow a donor, by what it moved and where."""
    found, random = {}, []
    for moved in ("drinks", "names"):
        donor = hand_on(new, moved)
        for name, where in places(new).items():
            found[f"{moved}_{name}"] = follow(model, new, donor, where)
            random.append(follow(model, new, donor, where, noise=True))
    return found | {"noise": max(random)}
