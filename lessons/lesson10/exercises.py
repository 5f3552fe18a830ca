"""The exercises of lesson 10: the whole training, and a prediction."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.optim.optimizer import register_optimizer_step_pre_hook

from helpers import EOS
from helpers.batching import Batch, IdPair, bucketed_batches
from helpers.exercise import Exercise, Outcome, Probe, Wrong, differs
from helpers.training import cosine_rate, token_loss, train
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson10 import run as course

# ------------------------------------------------------------ 10.1 the whole training

STEPS = []  # (the optimizer, its rate), of each step since the last look


class Tiny(Transformer):
    """A small Transformer that notes what it is trained on, and with which weights."""

    def encode(self, source: Tensor) -> Tensor:
        """As the Transformer's."""
        self.source = source
        return super().encode(source)

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """As the Transformer's."""
        if torch.is_grad_enabled():
            weights = parameters_to_vector(self.parameters()).detach().clone()
            self.seen = [*getattr(self, "seen", []), (self.source, target, weights)]
        return super().decode(target, memory, source)


class _Watch:
    """Notes for which steps it was called."""

    def __init__(self):
        self.steps = []

    def __call__(self, step: int) -> None:
        self.steps.append(step)


def _probe(seed: int, n: int, epochs: int, peak: float, watched: bool, **said) -> Probe:
    """A model, n different pairs, and a run of so many epochs."""
    generator, pairs = torch.Generator().manual_seed(seed), []
    for number in range(n):
        lengths = torch.randint(3, 12, (2,), generator=generator).tolist()
        rows = [torch.randint(4, 24, (k,), generator=generator) for k in lengths]
        both = [row.tolist() for row in rows]
        pairs.append(([4 + number // 20, 4 + number % 20, *both[0]], both[1]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = {"d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1, "dropout": 0.0}
        options = {"norm_first": True, "share_embeddings": False}
        model = Tiny(TransformerConfig(24, 24, **sizes, **options))
    return Probe(model, pairs, epochs, peak, *[_Watch()] * watched, **said)


def _traces(
    output: Any,
    model: Tiny,
    pairs: list,
    epochs: int,
    peak: float,
    watch: _Watch | None = None,
) -> tuple:
    """What a run did, whatever the random order of its sentences."""
    seen, steps = getattr(model, "seen", []), STEPS[:]
    STEPS.clear()
    if not seen or len(steps) != len(seen):
        text = f"{len(seen)} batches reach the model, and {len(steps)} steps follow"
        raise Wrong(text)
    _check_losses(output, model, seen)
    rows = [
        tuple(x for x in row if x > 3)
        for source, _, _ in seen
        for row in source.tolist()
    ]
    number = {tuple(source): place for place, (source, _) in enumerate(pairs)}
    places = [number.get(row, -1) for row in rows]
    orders = [places[i : i + len(pairs)] for i in range(0, len(places), len(pairs))]
    by_length = sorted(
        range(len(pairs)), key=lambda i: (len(pairs[i][1]), len(pairs[i][0]))
    )
    return (
        len(seen),
        [sorted(order) for order in orders],
        all(a != b for a, b in pairwise(orders)),
        orders[:1] == [by_length],
        len({optimizer for optimizer, _ in steps}),
        torch.tensor([rate for _, rate in steps]) / peak,
        watch.steps if watch else [],
    )


def _check_losses(output: Any, model: Tiny, seen: list) -> None:
    """Wrong unless these are the losses of the batches, with the weights of then."""
    try:
        losses = torch.tensor([float(loss) for loss in output])
    except (TypeError, ValueError):
        raise Wrong("return the list of losses, as `train` gives it") from None
    if any(getattr(loss, "requires_grad", False) for loss in output):
        raise Wrong("a loss is a number: a tensor keeps all that it was made of")
    if len(losses) != len(seen):
        raise Wrong(f"{len(losses)} losses are returned, of {len(seen)} steps")
    other = deepcopy(model)
    for step in (0, 1, len(seen) - 1):
        source, target, weights = seen[step]
        vector_to_parameters(weights, other.parameters())
        last = (target != EOS).all(dim=1, keepdim=True) * EOS  # cut off of the longest
        batch = Batch(source, torch.cat([target, last], dim=1))
        with torch.no_grad():
            due = token_loss(other, batch)[0]
        if abs(losses[step] - due) > 1e-3:
            text = f"loss {step + 1} is {losses[step]:.4g}, where its batch costs"
            raise Wrong(f"{text} {due:.4g}: return what `train` gives")


class _Run(Exercise):
    """An exercise that notes the rates, and says what a run does first wrong."""

    def _outcome(self, answer: Callable, probe: Probe) -> Outcome:
        STEPS.clear()
        noted = register_optimizer_step_pre_hook(
            lambda optimizer, *_: STEPS.append(
                (optimizer, float(optimizer.param_groups[0]["lr"]))
            )
        )
        try:
            return super()._outcome(answer, probe)
        finally:
            noted.remove()

    def _described(self, yours: Outcome, due: Outcome) -> str:
        if yours.error:
            return super()._described(yours, due)
        (a, *found), (b, *wanted) = yours.output, due.output
        if a != b:
            return f"{a} steps, where {b} are due: check epochs and `tokens_per_batch`"
        texts = (
            "an epoch must hold each sentence once",
            "two epochs have their sentences in the same order",
            "the batches come sorted by length: give `bucketed_batches` a `generator`",
            "call `train` once: each call makes Adam anew",
        )
        for text, one, other in zip(texts, found, wanted, strict=False):
            if differs(one, other):
                return text
        one, other = found[4], wanted[4]
        if differs(one, other):
            i = int((~torch.isclose(one, other, rtol=1e-4, atol=1e-5)).nonzero()[0])
            text = f"the rate of step {i + 1} is {one[i]:.3g} · peak"
            return f"{text}, where {other[i]:.3g} · peak is due"
        return "`watch` is called for other steps than 1, 2, 3 …"


def _wrong(
    model: nn.Module,
    pairs: Sequence[IdPair],
    epochs: int,
    peak: float,
    watch: Callable | None = None,
    *,
    anew: bool = False,
    chance: bool = True,
    most: int | None = None,
    each: bool = False,
    first: int = 1,
    constant: bool = False,
    look: bool = True,
    of_all: bool = True,
) -> list[float]:
    """The run, and with other options what is wrong with it."""
    generator, parts = torch.Generator().manual_seed(0), []
    for _ in range(epochs if most is None else most):
        if anew:
            generator.manual_seed(0)
        options = {"generator": generator} if chance else {}
        parts.append([*bucketed_batches(pairs, tokens_per_batch=1024, **options)])
    runs = parts if each else [[batch for part in parts for batch in part]]
    losses = []
    for batches in runs:
        steps = len(batches) if of_all else len(parts[0])
        losses += train(
            model,
            batches,
            lambda step, steps=steps: (
                peak
                if constant
                else cosine_rate((step - 1 + first) / steps, peak=peak, warmup=0.1)
            ),
            watch if look else None,
        )
    return losses


run = _Run(
    course.run,
    [
        _probe(0, 220, 2, 4e-3, True, praise="two epochs: batches, rates and losses"),
        _probe(
            *(1, 150, 3, 2e-3, False),
            praise="three epochs, another peak, and no `watch`",
            when="with three epochs, and without `watch`: ",
        ),
    ],
    {
        "each epoch has the same batches in the same order: make the generator once, "
        "before the loop, and new batches for each epoch": partial(_wrong, anew=True),
        "the batches come sorted by length: give `bucketed_batches` the `generator`": (
            partial(_wrong, chance=False)
        ),
        "it trains for one epoch only": partial(_wrong, most=1),
        "`train` is called once an epoch, so Adam and the rate begin anew: call it "
        "once, with the batches of all epochs": partial(_wrong, each=True),
        "the first rate is 0: steps count from 1, and the last one's share is 1": (
            partial(_wrong, first=0)
        ),
        "the rate stays at its peak: `cosine_rate` warms it up and lets it fall": (
            partial(_wrong, constant=True)
        ),
        "`watch` is not handed on to `train`": partial(_wrong, look=False),
        "the rate's share is of one epoch: divide by the steps of all epochs": partial(
            _wrong, of_all=False
        ),
    },
    read=_traces,
    lesson="10",
)

# ------------------------------------------------------------ 10.2 which will fail

# {food: whether a quarter of its sentences go wrong, in the mean of the study's seeds}.
FAILS = {
    "some good soup": True,
    "the good soup": False,
    "some red soup": False,
    "some beautiful soup": True,
    "some beautiful bread": False,
    "some beautiful cakes": False,
}
HINTS = {
    "some good soup": "it does fail: look at the errors above",
    "the good soup": "it is as new as *some good soup*, but goes right",
    "some red soup": "it is as new as *some good soup*, but *rouge* follows its noun",
    "some beautiful soup": "*belle* comes first, and *de la* is due, as with *bonne*",
    "some beautiful bread": "*beau* comes first, but *du* is due here",
    "some beautiful cakes": "*beaux* comes first, but *de* is due here",
}


def prediction(fails: Mapping[str, bool | None]) -> None:
    """Say of each food whether the prediction comes true. Never raises."""
    for food, due in FAILS.items():
        said = fails.get(food) if isinstance(fails, Mapping) else None
        if said is None or said is ...:
            print(f"○ {food}: not attempted yet")
        elif isinstance(said, bool | int):
            found = "fails" if due else "goes right"
            right = said == due
            print(f"✓ {food} {found}" if right else f"✗ {food}: {HINTS[food]}")
        else:
            print(f"✗ {food}: True or False?")
